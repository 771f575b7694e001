"""The descriptions of all tables over time: an epoch begins whenever one of them changes.

Every segment of the log has one epoch, so that a batch has one schema for each table.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec

from calve import durable
from calve.errors import InvariantError
from calve.sources.database.table import Table

__all__ = ["Epochs", "read_epoch", "read_epochs"]

_FOLDER = "tables"


class Epochs:
    """The epochs of one source, and the current one; the stream's thread adds, any thread reads.

    Args:
        folder: The source's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.number = -1
        self.tables: dict[int, Table] = {}

    def load(self) -> None:
        """Continue with the last epoch on disk, if there is one."""
        numbers = [int(path.stem) for path in (self._folder / _FOLDER).glob("*.json")]
        if numbers:
            self.number = max(numbers)
            self.tables = dict(read_epoch(str(self._folder), self.number))

    def add(self, tables: Iterable[Table], without: Collection[int] = ()) -> None:
        """Begin an epoch in which these tables are as described, and some are gone; durable on return."""
        changed = {**self.tables, **{table.oid: table for table in tables}}
        changed = {oid: table for oid, table in changed.items() if oid not in without}
        durable.make_folder(self._folder / _FOLDER)
        path = _path(str(self._folder), self.number + 1)
        durable.replace_bytes(path, msgspec.json.encode(list(changed.values())))
        self.number += 1
        self.tables = changed

    def begin(self, tables: Iterable[Table]) -> None:
        """Begin an epoch that has these tables alone; durable on return."""
        self.tables = {}
        self.add(tables)

    def of(self, first: int, last: int) -> list[Table]:
        """Return the tables of some epochs, as they are in the last one."""
        return list(read_epochs(str(self._folder), first, last).values())


@functools.lru_cache(32)
def read_epoch(folder: str, number: int) -> dict[int, Table]:
    """Return the tables of an epoch by their numbers; on executors, too.

    Raises:
        InvariantError: There is no such epoch.
    """
    path = _path(folder, number)
    tables = durable.read_as(path, list[Table])
    if tables is None:
        hint = "Restore the state folder; on a cluster it must be one that all machines share"
        raise InvariantError(f"{path} is missing", step="read", target=str(path), hint=hint)
    return {table.oid: table for table in tables}


@functools.lru_cache(32)
def read_epochs(folder: str, first: int, last: int) -> dict[int, Table]:
    """Return the tables of some epochs as they are in the last one, or as they were before they were stopped.

    Raises:
        InvariantError: There is no such epoch.
    """
    tables: dict[int, Table] = {}
    for number in range(first, last + 1):
        now = read_epoch(folder, number)
        tables |= {oid: table for oid, table in now.items() if oid not in tables or not table.stopped}
    return tables


def _path(folder: str, number: int) -> Path:
    return Path(folder, _FOLDER, f"{number:06d}.json")
