"""Maintains the tables of a pipeline in the background, as far as they need it.

It has its own thread and one Spark task. Batches and commits never wait for it: it rests after each round, so that on
average it takes no more than its share of the cores, and a failure does no harm. Its commits and those of the
pipeline load the table again if the other one was faster.
"""

from __future__ import annotations

import threading
import time
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from calve.catalog.catalog import Catalog
from calve.commit.fence import Outcome
from calve.commit.mark import CommitTarget
from calve.engine.engine import Engine
from calve.errors import CalveError, InvariantError, NoTargetError
from calve.maintenance.by_need import Round, Rounds
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.orphans import remove_orphans
from calve.maintenance.trigger import Trigger
from calve.network.backoff import delay
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.observe.status import PipelineStatus
from calve.pipeline.delete_compaction import ONE_AT_A_TIME
from calve.record.target import EQUALITY_DELETE
from calve.table.limits import Limits

__all__ = ["TableMaintenance"]

_FIRST_WAIT_SECONDS = 60.0
_LONGEST_WAIT_SECONDS = 3600.0
_LEAVE_SECONDS = 5.0
"""How long the end of a run waits for a round to stop."""
_TICK_SECONDS = 0.2
_DAY_SECONDS = 24 * 3600


@dataclass
class _Table:
    """One branch of a table; `orphans_at`: when its orphans are removed next, as epoch seconds."""

    context: MaintenanceContext
    limits: Limits
    only_quiet: bool
    trigger: Trigger
    orphans_at: float
    rounds: Rounds | None = None
    failures: int = 0


@dataclass
class _Known:
    lock: threading.Condition = field(default_factory=threading.Condition)
    tables: dict[tuple[str, str, str], _Table] = field(default_factory=dict)
    last: list[_Table] = field(default_factory=list)
    """Those that get a round before the run ends."""


class TableMaintenance:
    """The background maintenance of one pipeline.

    Args:
        spark: Runs it, beside the batches.
        status: Gets the results.
    """

    def __init__(self, spark: Engine, status: PipelineStatus) -> None:
        self._spark = spark
        self._status = status
        self._log = Log(status.name)
        self._known = _Known()
        self._ended = threading.Event()
        self._tag = f"calve-{uuid.uuid4().hex}"
        self._thread = threading.Thread(target=self._run, name=f"maintain-{status.name}", daemon=True)

    def look(self, key: str, catalog: Catalog, target: CommitTarget, outcome: Outcome, limits: Limits | None) -> None:
        """Record a commit.

        Args:
            key: Names the catalog.
            catalog: Where the table is.
            target: The table and its branch.
            outcome: The result of the commit.
            limits: When the table needs maintenance; None: it is left alone.
        """
        if outcome.held is None or limits is None:
            return
        with self._known.lock:
            name = (key, target.identifier, target.branch)
            if name not in self._known.tables:
                context = MaintenanceContext(
                    self._spark, catalog, CommitTarget(target.identifier, "", target.branch), gentle=True
                )
                merges = target.write_mode != EQUALITY_DELETE
                orphans = _next_time(target.identifier, time.time())
                self._known.tables[name] = _Table(context, limits, merges, Trigger(limits), orphans)
            self._known.tables[name].trigger.committed(outcome.files, outcome.held.data_files, time.monotonic())
            if not self._thread.is_alive() and not self._ended.is_set():
                self._thread.start()

    def finish(self, stop: threading.Event) -> None:
        """Wait for a round of every table that may need one, or for a stop; for a run that ends by itself."""
        with self._known.lock:
            needy = [table for table in self._known.tables.values() if table.trigger.has_reason(time.monotonic())]
            self._known.last = needy
            while self._known.last and not stop.is_set():
                self._known.lock.wait(_TICK_SECONDS)

    def stop(self) -> None:
        """End the thread within seconds; a running round is abandoned, which does no harm to its table."""
        self._ended.set()
        if self._thread.is_alive():
            self._spark.cancel(self._tag)
            self._thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        self._spark.describe(self._status.name, "maintenance")
        self._spark.tag(self._tag)
        while not self._ended.wait(_TICK_SECONDS):
            for table in self._due():
                if self._ended.is_set() or not ONE_AT_A_TIME.acquire(timeout=_TICK_SECONDS):
                    break
                try:
                    self._maintain(table)
                finally:
                    ONE_AT_A_TIME.release()

    def _due(self) -> Iterator[_Table]:
        """Yield the tables that are due, those first that were looked at the longest time ago."""
        with self._known.lock:
            tables = sorted(self._known.tables.values(), key=lambda table: table.trigger.inspected_at)
            last = list(self._known.last)
        for table in tables:
            now = time.monotonic()
            is_day = table.limits.orphans and time.time() >= table.orphans_at and not table.failures
            if table in last or table.trigger.is_due(now) or (is_day and now >= table.trigger.not_before):
                yield table

    def _maintain(self, table: _Table) -> None:
        name = table.context.name
        try:
            table.rounds = table.rounds or Rounds(table.context, table.limits, table.only_quiet)
            round = self._with_orphans(table, table.rounds.run())
        except NoTargetError:
            self._forget(table)  # dropped: a commit will say so
        except CalveError as error:
            self._failed(table, error)
        except Exception as error:
            self._failed(table, InvariantError(f"{type(error).__name__}: {error}", step="maintain"))
        else:
            if round.done:
                self._log.info(f"maintained {name}: {', '.join(round.done)}, {round.seconds:.1f} s", table=name)
            self._status.maintained(name, round.seconds, bool(round.done))
            with self._known.lock:
                table.failures = 0
                table.trigger.ran(round, self._spark.tasks.parallelism, time.monotonic())
        finally:
            with self._known.lock:
                self._known.last = [other for other in self._known.last if other is not table]
                self._known.lock.notify_all()

    def _forget(self, table: _Table) -> None:
        with self._known.lock:
            self._known.tables = {name: other for name, other in self._known.tables.items() if other is not table}

    def _with_orphans(self, table: _Table, round: Round) -> Round:
        """Remove orphans, if it is time; a table has one time of the day, so that many tables take turns."""
        if not table.limits.orphans or time.time() < table.orphans_at or not round.collects:
            return round
        began = time.monotonic()
        table.orphans_at = _next_time(table.context.name, time.time())
        orphans = remove_orphans(table.context, None)
        done = (*round.done, f"{many(orphans.files, 'orphan')} deleted") if orphans.files else round.done
        return replace(round, done=done, seconds=round.seconds + time.monotonic() - began, one_task=False)

    def _failed(self, table: _Table, error: CalveError) -> None:
        if self._ended.is_set():
            return
        name, wait = table.context.name, delay(table.failures, _FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS)
        self._log.warning(
            f"{name} is not maintained now: {error.message}; Calve tries again in {wait:.0f} s",
            table=name,
            hint=error.hint or "Or run `calve maintain` on it",
        )
        self._status.maintenance_failed(name, error)
        with self._known.lock:
            table.failures, table.rounds = table.failures + 1, None
            table.trigger.failed(wait, time.monotonic())


def _next_time(table: str, now: float) -> float:
    """Return the next time of the day of a table, as epoch seconds; its name decides, so a restart changes nothing."""
    at = now - now % _DAY_SECONDS + zlib.crc32(table.encode()) % _DAY_SECONDS
    return at if at > now else at + _DAY_SECONDS
