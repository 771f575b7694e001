"""Maintains the tables of a pipeline in the background, as far as they need it.

It rests after each round, so that on average it takes no more than its share of the cores.
"""

from __future__ import annotations

import threading
import time
import zlib
from dataclasses import dataclass, field, replace

from calve.commit.outcome import Outcome
from calve.engine.engine import Engine
from calve.errors import CalveError, NoTargetError
from calve.maintenance.by_need import Round, Rounds
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.orphans import remove_orphans
from calve.maintenance.trigger import Trigger
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.observe.status import PipelineStatus
from calve.pipeline.background import WorkedTable
from calve.table.limits import MaintenanceLimits

__all__ = ["TableMaintenance"]

_DAY_SECONDS = 24 * 3600


@dataclass
class _Table(WorkedTable):
    """One branch of a table.

    Attributes:
        limits: When it needs maintenance.
        trigger: When it is inspected.
        orphans_at: When its orphans are removed next, as epoch seconds.
        rounds: What has been found of it so far.
        is_last: Whether it gets a round before the run ends.
    """

    limits: MaintenanceLimits = field(kw_only=True)
    trigger: Trigger = field(kw_only=True)
    orphans_at: float = field(kw_only=True)
    rounds: Rounds | None = None
    is_last: bool = False

    def is_due(self, now: float) -> bool:
        is_day = self.limits.orphans and time.time() >= self.orphans_at and not self.failures
        return self.is_last or self.trigger.is_due(now) or (is_day and now >= self.trigger.not_before)


class TableMaintenance:
    """The maintenance of one pipeline; see `TableWork`.

    Args:
        spark: Runs it, beside the batches.
        status: Gets the results.
        lock: Guards the tables.
    """

    first_wait_seconds = 60.0
    longest_wait_seconds = 3600.0

    def __init__(self, spark: Engine, status: PipelineStatus, lock: threading.Condition) -> None:
        self._spark, self._status, self._lock = spark, status, lock
        self._log = Log(status.name)
        self.tables: dict[tuple[str, str, str], _Table] = {}

    def committed(
        self, key: str, context: MaintenanceContext, outcome: Outcome, limits: MaintenanceLimits | None
    ) -> None:
        """Record a commit.

        Args:
            key: Names the catalog.
            context: The table and its branch.
            outcome: The result of the commit.
            limits: When the table needs maintenance; None: it is left alone.
        """
        if outcome.held is None or limits is None:
            return
        with self._lock:
            name = (key, context.name, context.target.branch)
            if name not in self.tables:
                orphans_at = _next_time(context.name, time.time())
                self.tables[name] = _Table(context, limits=limits, trigger=Trigger(limits), orphans_at=orphans_at)
            self.tables[name].trigger.committed(outcome.files, outcome.held.data_files, time.monotonic())

    def require_last(self) -> None:
        """Let every table that may need a round get one now: the run ends."""
        with self._lock:
            for table in self.tables.values():
                table.is_last = table.trigger.has_reason(time.monotonic())

    def has_work(self) -> bool:
        """Return whether a table still needs its last round."""
        return any(table.is_last for table in self.tables.values())

    def next(self, now: float) -> _Table | None:
        """See `TableWork`."""
        due = [table for table in self.tables.values() if table.is_due(now)]
        return min(due, key=lambda table: table.trigger.inspected_at, default=None)

    def run(self, table: _Table) -> None:
        """Do one round.

        Raises:
            CalveError: It is to be tried again later.
        """
        name = table.context.name
        table.rounds = table.rounds or Rounds(table.context, table.limits)
        try:
            round = self._with_orphans(table, table.rounds.run())
        except NoTargetError:  # dropped: a commit will say so
            with self._lock:
                self.tables = {name: other for name, other in self.tables.items() if other is not table}
            return
        if round.done:
            self._log.info(f"maintained {name}: {', '.join(round.done)}, {round.seconds:.1f} s", table=name)
        self._status.maintained(name, round.seconds, bool(round.done), round.small_files)
        with self._lock:
            table.is_last = False
            table.trigger.ran(round, self._spark.tasks.parallelism, time.monotonic())

    def failed(self, table: _Table, error: CalveError, wait_seconds: float) -> str:
        """See `TableWork`."""
        self._status.maintenance_failed(table.context.name, error)
        table.rounds, table.is_last = None, False
        table.trigger.failed(wait_seconds, time.monotonic())
        return f"{table.context.name} is not maintained now"

    def _with_orphans(self, table: _Table, round: Round) -> Round:
        """Remove orphans, if it is time; a table has one time of the day, so that many tables take turns."""
        if not table.limits.orphans or time.time() < table.orphans_at or not round.collects:
            return round
        began = time.monotonic()
        table.orphans_at = _next_time(table.context.name, time.time())
        orphans = remove_orphans(table.context, None)
        done = (*round.done, f"{many(orphans.files, 'orphan')} deleted") if orphans.files else round.done
        return replace(round, done=done, seconds=round.seconds + time.monotonic() - began, one_task=False)


def _next_time(table: str, now: float) -> float:
    """Return the next time of the day of a table, as epoch seconds; its name decides, so a restart changes nothing."""
    at = now - now % _DAY_SECONDS + zlib.crc32(table.encode()) % _DAY_SECONDS
    return at if at > now else at + _DAY_SECONDS
