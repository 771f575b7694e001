"""Records which dead letters have been replayed: the memory of `calve dlq replay`, in its folder of the state."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable
from typing import NamedTuple

from calve.state.folder import StateFolder
from calve.state.location import state_folder_at
from calve.state.rows import RowSet, rows_in

__all__ = ["ReplayedEntries", "Span", "Spans", "records_in", "replayed_entries"]

_FILE = "taken.db"
_TABLES = """
    CREATE TABLE IF NOT EXISTS taken (
        file TEXT, start INTEGER, "end" INTEGER, entries INTEGER, PRIMARY KEY (file, start)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS call (file TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_TAKEN = RowSet("taken", _FILE, _TABLES, "replayed dead letters")
_CALL = RowSet("call", _FILE, _TABLES, "replayed dead letters")
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


class ReplayedEntries:
    """A durable set of spans, and the unfinished call.

    Every method raises WriteError if the disk or the store refuses; each may be repeated.

    Args:
        folder: `<state>/<pipeline>/replay`, which the first write creates.
    """

    def __init__(self, folder: StateFolder) -> None:
        self._spans = rows_in(folder, _TAKEN)
        self._call = rows_in(folder, _CALL)

    def load(self) -> list[Span]:
        """Return all spans."""
        return [Span(*row) for row in self._spans.load()]

    def count(self, files: Collection[str]) -> int:
        """Count the replayed entries of these files."""
        return sum(span.entries for span in self.load() if span.file in files)

    def add(self, spans: Iterable[Span]) -> None:
        """Add spans durably."""
        self._spans.add(tuple(span) for span in spans)

    def call(self) -> set[str] | None:
        """Return the replays' rejects that existed when the unfinished call started; None if no call is unfinished."""
        return {str(row[0]) for row in self._call.load()} or None

    def begin_call(self, files: Iterable[str]) -> None:
        """Record the result of `call`, until `end_call`."""
        self._call.add((file,) for file in (_BEGUN, *files))

    def end_call(self) -> None:
        """Forget the call: all of its entries are replayed."""
        self._call.clear()


def records_in(state: str, pipeline: str) -> ReplayedEntries:
    """Return the records of the replays of a pipeline in a state folder."""
    return ReplayedEntries(state_folder_at(state.removeprefix("file://")) / pipeline / "replay")


def replayed_entries(state: str, pipeline: str) -> Spans:
    """Return which dead letters of a pipeline were replayed.

    Raises:
        CalveError: The records cannot be read.
    """
    return Spans(records_in(state, pipeline).load())
