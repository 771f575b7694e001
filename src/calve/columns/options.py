"""How a sink wants its events converted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from calve.columns.declared_types import ColumnTypes
from calve.columns.fields import ALL_FIELDS, Fields
from calve.columns.row_rule import RowRule
from calve.event.column_names import COLUMN_LIMIT

__all__ = ["ConvertOptions"]


@dataclass(frozen=True)
class ConvertOptions:
    """How a sink wants its events converted.

    Attributes:
        look_for_unknown: Report fields that have no column or need a wider one (`schema_evolution`), and reject events
            with a field that cannot become a column.
        frees_columns: Report required columns that the schema of a rejected event lacks, to be made optional.
        on_type_mismatch: If a value cannot be converted to an optional column: the value becomes `null`, or the event
            goes to the `dlq`.
        case_insensitive: Match field names by case first, then without.
        fields: The fields to write; all others are ignored.
        count_ignored: Count the fields that have no column.
        declared: Columns in which such a value becomes null in any case.
        timestamp_unit: The unit of numbers in timestamp columns, also of those in texts; `auto`: guessed from their
            size; None: milliseconds, but no numbers in texts.
        timestamp_formats: Java's date patterns, for texts in timestamp and date columns that are not ISO 8601.
        local_times: Columns that were inferred from date-times without an offset: in their timestamps an offset, which
            would be lost, is not coercible.
        column_limit: The most columns of a table (`look_for_unknown`); an event that needs more is rejected.
        overflow: The column of fields that have no column and get none; empty: there is none.
        metadata: The columns that get metadata of the event, each with its attribute; no field is written into them.
        types: The declared types of columns that are added.
        may_lack: Required columns that become null, without a reject, if the event lacks them.
        rules: What rows must follow; those that do not are rejected, changed or tagged.
    """

    look_for_unknown: bool = False
    frees_columns: bool = False
    on_type_mismatch: Literal["null", "dlq"] = "null"
    case_insensitive: bool = False
    fields: Fields = ALL_FIELDS
    count_ignored: bool = False
    declared: frozenset[str] = frozenset()
    timestamp_unit: Literal["s", "ms", "us", "ns", "auto"] | None = None
    timestamp_formats: tuple[str, ...] = ()
    local_times: frozenset[str] = frozenset()
    column_limit: int = COLUMN_LIMIT
    overflow: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    types: ColumnTypes = field(default_factory=ColumnTypes, compare=False)
    may_lack: frozenset[str] = frozenset()
    rules: tuple[RowRule, ...] = ()

    def of_column(self, name: str) -> ConvertOptions:
        """Return the options for one column: `local_times` has it, or is empty."""
        return self if name in self.local_times or not self.local_times else replace(self, local_times=frozenset())
