"""Converts equality deletes in the background: if a table has too many, and after its first load.

It has its own thread. Batches never wait for it, and a failure does no harm: the deletes stay valid until they are
converted. Its commits and those of the pipeline reload the table if the other one was faster.
"""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field

from calve.catalog.catalog import Catalog
from calve.commit.fence import Outcome
from calve.commit.mark import CommitTarget
from calve.engine.engine import Engine
from calve.errors import CalveError, InvariantError
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.equality_deletes import convert
from calve.network.backoff import delay
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.observe.status import PipelineStatus

__all__ = ["ONE_AT_A_TIME", "DeleteCompaction"]

_MOST_FILES = 1_000
"""More delete files cause a conversion, even with few rows: each scan opens all of them."""
_FIRST_WAIT_SECONDS = 30.0
_LONGEST_WAIT_SECONDS = 1800.0
_LEAVE_SECONDS = 5.0
"""How long the end of a run waits for a conversion to stop."""
_TICK_SECONDS = 0.2
ONE_AT_A_TIME = threading.Lock()
"""Shared by all pipelines of the process: maintenance needs memory, and one of Spark's slots."""


@dataclass
class _Table:
    """The state of one branch of a table.

    Attributes:
        files: The delete files that its last conversion left.
        rows: The rows of its equality deletes, as of the last commit.
        loads: Whether its first rows come from the initial backlog, which is still being read.
        begin_at: When the next one may start; consecutive `failures` delay it.
    """

    catalog: Catalog
    target: CommitTarget
    due: bool = False
    files: int = 0
    rows: int = 0
    loads: bool = False
    begin_at: float = 0.0
    failures: int = 0


@dataclass
class _Known:
    lock: threading.Condition = field(default_factory=threading.Condition)
    tables: dict[tuple[str, str, str], _Table] = field(default_factory=dict)


class DeleteCompaction:
    """The background conversion of one pipeline.

    Args:
        spark: Runs them, beside the batches.
        status: Gets their results.
    """

    def __init__(self, spark: Engine, status: PipelineStatus) -> None:
        self._spark = spark
        self._status = status
        self._log = Log(status.name)
        self._known = _Known()
        self._ended = threading.Event()
        self._tag = f"calve-{uuid.uuid4().hex}"
        self._thread = threading.Thread(target=self._run, name=f"convert-{status.name}", daemon=True)

    def look(self, key: str, catalog: Catalog, target: CommitTarget, outcome: Outcome, limit: int) -> None:
        """Record a commit; a conversion becomes due if the branch has too many equality deletes.

        Args:
            key: Names the catalog.
            catalog: Where the table is.
            target: The table and its branch.
            outcome: The result of the commit.
            limit: The most rows of equality deletes; 0: no limit.
        """
        if outcome.already:
            return
        self._status.equality_deletes(target.identifier, outcome.equality_deletes)
        if not limit or not (outcome.equality_deletes or outcome.began):
            return
        with self._known.lock:
            table = self._known.tables.setdefault(
                (key, target.identifier, target.branch),
                _Table(catalog, CommitTarget(target.identifier, "", target.branch)),
            )
            table.rows, table.loads = outcome.equality_deletes, table.loads or outcome.began
            is_many = outcome.delete_files - table.files > _MOST_FILES
            table.due = table.due or is_many or outcome.equality_deletes > limit
            self._wake()

    def loaded(self) -> None:
        """Record the end of the initial backlog: tables that started with it get their equality deletes converted.

        So readers without support for equality deletes can read a table after its first load.
        """
        with self._known.lock:
            for table in self._known.tables.values():
                table.due = table.due or (table.loads and table.rows > 0)
                table.loads = False
            self._wake()

    def _wake(self) -> None:
        if not self._thread.is_alive() and not self._ended.is_set() and self._due_tables():
            self._thread.start()
        self._known.lock.notify()

    def _due_tables(self) -> list[_Table]:
        return [table for table in self._known.tables.values() if table.due]

    def finish(self, stop: threading.Event) -> None:
        """Wait until every due conversion is done or has failed, or a stop is requested."""
        with self._known.lock:
            while not stop.is_set() and any(not table.failures for table in self._due_tables()):
                self._known.lock.wait(_TICK_SECONDS)

    def stop(self) -> None:
        """End the thread within seconds; a running conversion is abandoned, which does no harm to its table."""
        self._ended.set()
        with self._known.lock:
            self._known.lock.notify_all()
        if self._thread.is_alive():
            self._spark.cancel(self._tag)
            self._thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        self._spark.describe(self._status.name, "maintenance")
        self._spark.tag(self._tag)
        while not self._ended.is_set():
            if table := self._next():
                self._convert(table)

    def _next(self) -> _Table | None:
        with self._known.lock:
            ready = [table for table in self._due_tables() if table.begin_at <= time.monotonic()]
            if not ready:
                self._known.lock.wait(_TICK_SECONDS)
            return min(ready, key=lambda table: table.begin_at, default=None)

    def _convert(self, table: _Table) -> None:
        if not ONE_AT_A_TIME.acquire(timeout=_TICK_SECONDS):
            return
        name, began = table.target.identifier, time.monotonic()
        try:
            self._status.converting(name)
            context = MaintenanceContext(self._spark, table.catalog, table.target, gentle=True)
            done = convert(context)
            remaining = context.count()
        except CalveError as error:
            self._failed(table, error)
        except Exception as error:
            self._failed(
                table, InvariantError(f"The conversion failed: {type(error).__name__}: {error}", step="convert")
            )
        else:
            seconds = time.monotonic() - began
            what = f"{many(done.rewritten.files, 'data file')} rewritten"
            if not done.rewritten.files:
                what = f"{many(done.positions, 'row')} deleted by position instead"
            self._log.info(f"converted the equality deletes of {name}: {what}, {seconds:.1f} s", table=name)
            self._status.converted(name, remaining.equality_deletes)
            files = remaining.equality_delete_files + remaining.position_delete_files
            # It pauses as long as it worked, so that a busy table leaves Spark to the batches.
            self._settle(table, due=False, failures=0, files=files, begin_at=time.monotonic() + seconds)
        finally:
            ONE_AT_A_TIME.release()

    def _failed(self, table: _Table, error: CalveError) -> None:
        if self._ended.is_set():
            return
        wait = delay(table.failures, _FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS)
        name = table.target.identifier
        self._log.warning(
            f"the equality deletes of {name} are not converted yet: {error.message}; Calve tries again in {wait:.0f} s",
            table=name,
            hint=error.hint or "Or run `calve maintain` on it",
        )
        self._status.conversion_failed(name, error)
        self._settle(table, due=True, failures=table.failures + 1, files=table.files, begin_at=time.monotonic() + wait)

    def _settle(self, table: _Table, *, due: bool, failures: int, files: int, begin_at: float) -> None:
        with self._known.lock:
            table.due, table.failures, table.files, table.begin_at = due, failures, files, begin_at
            self._known.lock.notify_all()
