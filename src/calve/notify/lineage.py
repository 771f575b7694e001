"""What is known of the way from a source to tables, for receivers that draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from calve.table.loaded import Table

__all__ = ["Lineage"]


@dataclass
class Lineage:
    """The way of one pipeline's events.

    Attributes:
        pipeline: The pipeline's name.
        inputs: What it reads, as namespace and name in OpenLineage's spelling; none: not known.
        is_by_name: Whether a column has the field of the same name of an event: no processor has changed it.
        added: The columns that come from elsewhere, such as the metadata of an event.
        tables: The tables as the last commits have left them, by catalog and name.
    """

    pipeline: str
    inputs: Sequence[tuple[str, str]] = ()
    is_by_name: bool = False
    added: frozenset[str] = frozenset()
    tables: dict[tuple[str, str], Table] = field(default_factory=dict)
