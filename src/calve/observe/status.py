"""The live status of one pipeline: workers record what happens, and observers take a report.

Every method may be called from any thread, takes microseconds and never raises; nothing here touches a disk.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import msgspec

from calve import structs
from calve.errors import CalveError
from calve.observe import tally
from calve.observe.batch_counts import BatchCounts
from calve.observe.gate_report import GateReport
from calve.observe.health import Health
from calve.observe.liveness import process_started
from calve.observe.notices import Notices
from calve.observe.problems import problems
from calve.observe.report import (
    BranchFileStats,
    CommitReport,
    KeyIndexStats,
    NotifyReport,
    PipelineReport,
    PushReport,
    State,
    TableReport,
    Trouble,
    now,
)
from calve.observe.totals import Totals

__all__ = ["BatchCounts", "PipelineStatus"]

RATE_WINDOW_SECONDS = 10.0
MAX_COMMITS = 20
"""The last commits that a report lists."""
MAX_TABLES = 2_000
"""The most tables that are listed only for their rejects: wrong dynamic names must not grow the status forever."""


class PipelineStatus:
    """The live status of one pipeline.

    Args:
        name: The pipeline's name.
        totals: The pipeline's counts of earlier runs, from the ledger; counting continues from there.
        dlq: The folders or object-store prefixes of its rejects, if not the default folder.
        clock: Monotonic seconds.
        notices: Logs what is rejected or not written.
    """

    def __init__(
        self,
        name: str,
        totals: Totals | None = None,
        dlq: str | Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        notices: Notices | None = None,
    ) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._clock = clock
        self._notices = notices
        self._last_beat = clock()
        self._report = (totals or Totals()).report(name)
        self._report.pid, self._report.host = os.getpid(), socket.gethostname()
        self._report.process_started = process_started(self._report.pid)
        self._report.started, self._report.dlq = now(), _locations(dlq)
        self._samples = deque([(clock(), self._report.events)])

    def keeps_dead_letters_in(self, tables: Iterable[str]) -> None:
        """Record which tables store rejects; their rows do not count as written events."""
        with self._lock:
            self._report.dead_letter_tables = sorted(tables)

    def files_are(self, how: str) -> None:
        """Record how the files of the last batch were written."""
        with self._lock:
            self._report.files = how

    def set_state(self, state: State) -> None:
        """Set the state of the pipeline. A pipeline stops when everything is committed, so it has no error then."""
        self.beat()
        with self._lock:
            self._report.state = state
            if state == "stopped":
                self._report.errors = []
                for table in self._report.tables.values():
                    table.error = None

    def feeds(self, pipelines: Sequence[str]) -> None:
        """Record which pipelines run as a part of this one."""
        with self._lock:
            self._report.feeds = list(pipelines)

    def shows_spark_at(self, address: str) -> None:
        """Record the address of Spark's own pages; empty: they are off."""
        with self._lock:
            self._report.spark_pages = address

    def batch_written(self, counts: BatchCounts, seconds: float) -> None:
        """Count a staged batch; once for each batch, whichever process staged it."""
        self.beat()
        with self._lock:
            report = self._report
            report.batches += 1
            report.last_batch, report.last_batch_seconds = counts.batch, seconds
            report.events += counts.events
            report.run.events += counts.events
            report.bytes += counts.bytes
            report.unrouted += counts.unrouted
            report.run.unrouted += counts.unrouted
            report.run.dropped += counts.dropped
            report.passed_over += counts.passed_over
            report.dropped += counts.dropped
            report.added += counts.added
            report.duplicates += counts.duplicates
            report.forgotten_keys += counts.forgotten_keys
            for table, codes in counts.rejects.items():
                tally.add(report.rejects, codes)
                tally.add(report.run.rejects, codes)
                report.last_reject = now()
                if self._lists(table):
                    tally.add(self._table(table).rejects, codes)
                    tally.add(report.pending.setdefault(table, {}), codes)
            for table, columns in counts.nulled.items():
                tally.add(self._table(table).nulled, columns)
                self._table(table).reasons |= counts.reasons.get(table, {})
                tally.add_bounded(report.run.nulled, {f"{table}.{name}": count for name, count in columns.items()})
                report.last_nulled = now()
            for table, events in counts.late.items():
                self._table(table).late_events += events
            for table, fields in counts.ignored.items():
                tally.add_bounded(self._table(table).ignored, fields)
            for table, rules in counts.failed_rules.items():
                tally.add(self._table(table).failed_rules, rules)
            self._samples.append((self._clock(), report.events))
        if self._notices:
            self._notices.log(counts)

    def rejected(self, table: str, codes: Mapping[str, int]) -> None:
        """Count events of a table that were rejected by its commit."""
        with self._lock:
            tally.add(self._report.rejects, codes)
            tally.add(self._report.run.rejects, codes)
            self._report.last_reject = now()
            tally.add(self._table(table).rejects, codes)
            tally.add(self._report.pending.setdefault(table, {}), codes)
        if self._notices:
            self._notices.log(BatchCounts(0, 0, rejects={table: dict(codes)}))

    def table_committed(self, table: str, rows: int, snapshot_id: int | None, at: datetime | None = None) -> None:
        """Count a commit of a table: its rows, its snapshot, its time (now). A held table is free again."""
        self.beat()
        with self._lock:
            report = self._table(table)
            report.rows += rows
            tally.add(self._report.run.rows, {table: rows})
            report.commits += 1
            report.snapshot_id, report.last_commit = snapshot_id, at or now()
            report.error = None
            commit = CommitReport(table, rows, snapshot_id, report.last_commit)
            self._report.commits = [*self._report.commits[1 - MAX_COMMITS :], commit]

    def after_commit(self, table: str, key_index: KeyIndexStats | None = None, gate: GateReport | None = None) -> None:
        """Record the key index of a table, or what waits to be published, after a commit."""
        with self._lock:
            report = self._table(table)
            report.key_index = replace(key_index) if key_index else report.key_index
            report.gate = gate or report.gate

    def table_files(self, table: str, files: BranchFileStats) -> None:
        """Record the files of a table after a commit; the snapshot of its last maintenance may have expired."""
        with self._lock:
            report = self._table(table)
            times = [
                file_stats.last_maintenance
                for file_stats in (report.files, files)
                if file_stats and file_stats.last_maintenance
            ]
            report.files = replace(files, last_maintenance=max(times, default=None))

    def maintained(self, table: str, seconds: float, has_changed: bool, small_files: int) -> None:
        """Record a round of maintenance, whether it changed the table, and the small files that it found."""
        with self._lock:
            report = self._table(table)
            report.maintenance_rounds += has_changed
            report.maintenance_seconds += seconds
            report.maintenance_error, report.small_files = None, small_files
            if has_changed and report.files:
                report.files.last_maintenance = now()

    def maintenance_failed(self, table: str, error: CalveError) -> None:
        """Record that a table could not be maintained, and why."""
        with self._lock:
            report = self._table(table)
            report.maintenance_error = Trouble.of(error).after(report.maintenance_error)

    def paused(self, is_paused: bool) -> None:
        """Record whether the pipeline reads nothing because of `calve pause`."""
        with self._lock:
            self._report.paused = is_paused

    def superseded(self, index: str, events: int) -> None:
        """Count events for which the index has the same or a newer version."""
        with self._lock:
            self._table(index).superseded += events

    def valid_through(self, table: str, time: datetime | None) -> None:
        """Record the event time through which a table is complete; None changes nothing."""
        if time is not None:
            with self._lock:
                self._table(table).valid_through = time

    def equality_deletes(self, table: str, rows: int) -> None:
        """Record how many rows of equality deletes a table has."""
        with self._lock:
            self._table(table).equality_deletes = rows

    def converting(self, table: str) -> None:
        """Record that a table's equality deletes are being converted."""
        with self._lock:
            self._table(table).converting = True

    def converted(self, table: str, remaining: int) -> None:
        """Record that they were converted, and how many rows were added meanwhile."""
        with self._lock:
            report = self._table(table)
            report.converting, report.conversion_error = False, None
            report.equality_deletes, report.last_conversion = remaining, now()

    def conversion_failed(self, table: str, error: CalveError) -> None:
        """Record that they could not be converted, and why."""
        with self._lock:
            report = self._table(table)
            report.converting, report.conversion_error = False, Trouble.of(error).after(report.conversion_error)

    def staged(self, batches: int, size_bytes: int = 0) -> None:
        """Record how many batches are durable and not committed yet."""
        with self._lock:
            self._report.staged_batches, self._report.staged_bytes = batches, size_bytes

    def lag(self, rows: int, size_bytes: int, refusing: str = "", refused: Mapping[str, int] | None = None) -> None:
        """Record what waits in the source (-1 rows: unknown), why it refuses new events, and how many it refused."""
        self.beat()
        with self._lock:
            report = self._report
            report.refusing, report.lag_rows, report.lag_bytes = refusing, rows, size_bytes
            if refused and report.refused != refused:
                report.refused, report.last_refused = dict(refused), now()

    def dead_letter_room(self, size_bytes: int, is_full: bool) -> None:
        """Record the size of the dead letters, and whether nothing is read because there is no room for more."""
        with self._lock:
            self._report.dead_letter_bytes, self._report.dead_letters_full = size_bytes, is_full

    def dead_letters_wait(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Record how many dead letters wait, by table and code, as counted where they are."""
        with self._lock:
            self._report.pending = {table: dict(codes) for table, codes in counts.items()}

    def source(self, condition: str, stopped: Iterable[str] = ()) -> None:
        """Record what the source says about itself, and which of its tables it does not read any more."""
        with self._lock:
            self._report.source, self._report.stopped_tables = condition, sorted(stopped)

    def commit_took(self, seconds: float) -> None:
        """Record how long a commit took."""
        with self._lock:
            self._report.commit_times.add(seconds)

    def commit_tried(self, table: str, conflicts: int, repeats: int) -> None:
        """Record how often another writer was faster than a commit, and how often it was tried again."""
        with self._lock:
            self._table(table).commit_conflicts += conflicts
            self._report.commit_conflicts.add(conflicts)
            self._report.commit_repeats.add(repeats)

    def held_back(self, seconds: float) -> None:
        """Count time in which nothing was read because too many batches wait for a commit."""
        with self._lock:
            self._report.backpressure_seconds += seconds

    def steps(self, seconds: Mapping[str, float]) -> None:
        """Count the time of the steps of a batch."""
        with self._lock:
            totals = self._report.step_seconds
            totals |= {step: totals.get(step, 0.0) + of_step for step, of_step in seconds.items()}

    def lag_of_parts(self, rows: Mapping[str, int]) -> None:
        """Record how many rows wait in each part of the source."""
        self._report.lag_parts = dict(rows)  # one assignment is atomic

    def notified(self, address: str, receiver: NotifyReport) -> None:
        """Record how far a receiver of events is."""
        with self._lock:
            self._report.notify[address] = receiver

    def pushed(self, pushes: PushReport) -> None:
        """Record the pushes of the metrics."""
        self._report.otlp = pushes  # one assignment is atomic

    def freshness(self, seconds: float | None) -> None:
        """Record how old the oldest event of a commit was when it became visible."""
        with self._lock:
            self._report.freshness_seconds = seconds

    def trouble(self, error: CalveError, table: str = "") -> None:
        """Show an error until `recovered`: a table's, or the pipeline's (one for each step)."""
        self.beat()
        with self._lock:
            new = Trouble.of(error)
            if table:
                self._table(table).error = new.after(self._table(table).error)
            else:
                old = {earlier.step: earlier for earlier in self._report.errors}.get(new.step)
                others = [earlier for earlier in self._report.errors if earlier is not old]
                self._report.errors = [*others, new.after(old)]

    def recovered(self, table: str = "", step: str = "") -> bool:
        """Forget the table's error, or the pipeline's (of one step, or all of them); return whether there was one."""
        with self._lock:
            if table:
                report = self._report.tables.get(table, TableReport())
                had, report.error = report.error is not None, None
                return had
            remaining = [trouble for trouble in self._report.errors if step and trouble.step != step]
            had, self._report.errors = len(remaining) < len(self._report.errors), remaining
            return had

    def report(self) -> PipelineReport:
        """Return a copy of the report, with the current rate."""
        return structs.decode(self.encoded(), PipelineReport)

    def encoded(self) -> bytes:
        """Return the report as JSON, with the current rate; with many tables in a tenth of the time of a copy."""
        with self._lock:
            return msgspec.json.encode(self._current())

    def totals(self) -> Totals:
        """Return the counts that outlive the process, for the ledger."""
        with self._lock:
            counts = msgspec.json.encode(Totals.of(self._report))
        return structs.decode(counts, Totals)

    def beat(self) -> None:
        """Record that the pipeline is active."""
        self._last_beat = self._clock()

    def health(self) -> Health:
        """Return how the pipeline is."""
        with self._lock:
            report, quiet_seconds = self._current(), self._clock() - self._last_beat
            held = {name: table.error.message for name, table in report.tables.items() if table.error}
            error = report.errors[-1].sentence() if report.errors else ""
            wrong = [problem.what for problem in problems(report)]
            return Health(report.state, quiet_seconds, held, error, report.refusing, wrong)

    def _current(self) -> PipelineReport:
        self._report.updated = now()
        self._report.events_per_second = round(self._rate(), 1)
        return self._report

    def _table(self, name: str) -> TableReport:
        return self._report.tables.setdefault(name, TableReport())

    def _lists(self, table: str) -> bool:
        tables = self._report.tables
        return bool(table) and (table in tables or len(tables) < MAX_TABLES)

    def _rate(self) -> float:
        now_seconds = self._clock()
        while len(self._samples) > 1 and self._samples[1][0] <= now_seconds - RATE_WINDOW_SECONDS:
            self._samples.popleft()
        first_seconds, first_events = self._samples[0]
        return (self._report.events - first_events) / max(now_seconds - first_seconds, 1.0)


def _locations(dlq: str | Sequence[str]) -> list[str]:
    """Make local folders absolute, because readers of the status may run in another folder."""
    locations = [dlq] if isinstance(dlq, str) else dlq
    return [
        location if "://" in location else os.fspath(Path(location).expanduser().absolute())
        for location in locations
        if location
    ]
