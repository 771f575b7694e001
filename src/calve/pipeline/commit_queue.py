"""The staged files that wait for their commit: when each table is due, and what goes into one commit.

It has no thread and no clock and does no I/O: the time, in monotonic seconds, is an argument. Every method is atomic,
so any thread may call it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from calve.errors import CalveError, Verdict
from calve.network.backoff import delay
from calve.pipeline.rate import Rate
from calve.record.target import BranchRef
from calve.record.written import Entries, StagedFiles
from calve.sinks.sink import CommitSettings

__all__ = ["CommitQueue", "Retry"]

_MOST_STAGED = 64
"""With more staged batches, a commit is due at once and new batches wait."""
_MOST_HELD = 2_000
"""The same where commits wait for the watermark."""
_BACKLOG_PAUSE = 2
"""While a backlog is read, commits pause for so many times what they take: of a table that is committed twice, the
first time only delays the rest."""
_TABLE_SECONDS = 0.01
"""What the commit of one of many tables takes, until the first ones are committed."""
_TABLES_AT_ONCE = 10
"""The first rows of so many tables of a run are committed at once; with more tables that doubles the commits."""


@dataclass
class Retry:
    """The last of several consecutive failures, and the time of the next try."""

    error: CalveError | None = None
    at: float = -math.inf
    failures: int = 0

    def failed(self, error: CalveError, now: float) -> None:
        """Record a failure; the wait grows with each one."""
        self.error, self.at = error, now + delay(self.failures)
        self.failures += 1


@dataclass
class _Table:
    """The entries that wait for one branch of a table, by batch, in order.

    Attributes:
        seconds: The interval of its commits.
        is_urgent: Whether it is due at once: this run has not committed to it yet and it is one of the run's first
            tables, or its files were written again.
        is_taken: Whether a commit of it is running.
        is_due: Whether its interval is over, or enough waits, and it has not been taken since.
    """

    seconds: float
    is_urgent: bool
    entries: dict[int, Entries] = field(default_factory=dict)
    retry: Retry = field(default_factory=Retry)
    is_taken: bool = False
    is_due: bool = False

    @property
    def size_bytes(self) -> int:
        """The bytes that wait."""
        return sum(entry.bytes for entries in self.entries.values() for entry in entries)

    @property
    def is_held(self) -> bool:
        """Whether it waits for the operator and not for a server."""
        return self.retry.error is not None and self.retry.error.verdict is Verdict.ASK


class _Waiting(NamedTuple):
    """What waits for a commit, without held tables: batches, and the bytes and number of tables that no commit takes.

    `is_any_early`: whether a table, held or not, is due before the interval.
    """

    batches: int
    size_bytes: int
    tables: int
    is_any_early: bool


class CommitQueue:
    """The staged batches of a pipeline until they are acknowledged; it knows no table for which nothing waits.

    Args:
        settings: The interval and size at which all tables are due.
        now: The start of the first interval.
        is_kept: Whether the source keeps events until they are committed: then with enough bytes all tables are due,
            and not only the large ones.

    Attributes:
        is_behind: Whether a backlog is being read.
    """

    def __init__(self, settings: CommitSettings, now: float, is_kept: bool = False) -> None:
        self._settings = settings
        self._is_kept = is_kept
        self._most_staged = _MOST_HELD if settings.is_any_by_watermark else _MOST_STAGED
        self._lock = threading.Lock()
        self._batches: list[int] = []
        self._tables: dict[BranchRef, _Table] = {}
        self._first_tables: set[BranchRef] = set()
        self._rate = Rate(settings.most_per_second, now)
        self._waits: _Waiting | None = None
        self._moved = self._began = now
        self._clocks = {settings.interval_seconds: now}
        self._due_intervals = frozenset[float]()
        self._taken = self._running = 0
        self._table_seconds = _TABLE_SECONDS
        self.is_behind = False
        self._is_soon = self._is_draining = False

    def add(self, batch: int, entries: Iterable[StagedFiles]) -> None:
        """Add a staged batch; batches come in order."""
        with self._lock:
            self._batches.append(batch)
            self._waits = None
            for entry in entries:
                if entry.ref not in self._tables:
                    seconds = self._settings.seconds(entry.table)
                    self._clocks.setdefault(seconds, self._clocks[self._settings.interval_seconds])
                    is_urgent = self._is_first(entry.ref) and not self._settings.waits_for_watermark(entry.table)
                    self._tables[entry.ref] = _Table(seconds, is_urgent)
                table = self._tables[entry.ref]
                table.entries.setdefault(batch, []).append(entry)

    def has_room(self) -> bool:
        """Return whether another batch may be staged; tables that wait for the operator do not count."""
        with self._lock:
            return self._waiting().batches < self._most_staged

    def is_empty(self) -> bool:
        """Return whether all batches are acknowledged."""
        with self._lock:
            return not self._batches

    def commit_soon(self) -> None:
        """Make all waiting tables due, unless some wait for the watermark."""
        with self._lock:
            self._is_soon = not self._settings.is_any_by_watermark

    def release(self, name: BranchRef) -> None:
        """Make a table due that waits for the watermark."""
        with self._lock:
            if self._settings.waits_for_watermark(name.table) and name in self._tables:
                self._tables[name].is_urgent, self._waits = True, None

    def drain(self, now: float) -> None:
        """Make all tables due until all batches are acknowledged."""
        with self._lock:
            self._is_draining, self._moved = True, now

    def is_stuck(self, since: float) -> bool:
        """Return whether only held tables are left, or nothing is being committed and nothing was since then."""
        with self._lock:
            if self._running or not self._batches:
                return False
            waiting = [table for _, table in self._left()]
            return self._moved < since or (bool(waiting) and all(table.is_held for table in waiting))

    def errors(self) -> list[CalveError]:
        """Return the errors that keep tables from being committed."""
        with self._lock:
            return [table.retry.error for _, table in self._left() if table.retry.error]

    def pop_due(self, now: float) -> list[BranchRef] | None:
        """Return the tables to commit now, perhaps none; None if nothing is due and no batch can be acknowledged.

        Those whose files have waited longest come first, if there may not be so many commits a second. A table is not
        taken again before its `committed`, `failed` or `rewritten`.
        """
        with self._lock:
            waits = self._waiting()
            is_large = waits.size_bytes >= self._settings.size_bytes
            is_all = self._is_soon or self._is_draining or waits.batches >= self._most_staged
            is_all |= is_large and self._is_kept
            self._due_intervals = frozenset(self._clocks if is_all else self._late(now))
            if not (self._due_intervals or is_large or waits.is_any_early):
                return None
            self._is_soon &= not is_all
            self._clocks |= dict.fromkeys(self._due_intervals, now)
            free = [(name, table) for name, table in self._left() if not table.is_taken]
            for _, table in free:
                is_one_large = is_large and table.size_bytes * waits.tables >= waits.size_bytes
                table.is_due |= table.seconds in self._due_intervals or is_one_large
            due = [
                (name, table)
                for name, table in free
                if table.retry.at <= now and (table.is_due or table.is_urgent or table.retry.failures)
            ]
            if (most := self._rate.take(len(due), now)) < len(due):
                due = sorted(due, key=lambda waiting: min(waiting[1].entries))[:most]
            for _, table in due:
                table.is_taken, table.is_due = True, False
            self._waits = None
            self._running += len(due)
            self._began, self._taken = (now, len(due)) if self._due_intervals else (self._began, self._taken)
            return [name for name, _ in due] if due or self._due_intervals else None

    def load(self, name: BranchRef) -> dict[int, Entries]:
        """Return the entries that wait for a table, by batch."""
        with self._lock:
            return {batch: list(entries) for batch, entries in self._tables[name].entries.items()}

    def committed(self, name: BranchRef, batches: Iterable[int], now: float) -> bool:
        """Remove committed batches of a table; return whether that ends an error that no other table has."""
        with self._lock:
            table = self._returned(name, now)
            for batch in batches:
                del table.entries[batch]
            before, table.retry = table.retry.error, Retry()
            table.is_urgent, self._moved = False, now
            if not table.entries:
                del self._tables[name]
            return before is not None and not self._fails(before)

    def failed(self, name: BranchRef, error: CalveError, now: float) -> bool:
        """Record that a commit failed; return whether to log the error, once for all tables."""
        with self._lock:
            table = self._returned(name, now)
            is_known = type(table.retry.error) is type(error)
            is_known |= error.verdict is not Verdict.ASK and self._fails(error)
            table.retry.failed(error, now)
            return not is_known

    def rewritten(self, name: BranchRef, batches: Mapping[int, Entries], now: float) -> None:
        """Replace the entries that wait for a table."""
        with self._lock:
            table = self._returned(name, now)
            table.entries = {batch: entries for batch, entries in {**table.entries, **batches}.items() if entries}
            table.is_urgent, self._moved = True, now

    def finished(self) -> list[int]:
        """Return, in order, the batches that are committed to all tables, as are all earlier ones."""
        with self._lock:
            open_from = min((batch for _, table in self._left() for batch in table.entries), default=math.inf)
            return [batch for batch in self._batches if batch < open_from]

    def acknowledged(self, batch: int) -> None:
        """Remove a finished batch."""
        with self._lock:
            self._batches.remove(batch)
            self._is_draining = self._is_draining and bool(self._batches)

    def _is_first(self, name: BranchRef) -> bool:
        """Return whether a table has its first files of this run, and is one of the run's first tables."""
        is_first = name not in self._first_tables and len(self._first_tables) < _TABLES_AT_ONCE
        if is_first:
            self._first_tables.add(name)
        return is_first

    def _late(self, now: float) -> list[float]:
        """Return the intervals that are over."""
        pause = _BACKLOG_PAUSE * self._table_seconds * self._waiting().tables if self.is_behind else 0.0
        return [seconds for seconds, began in self._clocks.items() if now - began >= max(seconds, pause)]

    def _left(self) -> list[tuple[BranchRef, _Table]]:
        return [(name, table) for name, table in self._tables.items() if table.entries]

    def _waiting(self) -> _Waiting:
        """Return what waits; counted once after each change, because it is asked for fifty times a second."""
        if self._waits is None:
            waiting = [table for _, table in self._left()]
            not_held = [table for table in waiting if not table.is_held]
            batches = {batch for table in not_held for batch in table.entries}
            sizes = [table.size_bytes for table in not_held if not table.is_taken]
            is_any_early = any(table.is_due or table.is_urgent or table.retry.failures for table in waiting)
            self._waits = _Waiting(len(batches), sum(sizes), len(sizes), is_any_early)
        return self._waits

    def _fails(self, error: CalveError) -> bool:
        return any(type(table.retry.error) is type(error) for table in self._tables.values())

    def _returned(self, name: BranchRef, now: float) -> _Table:
        """End a commit; the interval begins after the last table's commit."""
        table = self._tables[name]
        self._running -= table.is_taken
        table.is_taken, self._waits = False, None
        if table.seconds in self._due_intervals:
            self._clocks[table.seconds] = now
            self._table_seconds = (now - self._began) / max(self._taken, 1)
        return table
