"""Converts equality deletes in the background: if a table has too many, and after its first load.

The deletes stay valid until they are converted.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from calve.commit.outcome import Outcome
from calve.errors import CalveError
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.equality_deletes import convert
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.observe.status import PipelineStatus
from calve.pipeline.background import WorkedTable
from calve.record.target import EQUALITY_DELETE, MERGE_ON_READ, WriteMode

__all__ = ["DeleteCompaction"]

_MOST_FILES = 1_000
"""More delete files cause a conversion, even with few rows: each scan opens all of them."""


@dataclass
class _Table(WorkedTable):
    """The state of one branch of a table.

    Attributes:
        files: The delete files that its last conversion left.
        rows: The rows of its equality deletes, as of the last commit.
        loads: Whether its first rows come from the initial backlog, which is still being read.
        begin_at: When the next one may start.
        is_noted: Whether equality deletes were found that the pipeline does not write itself.
    """

    due: bool = False
    files: int = 0
    rows: int = 0
    loads: bool = False
    begin_at: float = 0.0
    is_noted: bool = False


class DeleteCompaction:
    """The conversions of one pipeline; see `TableWork`.

    Args:
        status: Gets their results.
        lock: Guards the tables.
    """

    first_wait_seconds = 30.0
    longest_wait_seconds = 1800.0

    def __init__(self, status: PipelineStatus, lock: threading.Condition) -> None:
        self._status, self._lock = status, lock
        self._log = Log(status.name)
        self.tables: dict[tuple[str, str, str], _Table] = {}

    def committed(self, key: str, context: MaintenanceContext, outcome: Outcome, limit: int) -> None:
        """Record a commit; a conversion becomes due if the branch has too many equality deletes.

        Args:
            key: Names the catalog.
            context: The table and its branch.
            outcome: The result of the commit.
            limit: The most rows of equality deletes; 0: no limit.
        """
        if outcome.already:
            return
        self._status.equality_deletes(context.name, outcome.equality_deletes)
        if not (outcome.equality_deletes or outcome.began):
            return
        with self._lock:
            table = self.tables.setdefault((key, context.name, context.target.branch), _Table(context))
            mode = context.target.write_mode
            if mode != EQUALITY_DELETE and outcome.equality_deletes and not table.is_noted:
                self._note_foreign(table, outcome.equality_deletes, mode, limit)
            if not limit:
                return
            table.rows, table.loads = outcome.equality_deletes, table.loads or outcome.began
            is_many = outcome.delete_files - table.files > _MOST_FILES
            table.due = table.due or is_many or outcome.equality_deletes > limit

    def _note_foreign(self, table: _Table, rows: int, mode: WriteMode, limit: int) -> None:
        """Let equality deletes that the pipeline no longer writes be converted at once, and say so; once."""
        name = table.context.name
        table.is_noted, table.due = True, bool(limit)
        how = "by position" if mode == MERGE_ON_READ else "by rewriting their files"
        fate = "are converted now" if limit else f"stay until `calve maintain {name} --only convert`"
        self._log.info(
            f"{name} has {many(rows, 'row')} of equality deletes. From now on its rows are deleted {how} "
            f"(write_mode: {mode}), which every reader knows; these {fate}. With write_mode: equality-delete it goes "
            "on as before",
            table=name,
        )

    def loaded(self) -> None:
        """Record the end of the initial backlog: tables that started with it get their equality deletes converted.

        So readers without support for equality deletes can read a table after its first load.
        """
        with self._lock:
            for table in self.tables.values():
                table.due = table.due or (table.loads and table.rows > 0)
                table.loads = False

    def has_work(self) -> bool:
        """Return whether a conversion is due and has not failed."""
        return any(table.due and not table.failures for table in self.tables.values())

    def next(self, now: float) -> _Table | None:
        """See `TableWork`."""
        ready = [table for table in self.tables.values() if table.due and table.begin_at <= now]
        return min(ready, key=lambda table: table.begin_at, default=None)

    def run(self, table: _Table) -> None:
        """Convert the equality deletes of a branch.

        Raises:
            CalveError: It is to be tried again later.
        """
        name, began = table.context.name, time.monotonic()
        self._status.converting(name)
        done = convert(table.context)
        remaining = table.context.count()
        seconds = time.monotonic() - began
        what = f"{many(done.rewritten.files, 'data file')} rewritten"
        if not done.rewritten.files:
            what = f"{many(done.positions, 'row')} deleted by position instead"
        self._log.info(f"converted the equality deletes of {name}: {what}, {seconds:.1f} s", table=name)
        self._status.converted(name, remaining.equality_deletes)
        with self._lock:
            table.due, table.files = False, remaining.equality_delete_files + remaining.position_delete_files
            # It pauses as long as it worked, so that a busy table leaves Spark to the batches.
            table.begin_at = time.monotonic() + seconds

    def failed(self, table: _Table, error: CalveError, wait_seconds: float) -> str:
        """See `TableWork`."""
        self._status.conversion_failed(table.context.name, error)
        table.due, table.begin_at = True, time.monotonic() + wait_seconds
        return f"the equality deletes of {table.context.name} are not converted yet"
