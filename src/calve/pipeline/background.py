"""The thread that works on the tables of a pipeline, one after another.

Batches and commits never wait for it, and a failure does no harm: the work is tried again later. Its commits and those
of the pipeline load the table again if the other one was faster.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from calve.engine.engine import Engine
from calve.errors import CalveError, InvariantError
from calve.maintenance.context import MaintenanceContext
from calve.network.backoff import delay
from calve.observe.log import Log
from calve.observe.status import PipelineStatus

__all__ = ["Background", "TableWork", "WorkedTable"]

_LEAVE_SECONDS = 5.0
"""How long the end of a run waits for running work to stop."""
_TICK_SECONDS = 0.2
_ONE_AT_A_TIME = threading.Lock()
"""Shared by all pipelines of the process: maintenance needs memory, and one of Spark's slots."""


@dataclass
class WorkedTable:
    """One branch of a table; consecutive `failures` delay its next round."""

    context: MaintenanceContext
    failures: int = 0


Table = TypeVar("Table", bound=WorkedTable)


class TableWork(Protocol[Table]):
    """One kind of work on tables. The thread holds the lock when it calls `next` and `failed`.

    Attributes:
        first_wait_seconds: The wait after a failure; it doubles with each further one.
        longest_wait_seconds: The longest wait.
        tables: The tables that may need it.
    """

    first_wait_seconds: float
    longest_wait_seconds: float
    tables: dict[tuple[str, str, str], Table]

    def next(self, now: float) -> Table | None:
        """Return the table that is due and has waited longest, if any."""
        ...

    def run(self, table: Table) -> None:
        """Work on a table.

        Raises:
            CalveError: The work is to be tried again later.
        """
        ...

    def failed(self, table: Table, error: CalveError, wait_seconds: float) -> str:
        """Put a table off; return what is not done, as the begin of a message."""
        ...


class Background:
    """The thread. The work shares one of Spark's slots with that of all pipelines of the process.

    Args:
        spark: Runs the work, beside the batches.
        status: That of the pipeline.
        works: What is done to tables.
        lock: Guards the tables of `works`.
    """

    def __init__(
        self, spark: Engine, status: PipelineStatus, works: Sequence[TableWork[Any]], lock: threading.Condition
    ) -> None:
        self._spark, self._name, self._works, self._lock = spark, status.name, works, lock
        self._log = Log(status.name)
        self._ended = threading.Event()
        self._tag = f"calve-{uuid.uuid4().hex}"
        self._thread = threading.Thread(target=self._run, name=f"maintain-{status.name}", daemon=True)

    def wake(self) -> None:
        """Look for work now."""
        with self._lock:
            if not self._thread.is_alive() and not self._ended.is_set() and any(work.tables for work in self._works):
                self._thread.start()
            self._lock.notify_all()

    def wait(self, stop: threading.Event, has_work: Callable[[], bool]) -> None:
        """Wait until there is no more work of some kind, or a stop is requested."""
        with self._lock:
            while not stop.is_set() and has_work():
                self._lock.wait(_TICK_SECONDS)

    def stop(self) -> None:
        """End the thread within seconds; running work is abandoned, which does no harm to its table."""
        self._ended.set()
        with self._lock:
            self._lock.notify_all()
        if self._thread.is_alive():
            self._spark.cancel(self._tag)
            self._thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        self._spark.describe(self._name, "maintenance")
        self._spark.tag(self._tag)
        while not self._ended.is_set():
            with self._lock:
                now = time.monotonic()
                due = [(work, table) for work in self._works if (table := work.next(now))]
                if not due:
                    self._lock.wait(_TICK_SECONDS)
            for work, table in due:
                if self._ended.is_set() or not _ONE_AT_A_TIME.acquire(timeout=_TICK_SECONDS):
                    break
                try:
                    self._work_on(work, table)
                finally:
                    _ONE_AT_A_TIME.release()

    def _work_on(self, work: TableWork[Any], table: WorkedTable) -> None:
        try:
            work.run(table)
        except CalveError as error:
            self._failed(work, table, error)
        except Exception as error:
            self._failed(work, table, InvariantError(f"{type(error).__name__}: {error}", step="maintain"))
        else:
            table.failures = 0
        finally:
            with self._lock:
                self._lock.notify_all()

    def _failed(self, work: TableWork[Any], table: WorkedTable, error: CalveError) -> None:
        if self._ended.is_set():
            return
        wait = delay(table.failures, work.first_wait_seconds, work.longest_wait_seconds)
        hint = error.hint or "Or run `calve maintain` on it"
        with self._lock:
            table.failures += 1
            what = work.failed(table, error, wait)
        message = f"{what}: {error.message}; Calve tries again in {wait:.0f} s"
        self._log.warning(message, table=table.context.name, hint=hint)
