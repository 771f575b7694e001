"""How a sink wants its events converted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calve.columns.fields import ALL_FIELDS, Fields
from calve.columns.names import COLUMN_LIMIT

__all__ = ["ConvertOptions"]


@dataclass(frozen=True)
class ConvertOptions:
    """How a sink wants its events converted.

    Attributes:
        look_for_unknown: Report the fields that have no column or need a wider one (`schema_evolution`), and reject
            the events with a field that can have none.
        on_type_mismatch: What becomes of an event with a value that is not coercible into an optional column: the
            value is `null`, or the event goes to the `dlq`.
        case_insensitive: Match field names by case first, then without.
        fields: The fields that are written; all others are as if the event did not have them.
        count_ignored: Count the fields that have no column.
        declared: Columns in which such a value is null even then.
        timestamp_unit: What numbers in columns of timestamps count; `auto`: what their size suggests.
        timestamp_formats: Java's date patterns, for texts in columns of timestamps and dates that are no ISO 8601.
        column_limit: How many columns a table may get (`look_for_unknown`); an event that needs more is rejected.
        may_lack: Required columns that are null in the row, and no reason to reject it, where the event lacks them.
    """

    look_for_unknown: bool = False
    on_type_mismatch: Literal["null", "dlq"] = "null"
    case_insensitive: bool = False
    fields: Fields = ALL_FIELDS
    count_ignored: bool = False
    declared: frozenset[str] = frozenset()
    timestamp_unit: Literal["s", "ms", "us", "ns", "auto"] = "ms"
    timestamp_formats: tuple[str, ...] = ()
    column_limit: int = COLUMN_LIMIT
    may_lack: frozenset[str] = frozenset()
