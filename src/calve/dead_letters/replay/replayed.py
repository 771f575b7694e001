"""Records which dead letters have been replayed: the memory of `calve dlq replay`, in its folder of the state."""

from __future__ import annotations

import bisect
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from calve.errors import WriteError
from calve.files.private import create_private, make_private
from calve.object_store import StateFolder, StoreFolder
from calve.store_rows import StoreRows

__all__ = ["LocalReplayed", "Replayed", "Span", "Spans", "StoreReplayed", "replayed_in"]

_FILE = "taken.db"
_TABLES = """
    CREATE TABLE IF NOT EXISTS taken (
        file TEXT, start INTEGER, "end" INTEGER, entries INTEGER, PRIMARY KEY (file, start)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS call (file TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_BEGUN = ""
"""The row of an unfinished call, even without files."""


class Span(NamedTuple):
    """Consecutive entries of a file: its name, their bytes, and their number.

    The name without its folder is enough: published names are unique, and stay valid if the folder is moved.
    """

    file: str
    start: int
    end: int
    entries: int


class Spans:
    """A set of spans that can be searched by offset."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.entries = 0
        self._spans: dict[str, list[tuple[int, int]]] = {}
        for span in sorted(set(spans)):
            self._spans.setdefault(span.file, []).append((span.start, span.end))
            self.entries += span.entries

    def has(self, file: str, offset: int) -> bool:
        """Return whether the entry at this byte is in it."""
        spans = self._spans.get(file, [])
        at = bisect.bisect_right(spans, offset, key=lambda span: span[0]) - 1
        return at >= 0 and offset < spans[at][1]


class Replayed(Protocol):
    """A durable set of spans, and the unfinished call."""

    def load(self) -> list[Span]:
        """Return all spans."""
        ...

    def count(self, files: Collection[str]) -> int:
        """Count the replayed entries of these files."""
        ...

    def add(self, spans: Iterable[Span]) -> None:
        """Add spans durably; may be repeated.

        Raises:
            WriteError: The disk or the store refused; try again.
        """
        ...

    def call(self) -> set[str] | None:
        """Return the replays' rejects that existed when the unfinished call started; None if no call is unfinished."""
        ...

    def begin_call(self, files: Iterable[str]) -> None:
        """Record the result of `call`, until `end_call`."""
        ...

    def end_call(self) -> None:
        """Forget the call: all of its entries are replayed."""
        ...


def replayed_in(folder: StateFolder) -> Replayed:
    """Return the records of a folder `<state>/<pipeline>/replay`, local or on an object store."""
    return StoreReplayed(folder) if isinstance(folder, StoreFolder) else LocalReplayed(folder)


class StoreReplayed:
    """The records on an object store.

    Args:
        folder: `<state>/<pipeline>/replay`.
    """

    def __init__(self, folder: StoreFolder) -> None:
        self._taken = StoreRows(folder, "taken")
        self._call = StoreRows(folder, "call")

    def load(self) -> list[Span]:
        """Return all spans."""
        return [Span(*row) for row in self._taken.load()]

    def count(self, files: Collection[str]) -> int:
        """Count the replayed entries of these files."""
        return sum(span.entries for span in self.load() if span.file in files)

    def add(self, spans: Iterable[Span]) -> None:
        """Add spans durably; may be repeated."""
        self._taken.add(tuple(span) for span in spans)

    def call(self) -> set[str] | None:
        """Return the replays' rejects that existed when the unfinished call started; None if no call is unfinished."""
        return {str(row[0]) for row in self._call.load()} or None

    def begin_call(self, files: Iterable[str]) -> None:
        """Record the result of `call`, until `end_call`."""
        self._call.add((file,) for file in (_BEGUN, *files))

    def end_call(self) -> None:
        """Forget the call: all of its entries are replayed."""
        self._call.clear()


class LocalReplayed:
    """The records in one SQLite file.

    Args:
        folder: `<state>/<pipeline>/replay`; created by the first write.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self) -> list[Span]:
        """Return all spans."""
        return [Span(*row) for row in self._read('SELECT file, start, "end", entries FROM taken')]

    def count(self, files: Collection[str]) -> int:
        """Count the replayed entries of these files."""
        return sum(span.entries for span in self.load() if span.file in files)

    def add(self, spans: Iterable[Span]) -> None:
        """Add spans durably; may be repeated.

        Raises:
            WriteError: The disk refused; try again.
        """
        self._write("INSERT OR IGNORE INTO taken VALUES (?, ?, ?, ?)", spans)

    def call(self) -> set[str] | None:
        """Return the replays' rejects that existed when the unfinished call started; None if no call is unfinished."""
        files = {str(row[0]) for row in self._read("SELECT file FROM call")}
        return files or None

    def begin_call(self, files: Iterable[str]) -> None:
        """Record the result of `call`, until `end_call`.

        Raises:
            WriteError: The disk refused; try again.
        """
        self._write("INSERT OR IGNORE INTO call VALUES (?)", [(file,) for file in (_BEGUN, *files)])

    def end_call(self) -> None:
        """Forget the call: all of its entries are replayed.

        Raises:
            WriteError: The disk refused.
        """
        if self.call() is not None:
            self._write("DELETE FROM call WHERE file >= ?", [(_BEGUN,)])

    def _read(self, sql: str) -> list[tuple[Any, ...]]:
        if not (self._folder / _FILE).exists():
            return []
        with closing(self._connect()) as database:
            return list(database.execute(sql))

    def _write(self, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
        try:
            make_private(self._folder)
            create_private(self._folder / _FILE)
            with closing(self._connect()) as database, database:
                database.executemany(sql, rows)
        except (sqlite3.Error, OSError) as error:
            raise WriteError(
                f"The list of replayed dead letters cannot be written to {self._folder}: {error}",
                step="acknowledge",
                target=str(self._folder),
                hint="Free disk space, or allow writing there; nothing is lost",
            ) from error

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._folder / _FILE, timeout=10)
        database.execute("PRAGMA synchronous = FULL")
        database.executescript(_TABLES)
        return database
