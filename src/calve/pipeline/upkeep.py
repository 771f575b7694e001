"""What the tables of a pipeline need after commits: conversions of equality deletes, and maintenance."""

from __future__ import annotations

import threading

from calve.commit.fence import Outcome
from calve.commit.mark import CommitTarget
from calve.engine.engine import Engine
from calve.observe.status import PipelineStatus
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
        self._tables = tables
        self._compaction = DeleteCompaction(spark, status)
        self._maintenance = TableMaintenance(spark, status)
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
        name, catalog = target.identifier, self._tables.catalogs[key]
        self._compaction.look(key, catalog, target, outcome, self._tables.equality_delete_limit(key, name))
        self._maintenance.look(key, catalog, target, outcome, self._tables.limits(key, name))
        self._tables.refresh(key, name, outcome.table)

    def acknowledged(self, batch: int) -> None:
        """Note that a batch is committed to all tables: with the last one of the backlog their first load ends."""
        if batch == self.backlog_end:
            self._compaction.loaded()

    def finish(self, stop: threading.Event) -> None:
        """Wait until everything that is due is done or has failed, or a stop is requested."""
        self._compaction.finish(stop)
        self._maintenance.finish(stop)

    def stop(self) -> None:
        """End it within seconds; running work is abandoned, which does no harm to its table."""
        self._compaction.stop()
        self._maintenance.stop()
