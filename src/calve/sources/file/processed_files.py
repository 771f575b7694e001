"""The files whose events are committed: the source's memory, in its folder of the state."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from calve.errors import WriteError
from calve.files.private import create_private, make_private
from calve.object_store import StateFolder, StoreFolder
from calve.sources.file.storage import Found
from calve.store_rows import StoreRows

__all__ = ["Finished", "LocalFinished", "StoreFinished", "finished_in"]


_TABLE = """
    CREATE TABLE IF NOT EXISTS finished (path TEXT PRIMARY KEY, size_bytes INTEGER, modified INTEGER) WITHOUT ROWID
"""


class Finished(Protocol):
    """A durable set of files; used from two threads."""

    def load(self) -> list[Found]:
        """Return all files."""
        ...

    def add(self, files: Iterable[Found]) -> None:
        """Add files durably; may be repeated.

        Raises:
            WriteError: The disk or the store refused; try again.
        """
        ...

    def forget(self, before: int) -> None:
        """Remove files that were written before a time, in nanoseconds since 1970, if the set can.

        Raises:
            WriteError: The disk refused; try again.
        """
        ...

    def close(self) -> None:
        """Close the set; it opens again by itself."""
        ...


def finished_in(folder: StateFolder) -> Finished:
    """Return the set of a folder, local or on an object store."""
    return StoreFinished(folder) if isinstance(folder, StoreFolder) else LocalFinished(folder)


class StoreFinished:
    """The set on an object store.

    Args:
        folder: The prefix of its objects.
    """

    def __init__(self, folder: StoreFolder) -> None:
        self._rows = StoreRows(folder, "finished")

    def load(self) -> list[Found]:
        """Return all files."""
        return [Found(*row) for row in self._rows.load()]

    def add(self, files: Iterable[Found]) -> None:
        """Add files durably; may be repeated."""
        self._rows.add((file.path, file.size_bytes, file.modified) for file in files)

    def forget(self, before: int) -> None:
        """Do nothing: the objects of a store only grow."""

    def close(self) -> None:
        """Do nothing: there is nothing open."""


class LocalFinished:
    """The set in one SQLite file.

    Args:
        folder: The folder of the file; created with the first path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._database: sqlite3.Connection | None = None

    def load(self) -> list[Found]:
        """Return all files."""
        with self._lock:
            if not (self._folder / "finished.db").exists():
                return []
            return [Found(*row) for row in self._connect().execute("SELECT path, size_bytes, modified FROM finished")]

    def add(self, files: Iterable[Found]) -> None:
        """Add files durably; may be repeated.

        Raises:
            WriteError: The disk refused; try again.
        """
        rows = [(file.path, file.size_bytes, file.modified) for file in files]
        self._write("INSERT OR IGNORE INTO finished VALUES (?, ?, ?)", rows)

    def forget(self, before: int) -> None:
        """Remove files that were written before a time, in nanoseconds since 1970.

        Raises:
            WriteError: The disk refused; try again.
        """
        if (self._folder / "finished.db").exists():
            self._write("DELETE FROM finished WHERE modified < ?", [(before,)])

    def _write(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        try:
            with self._lock, self._connect() as database:
                database.executemany(statement, rows)
        except (sqlite3.Error, OSError) as error:
            raise WriteError(
                f"The list of files that have been read cannot be written to {self._folder}: {error}",
                step="acknowledge",
                target=str(self._folder),
                hint="Free disk space, or allow writing there; nothing is lost",
            ) from error

    def close(self) -> None:
        """Close the file; it opens again by itself."""
        with self._lock:
            if self._database:
                self._database.close()
                self._database = None

    def _connect(self) -> sqlite3.Connection:
        if self._database is None:
            make_private(self._folder)
            create_private(self._folder / "finished.db")
            self._database = sqlite3.connect(self._folder / "finished.db", check_same_thread=False, timeout=10)
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute(_TABLE)
        return self._database
