"""Checks that no two tables have one target, where their rows would replace each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from calve.errors import SettingsError, SourceError
from calve.observe.humanize import listed
from calve.sources.database.settings import DatabaseSettings
from calve.sources.database.table import MERGED, DatabaseTable
from calve.sources.source import SharedTargets, SourceTable

__all__ = ["OwnTargets"]

_SHOWN = 10
_WAY_OUT = (
    'Put ${getMetadata("schema_name")} into the name of the target, or exclude a table. With merge_tables: true they '
    "share it, and schema_name and table_name are in its key"
)


class OwnTargets:
    """What a source knows of the targets of its tables.

    Args:
        shared: Finds targets of several tables.
        settings: The source's settings.
        database_of: Returns the name of a table's database.
    """

    def __init__(
        self, shared: SharedTargets, settings: DatabaseSettings, database_of: Callable[[DatabaseTable], str]
    ) -> None:
        self._shared = shared
        self._shown, self._is_merged = settings.shown, settings.merge_tables
        self._database_of = database_of

    def require(self, tables: Sequence[DatabaseTable], read_tables: Iterable[DatabaseTable] = ()) -> None:
        """Check tables that are to be read, beside those that are read already.

        Raises:
            SourceError: Some have one target, or a column that tables of one target get.
        """
        names = {table.full_name for table in tables}
        others = [table for table in read_tables if not table.stopped and table.full_name not in names]
        faults = [
            f"{listed(names, _SHOWN)} would all be written to {target}, and replace each other's rows"
            for target, names in self._found([*others, *tables])
        ]
        faults += [fault for table in tables if (fault := self._column_conflict(table))]
        if faults:
            raise self._error(f"{self._shown}: {'; '.join(faults[:_SHOWN])}", "" if self._is_merged else _WAY_OUT)

    def go_on(self, tables: Collection[DatabaseTable]) -> None:
        """Check the tables of a state from before.

        Raises:
            SourceError: Some have one target by now, or `merge_tables` is another.
        """
        if any(table.is_merged != self._is_merged for table in tables):
            what = f"merge_tables was {'false' if self._is_merged else 'true'} when {self._shown} was loaded"
            raise self._error(what, "Set it back, or use a new --state and an empty target")
        self.require([], tables)

    def _error(self, what: str, hint: str) -> SourceError:
        return SourceError(what, step="start", target=self._shown, hint=hint)

    def conflict(self, table: DatabaseTable, read_tables: Iterable[DatabaseTable]) -> str:
        """Return why a new table cannot be read beside those that are known; empty: it can."""
        others = [other for other in read_tables if other.oid != table.oid and other.columns]
        try:
            shared_targets = self._found([*others, table])
        except SettingsError as error:  # of processors that would lose its key
            return str(error)
        for target, names in shared_targets:
            if table.full_name in names:
                twins = listed([name for name in names if name != table.full_name], _SHOWN)
                return (
                    f"it would be written to {target}, as {twins}, and their rows would replace each other. {_WAY_OUT}"
                )
        return self._column_conflict(table)

    def _column_conflict(self, table: DatabaseTable) -> str:
        """Return why a table cannot share a target, or nothing."""
        names = [column.name for column in table.columns if column.name.lower() in MERGED] if self._is_merged else []
        return f"{names[0]} of {table.full_name} has the name of a column that merge_tables adds" if names else ""

    def _found(self, tables: Sequence[DatabaseTable]) -> list[tuple[str, list[str]]]:
        return [] if self._is_merged else self._shared([self._source_table(table) for table in tables])

    def _source_table(self, table: DatabaseTable) -> SourceTable:
        attributes = {**table.attributes, "database_name": self._database_of(table)}
        return replace(table.source_table(), attributes=attributes)
