"""The descriptions of all tables over time: an epoch begins whenever one of them changes.

Every segment of the log has one epoch, so that a batch has one schema for each table.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from pathlib import PurePath

from calve.errors import InvariantError
from calve.sources.database.settings import NoKey
from calve.sources.database.table import DatabaseTable
from calve.sources.source_files import FilesAt, SourceFiles, encoded, files_in, read_as
from calve.state.location import state_folder_at

__all__ = ["Epochs", "read_epoch", "read_epochs"]

_FOLDER = "tables"


class Epochs:
    """The epochs of one source, and the current one; the stream's thread adds, any thread reads.

    Args:
        folder: The source's files.
        is_merged: Whether tables share targets (`merge_tables`).
        no_key: What becomes of tables without a key.
    """

    def __init__(self, folder: FilesAt, is_merged: bool = False, no_key: NoKey = "fail") -> None:
        self._files = files_in(folder)
        self._is_merged, self._no_key = is_merged, no_key
        self.number = -1
        self.tables: dict[int, DatabaseTable] = {}

    def load(self) -> None:
        """Continue with the last epoch on disk, if there is one."""
        numbers = [int(PurePath(name).stem) for name in self._files.names(_FOLDER)]
        if numbers:
            self.number = max(numbers)
            self.tables = _read(self._files, self.number)

    def add(self, tables: Iterable[DatabaseTable], without: Collection[int] = ()) -> None:
        """Begin an epoch in which these tables are as described, and some are gone; durable on return."""
        added = [self.completed(table) for table in tables]
        changed = {**self.tables, **{table.oid: table for table in added}}
        changed = {oid: table for oid, table in changed.items() if oid not in without}
        self._files.write(_name(self.number + 1), encoded(list(changed.values())))
        self.number += 1
        self.tables = changed

    def completed(self, table: DatabaseTable) -> DatabaseTable:
        """Return a table as the settings want it in targets."""
        return table.completed(self._is_merged, self._no_key)

    def begin(self, tables: Iterable[DatabaseTable]) -> None:
        """Begin an epoch that has these tables alone; durable on return."""
        self.tables = {}
        self.add(tables)

    def of(self, first: int, last: int) -> list[DatabaseTable]:
        """Return the tables of some epochs, as they are in the last one."""
        return list(_joined(self._at(number) for number in range(first, last + 1)).values())

    def _at(self, number: int) -> dict[int, DatabaseTable]:
        return self.tables if number == self.number else _read(self._files, number)


@functools.lru_cache(32)
def read_epoch(folder: str, number: int) -> dict[int, DatabaseTable]:
    """Return the tables of an epoch by their numbers; on executors, too.

    Raises:
        InvariantError: There is no such epoch.
    """
    return _read(files_in(state_folder_at(folder)), number)


@functools.lru_cache(32)
def read_epochs(folder: str, first: int, last: int) -> dict[int, DatabaseTable]:
    """Return the tables of some epochs as they are in the last one, or as they were before they were stopped.

    Raises:
        InvariantError: There is no such epoch.
    """
    return _joined(read_epoch(folder, number) for number in range(first, last + 1))


def _joined(epochs: Iterable[dict[int, DatabaseTable]]) -> dict[int, DatabaseTable]:
    tables: dict[int, DatabaseTable] = {}
    for now in epochs:
        tables |= {oid: table for oid, table in now.items() if oid not in tables or not table.stopped}
    return tables


def _read(files: SourceFiles, number: int) -> dict[int, DatabaseTable]:
    tables = read_as(files, _name(number), list[DatabaseTable])
    if tables is None:
        hint = "Restore the state; on a cluster a local one must be in a folder that all machines share"
        raise InvariantError(f"{_name(number)} of the source is missing", step="read", target=_name(number), hint=hint)
    return {table.oid: table for table in tables}


def _name(number: int) -> str:
    return f"{_FOLDER}/{number:06d}.json"
