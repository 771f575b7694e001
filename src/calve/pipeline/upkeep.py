"""What the tables of a pipeline need after commits: conversions of equality deletes, and maintenance."""

from __future__ import annotations

import threading
from dataclasses import replace

from calve.commit.mark import CommitTarget
from calve.commit.outcome import Outcome
from calve.engine.engine import Engine
from calve.maintenance.context import MaintenanceContext
from calve.observe.status import PipelineStatus
from calve.pipeline.background import Background
from calve.pipeline.delete_compaction import DeleteCompaction
from calve.pipeline.table_maintenance import TableMaintenance
from calve.pipeline.tables import PipelineTables
from calve.record.target import beside

__all__ = ["Upkeep"]


class Upkeep:
    """The background work of one pipeline; its methods may be called from any thread.

    Args:
        spark: Runs it, beside the batches.
        status: Gets the results.
        tables: The tables of the pipeline.

    Attributes:
        backlog_end: The last batch of the initial backlog; 0: it is not known yet.
    """

    def __init__(self, spark: Engine, status: PipelineStatus, tables: PipelineTables) -> None:
        self._spark, self._tables = spark, tables
        lock = threading.Condition()
        self._compaction = DeleteCompaction(status, lock)
        self._maintenance = TableMaintenance(spark, status, lock)
        self._background = Background(spark, status, [self._compaction, self._maintenance], lock)
        self.backlog_end = 0

    def committed(self, key: str, target: CommitTarget, outcome: Outcome) -> None:
        """Note a commit, and take the table as it left it: others may have changed it.

        Args:
            key: The key of the table's catalog.
            target: The table and its branch.
            outcome: The result of the commit.

        Raises:
            CalveError: The table cannot be loaded.
        """
        if beside(target.branch) != target.branch:
            return  # it is dropped as soon as it is compared
        name, branch = target.identifier, replace(target, uuid="")
        context = MaintenanceContext(self._spark, self._tables.catalogs[key], branch, gentle=True)
        self._compaction.committed(key, context, outcome, self._tables.equality_delete_limit(key, name))
        self._maintenance.committed(key, context, outcome, self._tables.limits(key, name))
        self._background.wake()
        self._tables.refresh(key, name, outcome.table)

    def acknowledged(self, batch: int) -> None:
        """Note that a batch is committed to all tables: with the last one of the backlog their first load ends."""
        if batch == self.backlog_end:
            self._compaction.loaded()
            self._background.wake()

    def finish(self, stop: threading.Event) -> None:
        """Wait until everything that is due is done or has failed, or a stop is requested."""
        self._background.wait(stop, self._compaction.has_work)
        self._maintenance.require_last()
        self._background.wait(stop, self._maintenance.has_work)

    def stop(self) -> None:
        """End it within seconds; running work is abandoned, which does no harm to its table."""
        self._background.stop()
