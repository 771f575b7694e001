"""Spark of this process, as Calve uses it. Runs on the driver."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from calve.engine import pyspark_private
from calve.engine.java.compiled import class_file, java_class
from calve.engine.java.names import java_names
from calve.engine.workers.tasks import Tasks

__all__ = ["Engine"]


class Engine:
    """Spark's context, and its SQL session, which is made at its first use: writing and committing need none.

    Args:
        context: The context.
        gateway: py4j's connection to the driver's JVM.
        session: The SQL session, if it exists already.
        users: The session of the user's program, if it is theirs and not Calve's that runs.

    Attributes:
        context: The context.
        jvm: The classes of the driver's JVM, by their names.
        hadoop: Hadoop's configuration in the JVM.
        tasks: Runs functions in tasks.
    """

    def __init__(
        self,
        context: SparkContext,
        gateway: JavaGateway,
        session: SparkSession | None = None,
        users: SparkSession | None = None,
    ) -> None:
        self.context = context
        self._gateway = gateway
        self.jvm = java_names(gateway.jvm)
        self.hadoop: Any = pyspark_private.hadoop_configuration(context)
        self.tasks = Tasks(context)
        self._sent: set[Path] = set()
        self._given, self._users = session, users

    @cached_property
    def session(self) -> SparkSession:
        """The SQL session."""
        return self._given or SparkSession.builder.getOrCreate()

    @property
    def java_session(self) -> Any:
        """The Java half of the SQL session."""
        return pyspark_private.java_session(self.session)

    def settings_below(self, prefix: str) -> dict[str, str]:
        """Return the settings whose names begin with a prefix, without it, as the user's program sees them."""
        settings = (self._users or self.session).conf.getAll
        return {name.removeprefix(prefix): text for name, text in settings.items() if name.startswith(prefix)}

    @property
    def current_catalog(self) -> str:
        """The name of the catalog in which Spark looks for tables that are named without one."""
        return str((self._users or self.session).catalog.currentCatalog())

    def data_frame(self, java: Any) -> DataFrame:
        """Return the DataFrame of a Java `Dataset<Row>`."""
        return DataFrame(java, self.session)

    def users_frame(self, frame: DataFrame) -> DataFrame:
        """Return a DataFrame of the SQL session as one of the user's session, with its views and settings."""
        users = self._users or self.session
        dataset = self.jvm.org.apache.spark.sql.classic.Dataset
        java = dataset.ofRows(pyspark_private.java_session(users), pyspark_private.logical_plan(frame))
        return DataFrame(java, users)

    def task_class(self, module: str, name: str) -> Any:
        """Return a Java class, as `java_class` does, whose objects tasks can have: executors get it, too.

        Raises:
            EngineError: The cache folder, which the classes come from, cannot be written.
        """
        java = java_class(self.jvm, module, name)
        file = class_file(module, name)
        if file not in self._sent:
            pyspark_private.add_jar(self.context, file)
            self._sent.add(file)
        return java

    def object_array(self, *values: Any, kind: str = "Object") -> Any:
        """Return a Java `Object[]`, or an array of another class of `java.lang`."""
        array = self._gateway.new_array(getattr(self.jvm.java.lang, kind), len(values))
        for at, value in enumerate(values):
            array[at] = value
        return array

    @property
    def has_stopped(self) -> bool:
        """Whether the context was stopped, perhaps by Spark itself: a cluster can end an application."""
        return pyspark_private.has_stopped(self.context)

    @property
    def pages(self) -> str:
        """The address of Spark's own pages; empty: they are off."""
        return self.context.uiWebUrl or ""

    def describe(self, pipeline: str, work: str) -> None:
        """Let the jobs of this thread be in a pipeline's pool, which shares Spark fairly with others, and show a text.

        Args:
            pipeline: Its name; also that of the pool and of the group of jobs.
            work: What the jobs do.
        """
        self.context.setLocalProperty("spark.scheduler.pool", pipeline)
        self.context.setJobGroup(pipeline, f"{pipeline}: {work}")

    def tag(self, tag: str) -> None:
        """Let all jobs of this thread have a tag."""
        self.context.addJobTag(tag)

    def cancel(self, tag: str) -> None:
        """Cancel the jobs with a tag."""
        self.context.cancelJobsWithTag(tag)
