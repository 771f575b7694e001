"""The index of the log's events: used by the planner, maintained by the log's thread."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from calve.errors import PositionLostError
from calve.sources.log import segment
from calve.sources.log.record import SEGMENT_HEAD_BYTES
from calve.sources.log.segment import IsEnd, Segment, anywhere
from calve.sources.log.storage import lost, storage_in
from calve.sources.source import Backlog, Planned, Position, Split
from calve.state.folder import StateFolder

__all__ = ["SPLIT_BYTES", "LogPosition", "SegmentIndex"]

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


class SegmentIndex:
    """The segments of the log, up to their durable end. Any thread may call it.

    Args:
        folder: The log's folder, local or on an object store.
        is_end: Whether a batch may end after an entry. Entries after the last end are not planned.
    """

    def __init__(self, folder: StateFolder, is_end: IsEnd = anywhere) -> None:
        self._folder = folder
        self._is_end = is_end
        self._lock = threading.Lock()
        self._segments: list[Segment] = []

    def load(self, position: Position | None) -> None:
        """Load the segments, and check that nothing after a position is missing.

        A log on an object store is taken over: a driver that wrote it until now is refused from here on.

        Raises:
            PositionLostError: Something is missing.
            SourceError: A segment is damaged.
            WriteError: The store does not answer; may be repeated.
        """
        at = LogPosition.of(position) if position else None
        self._segments = storage_in(self._folder).load(at, self._is_end)
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
            return sum(log_segment.end for log_segment in self._segments)

    def add(self, new: Segment) -> None:
        """Add a new segment, unless it is known already."""
        with self._lock:
            if not self._segments or self._segments[-1] is not new:
                self._segments.append(new)

    def grow(self, records: list[tuple[int, int, bytes]], time_ms: int) -> None:
        """Add records (size, rows, key) that are now durable at the end of the last segment."""
        with self._lock:
            last = self._segments[-1]
            for size, rows, key in records:
                if key:
                    last.keys.append((time_ms, key))
                last.grow(last.end + size, rows, self._is_end(key))

    def before(self, at: LogPosition) -> list[Segment]:
        """Return the segments completely before a position, except the last one."""
        with self._lock:
            return [log_segment for log_segment in self._segments[:-1] if (log_segment.number, log_segment.end) <= at]

    def drop(self, old: Segment) -> None:
        """Forget a segment that was deleted."""
        with self._lock:
            self._segments.remove(old)

    def backlog(self, position: Position | None) -> Backlog:
        """Count the events after a position that can be planned."""
        rows = size = 0
        with self._lock:
            last = self._last_end()
            for log_segment, start in self._behind(position):
                if start < (end := _stop(log_segment, last)):
                    rows += log_segment.rows_before(end) - log_segment.rows_before(start)
                    size += end - start
        return Backlog(rows, size)

    def open_bytes(self) -> int:
        """Return the bytes that cannot be planned yet."""
        with self._lock:
            last = self._last_end()
            return sum(log_segment.end - _stop(log_segment, last) for log_segment in self._segments)

    def plan(self, position: Position | None, max_bytes: int, last: int | None = None) -> Planned | None:
        """Divide about `max_bytes` after a position into splits, in order; at least one record if there is one.

        They end at the last entry within `max_bytes` after which a batch may end, or at the next one; None if there is
        none.

        Args:
            position: Where it begins; None: at the beginning.
            max_bytes: About the most bytes.
            last: The last segment that may be read; None: all.
        """
        with self._lock:
            parts = [part for part in self._behind(position) if last is None or part[0].number <= last]
            end = _end_within(parts, max_bytes)
            return _planned_until(parts, end) if end else None

    def _last_end(self) -> LogPosition:
        """Return the last entry after which a batch may end; the beginning of the log if there is none."""
        ends = (
            LogPosition(log_segment.number, log_segment.ends[-1][0])
            for log_segment in reversed(self._segments)
            if log_segment.ends
        )
        return next(ends, LogPosition(0, 0))

    def _behind(self, position: Position | None) -> list[_Part]:
        """Return the segments after a position, each with its start offset."""
        at = LogPosition.of(position) if position else LogPosition(0, 0)
        return [
            (log_segment, at.offset if log_segment.number == at.segment else SEGMENT_HEAD_BYTES)
            for log_segment in self._segments
            if log_segment.number >= at.segment
        ]

    def _check(self, at: LogPosition) -> None:
        """Check that nothing between a position and the first segment is missing."""
        first = self._segments[0] if self._segments else None
        if first is None or first.number > at.segment + 1 or self._segments[-1].number < at.segment:
            raise self._lost(at.segment)
        if first.number == at.segment + 1 and first.previous_end != at.offset:
            raise self._lost(at.segment)

    def _lost(self, number: int) -> PositionLostError:
        return lost(self._folder / segment.name(number))  # on a store the objects that begin with its number


_Part = tuple[Segment, int]
"""A segment, and where it begins to be read."""


def _end_within(parts: list[_Part], max_bytes: int) -> LogPosition | None:
    """Return the last end within `max_bytes`, or else the next one."""
    last: LogPosition | None = None
    bytes_left = max_bytes
    for log_segment, start in parts:
        if start == log_segment.end:
            continue
        end = log_segment.end_after(start, bytes_left)
        if last and (end is None or end - start > bytes_left):
            return last
        last = LogPosition(log_segment.number, end) if end else None
        bytes_left -= log_segment.end - start
    return last


def _planned_until(parts: list[_Part], last: LogPosition) -> Planned:
    splits: list[Split] = []
    for log_segment, start in parts:
        stop = _stop(log_segment, last)
        while start < stop:
            end = log_segment.cut(start, min(stop - start, SPLIT_BYTES))
            splits.append(_split(log_segment, start, end))
            start = end
    return Planned(splits, last.position())


def _stop(log_segment: Segment, last: LogPosition) -> int:
    """Return up to where a segment is before a position."""
    if log_segment.number < last.segment:
        return log_segment.end
    return last.offset if log_segment.number == last.segment else SEGMENT_HEAD_BYTES


def _split(log_segment: Segment, start: int, end: int) -> Split:
    rows = log_segment.rows_before(end) - log_segment.rows_before(start)
    body: dict[str, Any] = {"file": segment.name(log_segment.number), "start": start, "end": end, "rows": rows}
    if log_segment.parts:
        body["parts"] = log_segment.parts_between(start, end)
    return Split(body, end - start)
