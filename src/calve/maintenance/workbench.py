"""One branch of one table, and what all steps of its maintenance need; runs on the driver."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from calve.commit.catalog import Catalog
from calve.commit.fence import Target
from calve.maintenance.manifests import Census, Manifests

__all__ = ["Workbench"]

_SMALL_GROUP_BYTES = 512 << 20
"""As large as a data file is by default, so that a group is one task of Spark."""


class Workbench:
    """The table is loaded anew by each step, so that it sees what pipelines wrote meanwhile.

    Args:
        spark: Runs the actions.
        catalog: Where the table is.
        target: The table and its branch.
        gentle: Leave room for others who work on this Spark: rewrite in small groups, one after another.

    Attributes:
        options: Iceberg's options for planning a rewrite.
        at_once: How many groups of files are rewritten at once; 0 leaves it to Iceberg.
    """

    def __init__(self, spark: SparkSession, catalog: Catalog, target: Target, gentle: bool = False) -> None:
        self.catalog = catalog
        self.target = target
        self.options = {"max-file-group-size-bytes": str(_SMALL_GROUP_BYTES)} if gentle else {}
        self.at_once = 1 if gentle else 0
        self.jvm: Any = spark.sparkContext._jvm
        self._session: Any = spark._jsparkSession

    @property
    def name(self) -> str:
        """The table's name."""
        return self.target.identifier

    @property
    def is_main(self) -> bool:
        """Whether it is the branch that actions without a choice of branch work on."""
        return self.target.branch == "main"

    def load(self) -> Any:
        """Give the Java table as it is now.

        Raises:
            NoTargetError: There is none of this name.
        """
        return self.catalog.load_java(self.name)

    def actions(self) -> Any:
        """Give Iceberg's actions on Spark; they take the session that is active on the thread for their own."""
        self.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self._session)
        return self.jvm.org.apache.iceberg.spark.actions.SparkActions.get(self._session)

    @cached_property
    def manifests(self) -> Manifests:
        """The compiled loops over manifests."""
        return Manifests(self.jvm)

    def count(self) -> Census:
        """Count what the branch consists of now."""
        return self.manifests.count(self.load(), self.target.branch)
