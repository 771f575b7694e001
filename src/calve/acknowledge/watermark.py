"""How far tables are complete in event time, computed from staged batches.

A batch has, for each table, the latest event time of each origin (a Kafka partition; for other sources the whole
source). The table is complete through the smallest of these, because each origin is read in order. An origin without
events for the table does not count, unless it has more events waiting: their times are unknown, so the batch does not
change completeness. With `idle_after` it counts for a while, with its last event. Tables without a column of event
times have the times of the source's records.
Both figures only increase: the order and repetition of batches do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from calve.record.staged import StagedBatch
from calve.record.target import BranchRef
from calve.table.completeness import Completeness

__all__ = ["EventTime", "Origins", "complete_through", "event_times", "newest", "summary", "to_datetime"]

EventTime = tuple[int, int | None]
"""The latest event time of a table, and the time through which it is complete (None: unknown); microseconds since
the epoch, UTC."""

OriginSeen = tuple[str, str, str, str, int, float]
"""Catalog, table, branch and origin, its latest event time, and when it had events (seconds since the epoch)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = (each.replace(tzinfo=UTC) for each in (datetime.min, datetime.max))


class Origins:
    """The last event of each origin of each table, of tables with `idle_after`.

    Args:
        earlier: What an earlier run has seen: catalog, table, branch, origin, its latest event time in microseconds,
            and the time in seconds when it had events.
    """

    def __init__(self, earlier: Iterable[OriginSeen] = ()) -> None:
        self._seen: dict[BranchRef, dict[str, tuple[int, float]]] = {}
        for catalog, table, branch, origin, latest, seen in earlier:
            self._seen.setdefault(BranchRef(catalog, table, branch), {})[origin] = latest, seen

    def joined(self, target: BranchRef, times: Mapping[str, int], at: float, idle_seconds: float) -> dict[str, int]:
        """Return the latest event times by origin, with origins that had events not long before.

        Args:
            target: The table.
            times: The latest event times of a batch.
            at: When it was staged, in seconds since the epoch.
            idle_seconds: How long an origin counts; 0: not at all.
        """
        if not idle_seconds:
            return dict(times)
        seen = self._seen.setdefault(target, {})
        for origin, time in times.items():
            seen[origin] = max(time, seen[origin][0]) if origin in seen else time, at
        return {origin: time for origin, (time, last) in seen.items() if at - last <= idle_seconds}

    def seen(self) -> list[OriginSeen]:
        """Return what another run needs."""
        return [
            (*target, origin, time, last)
            for target, origins in self._seen.items()
            for origin, (time, last) in origins.items()
        ]


def event_times(
    record: StagedBatch,
    rule_of: Callable[[BranchRef], Completeness] = lambda _: Completeness(),
    origins: Origins | None = None,
) -> dict[BranchRef, EventTime]:
    """Return the event times of one staged batch by table; tables without event times are left out.

    No table is complete beyond the time at which the batch was staged: a fast clock would set the mark for ever.

    Args:
        record: The batch.
        rule_of: Returns the rules of a table.
        origins: The origins of earlier batches; this batch is added.
    """
    latest: dict[BranchRef, dict[str, int]] = {}
    for entry in record.tables:
        for origin, time in entry.event_times.items():
            times_of_table = latest.setdefault(entry.ref, {})
            times_of_table[origin] = max(time, times_of_table.get(origin, time))
    for target in {entry.ref for entry in record.tables} - latest.keys():
        if record.record_times and rule_of(target).event_time is None:
            latest[target] = record.record_times
    staged = int(record.staged_at * 1_000_000)
    waiting = set(record.waiting)
    joined: dict[BranchRef, EventTime] = {}
    for target, times in latest.items():
        rule = rule_of(target)
        latest_by_origin = (origins or Origins()).joined(target, times, record.staged_at, rule.idle_seconds)
        is_known = waiting <= latest_by_origin.keys()
        through = min(staged, *latest_by_origin.values()) - rule.lateness_micros if is_known else None
        joined[target] = max(times.values()), through
    return joined


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
