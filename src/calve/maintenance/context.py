"""One branch of one table, and the tools of all maintenance steps; runs on the driver."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from calve.catalog.attempt import Attempt
from calve.catalog.catalog import Catalog
from calve.catalog.trust import refuse_java_class
from calve.changes.places import refuse_files
from calve.commit.mark import CommitTarget
from calve.engine.engine import Engine
from calve.errors import MaintenanceError, UnsupportedError
from calve.maintenance.manifests import DeleteCounts, Manifests

__all__ = ["MaintenanceContext"]

_SMALL_GROUP_BYTES = 512 << 20
"""The default size of a data file, so that a group is one Spark task."""


class MaintenanceContext:
    """The table and tools of maintenance. Each step loads the table again, to see what pipelines wrote meanwhile.

    Args:
        spark: Runs the actions.
        catalog: Where the table is.
        target: The table and its branch.
        gentle: Leave resources to other jobs of this Spark: rewrite in small groups, one after another.

    Attributes:
        spark: The session.
        options: Iceberg's options for planning a rewrite.
        at_once: How many groups of files are rewritten at once; 0: Iceberg decides.
    """

    def __init__(self, spark: Engine, catalog: Catalog, target: CommitTarget, gentle: bool = False) -> None:
        self.catalog = catalog
        self.target = target
        self.options = {"max-file-group-size-bytes": str(_SMALL_GROUP_BYTES)} if gentle else {}
        self.at_once = 1 if gentle else 0
        self.jvm: Any = spark.jvm
        self.spark = spark

    @property
    def name(self) -> str:
        """The table's name."""
        return self.target.identifier

    @property
    def is_main(self) -> bool:
        """Whether the branch is `main`, the only one of some actions."""
        return self.target.branch == "main"

    def load(self) -> Any:
        """Return the current Java table.

        Raises:
            NoTargetError: The table does not exist.
            UnsupportedError: It names a class that would choose the places of its files.
        """
        table = self.catalog.load_java(self.name)
        refuse_java_class(self.name, table.properties())
        return table

    def refuse_files(self, table: Any, snapshots: list[Any], deletes: bool) -> None:
        """Check the files that snapshots of a Java table list, before they are read or deleted.

        Raises:
            MaintenanceError: One lies where the table may not choose.
        """
        try:
            refuse_files(self.spark, self.name, table, snapshots, deletes)
        except UnsupportedError as error:
            raise MaintenanceError(error.message, step="maintain", target=self.name, hint=error.hint) from error

    def begin(self) -> Attempt:
        """Load the table to commit to it."""
        return self.catalog.begin(self.name)

    def actions(self) -> Any:
        """Return Iceberg's actions for Spark; they use the active session of the thread."""
        session = self.spark.java_session
        self.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
        return self.jvm.org.apache.iceberg.spark.actions.SparkActions.get(session)

    @cached_property
    def manifests(self) -> Manifests:
        """The compiled loops over manifests."""
        return Manifests(self.jvm)

    def count(self) -> DeleteCounts:
        """Count the files and rows of the branch."""
        return self.manifests.count(self.load(), self.target.branch)
