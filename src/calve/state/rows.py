"""Sets of rows that only a memory of the pipeline adds to: an SQLite table on a local disk, objects on a store.

On a store there is one object for each addition, joined level by level. Each object is named after its content, so an
addition may be repeated. Objects are removed only after an object with all of their rows exists; a reader that misses
one lists them again.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from calve.errors import InvariantError, WriteError
from calve.files.private import create_private, make_private
from calve.state.folder import StateFolder

__all__ = ["LocalRows", "RowSet", "StoreRows", "rows_in"]

_JOINED = 32
"""The objects of one level that are joined into one of the next."""
_SUFFIX = ".rows.json"
_ATTEMPTS = 10

Row = tuple[Any, ...]


@dataclass(frozen=True)
class RowSet:
    """What a set of rows is called.

    Attributes:
        name: Its table on a local disk, and the beginning of its objects' names on a store.
        file: Its SQLite file.
        definition: The SQL that creates all tables of this file.
        content: What its rows are, for errors.
    """

    name: str
    file: str
    definition: str
    content: str


class LocalRows:
    """A set of rows in an SQLite file, which the first addition creates; used from several threads.

    Every method raises WriteError if the disk refuses; each may be repeated.

    Args:
        folder: The folder of the file.
        rows: What the set is called.
    """

    def __init__(self, folder: Path, rows: RowSet) -> None:
        self._folder, self._rows = folder, rows
        self._lock = threading.Lock()

    def load(self) -> list[Row]:
        """Return all rows, in no order."""
        with self._lock:
            if not (self._folder / self._rows.file).exists():
                return []
            with closing(self._connect()) as database:
                return list(database.execute(f"SELECT * FROM {self._rows.name}"))

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows durably."""
        if added := list(rows):
            values = ", ".join("?" * len(added[0]))
            self._write(f"INSERT OR IGNORE INTO {self._rows.name} VALUES ({values})", added)

    def clear(self) -> None:
        """Remove all rows."""
        self._remove(f"DELETE FROM {self._rows.name}", ())

    def forget(self, column: str, below: int) -> None:
        """Remove rows with a smaller value in a column."""
        self._remove(f"DELETE FROM {self._rows.name} WHERE {column} < ?", (below,))

    def _remove(self, statement: str, values: Row) -> None:
        if (self._folder / self._rows.file).exists():
            self._write(statement, [values])

    def _write(self, statement: str, rows: list[Row]) -> None:
        try:
            with self._lock, closing(self._connect()) as database, database:
                database.executemany(statement, rows)
        except (sqlite3.Error, OSError) as error:
            raise WriteError(
                f"The list of {self._rows.content} cannot be written to {self._folder}: {error}",
                step="acknowledge",
                target=str(self._folder),
                hint="Free disk space, or allow writing there; nothing is lost",
            ) from error

    def _connect(self) -> sqlite3.Connection:
        make_private(self._folder)
        create_private(self._folder / self._rows.file)
        database = sqlite3.connect(self._folder / self._rows.file, timeout=10)
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(self._rows.definition)
        return database


class StoreRows:
    """The same under a prefix of a store.

    Args:
        folder: The prefix; other objects in it are left alone.
        name: The beginning of the objects' names.
    """

    def __init__(self, folder: StateFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._lock = threading.Lock()
        self._levels: dict[int, list[str]] = {}

    def load(self) -> list[Row]:
        """See `LocalRows`."""
        with self._lock:
            for _ in range(_ATTEMPTS):
                self._levels = {}
                for name in self._names():
                    self._levels.setdefault(_level(name), []).append(name)
                objects = [self._read(name) for names in self._levels.values() for name in names]
                if None not in objects:
                    return list({row for rows in objects for row in rows or ()})
        raise InvariantError(f"The objects in {self._folder} disappear while they are read", step="read")

    def add(self, rows: Iterable[Row]) -> None:
        """See `LocalRows`."""
        with self._lock:
            self._write(0, sorted(set(rows)))

    def clear(self) -> None:
        """See `LocalRows`."""
        with self._lock:
            self._folder.remove(self._names())
            self._levels = {}

    def forget(self, column: str, below: int) -> None:
        """Do nothing: the objects only grow."""

    def _write(self, level: int, rows: list[Row]) -> None:
        content = msgspec.json.encode(rows)
        name = f"{self._name}-{level}-{hashlib.sha256(content).hexdigest()[:40]}{_SUFFIX}"
        self._folder.put(name, content)
        names = self._levels.setdefault(level, [])
        if name not in names:
            names.append(name)
        if len(names) >= _JOINED:
            objects = [self._read(name) for name in names]
            self._write(level + 1, sorted({row for rows in objects for row in rows or ()}))
            self._folder.remove(names)
            names.clear()

    def _names(self) -> list[str]:
        return [name for name in self._folder.names() if name.startswith(f"{self._name}-") and name.endswith(_SUFFIX)]

    def _read(self, name: str) -> list[Row] | None:
        stored = self._folder.get(name)
        return None if stored is None else [tuple(row) for row in msgspec.json.decode(stored.content)]


def _level(name: str) -> int:
    return int(name.removesuffix(_SUFFIX).rsplit("-", 2)[1])


def rows_in(folder: StateFolder, rows: RowSet) -> LocalRows | StoreRows:
    """Return a set of rows in a folder."""
    return StoreRows(folder, rows.name) if folder.is_shared else LocalRows(Path(folder.location), rows)
