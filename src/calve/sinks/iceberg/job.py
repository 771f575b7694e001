"""What tasks get to know of an Iceberg sink: its tables, and how events become their rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from calve.columns.declared_types import ColumnTypes
from calve.columns.fields import ALL_FIELDS, Fields
from calve.convert.converter import Converter, ConvertOptions
from calve.dead_letters.rejects import DeadLetterPlace
from calve.record.target import EQUALITY_DELETE, WriteMode
from calve.reduce.key import Key
from calve.reduce.reducer import Reducer
from calve.route.route import SinkRoute
from calve.table.loaded import Absent, Table

__all__ = ["TableJob"]


@dataclass(frozen=True)
class TableJob:
    """A sink's part of a job that writes files, which the driver commits to tables.

    Attributes:
        label: The sink's name in dead letters.
        catalog: The catalog's key, which says where a table's files must be committed.
        tables: Every table that is known so far.
        branch: The branch of these tables that gets the events.
        fields: The fields of an event that are written; routes, table names and dead letters know them all.
        event_time: The column that says when an event happened.
        changes: Whether rows are updated and deleted by key, not only appended.
        identifier_columns: The key; empty means the table's identifier fields.
        upsert: An INSERT replaces an older row of the same key.
        write_mode: How deletes reach a table when they are committed.
        keep: An UPDATE leaves columns as they are that its event lacks.
        on_type_mismatch: As in the settings; None: as the table's columns came to be.
        column_types: The types that the settings give to columns, which are then not inferred.
        gathers_bytes: Parts of partitions that are smaller are handed on, and written together.
    """

    label: str
    catalog: str
    route: SinkRoute
    tables: dict[str, Table | Absent]
    dead_letters: DeadLetterPlace
    branch: str = "main"
    fields: Fields = ALL_FIELDS
    event_time: str | None = None
    infers: bool = False
    evolves: bool = False
    on_type_mismatch: Literal["null", "dlq"] | None = None
    column_types: ColumnTypes = field(default_factory=ColumnTypes)
    timestamp_unit: Literal["s", "ms", "us", "ns", "auto"] = "ms"
    timestamp_formats: tuple[str, ...] = ()
    case_insensitive: bool = False
    changes: bool = False
    identifier_columns: tuple[str, ...] = ()
    upsert: bool = False
    write_mode: WriteMode = EQUALITY_DELETE
    keep: bool = False
    write_properties: dict[str, str] = field(default_factory=dict)
    gathers_bytes: int = 0

    def options(self, table: Table) -> ConvertOptions:
        """Return how events are converted for a table."""
        return ConvertOptions(
            look_for_unknown=self.evolves,
            on_type_mismatch=self.on_type_mismatch or ("dlq" if table.is_inferred else "null"),
            timestamp_unit=self.timestamp_unit,
            timestamp_formats=self.timestamp_formats,
            declared=frozenset() if self.on_type_mismatch else self._declared(table),
            case_insensitive=self.case_insensitive,
            fields=self.fields,
            count_ignored=not self.evolves,
        )

    def _declared(self, table: Table) -> frozenset[str]:
        return frozenset(each.name for each in table.schema.fields if self.column_types.of((each.name,)))

    def converter(self, table: Table) -> Converter | Reducer:
        """Make what turns the events of a table into rows, or into changes of rows."""
        options = self.options(table)
        if not self.changes:
            return Converter(table, options)
        return Reducer(table, Key(table, self.identifier_columns), options, self.upsert, self.keep)

    def rejecting_into(self, dead_letters: DeadLetterPlace) -> TableJob:
        """Return the same job with another place for its rejected events."""
        return replace(self, dead_letters=dead_letters)
