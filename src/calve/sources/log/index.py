"""The index of the log's events: used by the planner, maintained by the log's thread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple

from calve.errors import PositionLostError
from calve.sources.log import segment
from calve.sources.log.record import SEGMENT_HEAD_BYTES
from calve.sources.log.segment import Segment
from calve.sources.source import Backlog, Planned, Position, Split

__all__ = ["SPLIT_BYTES", "Index", "LogPosition"]

SPLIT_BYTES = 8 << 20
"""The approximate size of a split; a smaller one is not worth a task."""


class LogPosition(NamedTuple):
    """A border between records."""

    segment: int
    offset: int

    @classmethod
    def of(cls, position: Position) -> LogPosition:
        """Read it from a position of the ledger."""
        return cls(int(position["segment"]), int(position["offset"]))

    def position(self) -> Position:
        """Return the position as JSON values."""
        return self._asdict()


class Index:
    """The segments of the log, up to their durable end. Any thread may call it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._segments: list[Segment] = []

    def load(self, position: Position | None) -> None:
        """Load the segments on disk, and check that nothing after a position is missing.

        Raises:
            PositionLostError: Something is missing.
            SourceError: A segment is damaged.
        """
        at = LogPosition.of(position) if position else None
        paths = sorted(self._folder.glob("[0-9]" * 12 + ".log"))
        for path in paths:
            border = at.offset if at and at.segment == int(path.stem) else 0
            loaded = segment.load(path, path == paths[-1], border)
            if loaded is None:
                path.unlink()
            elif self._segments and self._segments[-1].number + 1 != loaded.number:
                raise self._lost(self._segments[-1].number + 1)
            else:
                self._segments.append(loaded)
        if at:
            self._check(at)

    @property
    def last(self) -> Segment | None:
        """The segment that was open."""
        return self._segments[-1] if self._segments else None

    @property
    def segments(self) -> list[Segment]:
        """The segments on disk, oldest first."""
        with self._lock:
            return list(self._segments)

    @property
    def size_bytes(self) -> int:
        """Bytes of the log on disk."""
        with self._lock:
            return sum(each.end for each in self._segments)

    def add(self, new: Segment) -> None:
        """Add a new segment, unless it is known already."""
        with self._lock:
            if not self._segments or self._segments[-1] is not new:
                self._segments.append(new)

    def grow(self, records: list[tuple[int, int]], keys: list[tuple[int, bytes]]) -> None:
        """Add records (size, rows) that are now durable at the end of the last segment."""
        with self._lock:
            last = self._segments[-1]
            last.keys.extend(keys)
            for size, rows in records:
                last.grow(last.end + size, rows)

    def before(self, at: LogPosition) -> list[Segment]:
        """Return the segments completely before a position, except the last one."""
        with self._lock:
            return [each for each in self._segments[:-1] if (each.number, each.end) <= at]

    def drop(self, old: Segment) -> None:
        """Forget a segment that was deleted."""
        with self._lock:
            self._segments.remove(old)

    def backlog(self, position: Position | None) -> Backlog:
        """Count the events after a position."""
        rows = size = 0
        with self._lock:
            for each, start in self._behind(position):
                rows += each.rows - each.rows_before(start)
                size += each.end - start
        return Backlog(rows, size)

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Divide about `max_bytes` after a position into splits, in order; at least one record if there is one."""
        splits: list[Split] = []
        left = max_bytes
        at: LogPosition | None = None
        with self._lock:
            for each, start in self._behind(position):
                while start < each.end and (left > 0 or not splits):
                    end = each.cut(start, min(left, SPLIT_BYTES))
                    splits.append(_split(each, start, end))
                    left -= end - start
                    at = LogPosition(each.number, end)
                    start = end
        return Planned(splits, at.position()) if at else None

    def _behind(self, position: Position | None) -> list[tuple[Segment, int]]:
        """Return the segments after a position, each with its start offset."""
        at = LogPosition.of(position) if position else LogPosition(0, 0)
        return [
            (each, at.offset if each.number == at.segment else SEGMENT_HEAD_BYTES)
            for each in self._segments
            if each.number >= at.segment
        ]

    def _check(self, at: LogPosition) -> None:
        """Check that nothing between a position and the first segment is missing."""
        first = self._segments[0] if self._segments else None
        if first is None or first.number > at.segment + 1 or self._segments[-1].number < at.segment:
            raise self._lost(at.segment)
        if first.number == at.segment + 1 and first.previous_end != at.offset:
            raise self._lost(at.segment)

    def _lost(self, number: int) -> PositionLostError:
        path = self._folder / segment.name(number)
        return PositionLostError(
            f"the log {path} is missing, and its events were not all read",
            step="start",
            target=str(path),
            hint="Restore it from a copy; if these events may be lost, start the pipeline with a new state",
        )


def _split(each: Segment, start: int, end: int) -> Split:
    rows = each.rows_before(end) - each.rows_before(start)
    body: dict[str, Any] = {"file": segment.name(each.number), "start": start, "end": end, "rows": rows}
    return Split(body, end - start)
