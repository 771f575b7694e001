"""The files whose events are committed: the source's memory on the driver's disk."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

from calve.errors import WriteError
from calve.sources.file.storage import Found

__all__ = ["Finished"]


_TABLE = """
    CREATE TABLE IF NOT EXISTS finished (path TEXT PRIMARY KEY, size_bytes INTEGER, modified INTEGER) WITHOUT ROWID
"""


class Finished:
    """A durable set of paths in one SQLite file; used from two threads.

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
        try:
            with self._lock, self._connect() as database:
                database.executemany("INSERT OR IGNORE INTO finished VALUES (?, ?, ?)", rows)
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
            self._folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self._folder / "finished.db", check_same_thread=False, timeout=10)
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute(_TABLE)
        return self._database
