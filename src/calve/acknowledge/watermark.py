"""How far tables are complete in event time, computed from staged batches.

A batch has, for each table, the latest event time of each origin (a Kafka partition; for other sources the whole
source). The table is complete through the smallest of these, because each origin is read in order. An origin without
events for the table does not count, unless it has more events waiting: their times are unknown, so the batch does not
change completeness.
Both figures only increase: the order and repetition of batches do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from calve.record.staged import StagedBatch
from calve.record.target import BranchRef

__all__ = ["EventTime", "complete_through", "event_times", "newest", "summary", "to_datetime"]

EventTime = tuple[int, int | None]
"""The latest event time of a table, and the time through which it is complete (None: unknown); microseconds since
the epoch, UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = (each.replace(tzinfo=UTC) for each in (datetime.min, datetime.max))


def event_times(record: StagedBatch) -> dict[BranchRef, EventTime]:
    """Return the event times of one staged batch by table; tables without event times are left out.

    No table is complete beyond the time at which the batch was staged: a fast clock would set the mark for ever.
    """
    latest: dict[BranchRef, dict[str, int]] = {}
    for entry in record.tables:
        for origin, time in entry.event_times.items():
            times_of_table = latest.setdefault(entry.ref, {})
            times_of_table[origin] = max(time, times_of_table.get(origin, time))
    staged = int(record.staged_at * 1_000_000)
    waiting = set(record.waiting)
    return {
        target: (max(times.values()), min(staged, *times.values()) if waiting <= times.keys() else None)
        for target, times in latest.items()
    }


def newest(entries: Iterable[EventTime | None]) -> EventTime | None:
    """Join the event times of one table from several batches, in any order."""
    times = [entry for entry in entries if entry is not None]
    if not times:
        return None
    return max(latest for latest, _ in times), max((entry for _, entry in times if entry is not None), default=None)


def summary(time: EventTime | None) -> dict[str, str]:
    """Return the properties of a snapshot; texts of equal length, which sort like the times."""
    if time is None:
        return {}
    names = ("calve.max-event-time", "calve.valid-through")
    return {name: _text(value) for name, value in zip(names, time, strict=True) if value is not None}


def complete_through(time: EventTime | None) -> datetime | None:
    """Return the time through which a table is complete, if it is known."""
    return None if time is None or time[1] is None else to_datetime(time[1])


def to_datetime(micros: int) -> datetime:
    """Return microseconds since the epoch as a time; values out of range become the first or last possible time."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return _LAST if micros > 0 else _FIRST


def _text(micros: int) -> str:
    return to_datetime(micros).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
