"""The files whose events are committed: the source's memory, in its folder of the state."""

from __future__ import annotations

from collections.abc import Iterable

from calve.sources.file.storage import FoundFile
from calve.state.folder import StateFolder
from calve.state.rows import RowSet, rows_in

__all__ = ["ProcessedFiles"]

_FINISHED = RowSet(
    "finished",
    "finished.db",
    """
    CREATE TABLE IF NOT EXISTS finished (path TEXT PRIMARY KEY, size_bytes INTEGER, modified INTEGER) WITHOUT ROWID
""",
    "files that have been read",
)


class ProcessedFiles:
    """A durable set of files; used from two threads.

    Every method raises WriteError if the disk or the store refuses; each may be repeated.

    Args:
        folder: The source's folder, which the first file creates.
    """

    def __init__(self, folder: StateFolder) -> None:
        self._rows = rows_in(folder, _FINISHED)

    def load(self) -> list[FoundFile]:
        """Return all files."""
        return [FoundFile(*row) for row in self._rows.load()]

    def add(self, files: Iterable[FoundFile]) -> None:
        """Add files durably."""
        self._rows.add((file.path, file.size_bytes, file.modified) for file in files)

    def forget(self, before: int) -> None:
        """Remove files that were written before a time, in nanoseconds since 1970, if the set can."""
        self._rows.forget("modified", before)
