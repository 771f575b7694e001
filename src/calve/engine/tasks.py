"""Runs functions in tasks: on the workers of this machine, or as jobs of a Spark cluster.

A run with a local master needs no scheduler for its tasks, and Spark's costs each start a second of one core and each
batch a tenth of a second (decision 47). Runs on the driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pyspark import SparkContext

from calve.engine.handed_on import Second, hand_on, take
from calve.engine.jvm import java_errors
from calve.engine.workers import Workers
from calve.temporary import temporary_folder

__all__ = ["ClusterTasks", "LocalTasks", "Tasks"]

Function = Callable[[Iterator[Any]], Iterator[Any]]


class Tasks(ABC):
    """Where tasks run.

    Attributes:
        parallelism: How many run at once.
    """

    parallelism: int

    @abstractmethod
    def run(self, function: Function, items: Sequence[Any]) -> list[Any]:
        """Apply a function to each item, in a task of its own; return all that it yields, in the order of the items.

        Raises:
            CalveError: A task failed.
        """

    @abstractmethod
    def run_twice(self, first: Function, second: Second, items: Sequence[Any], count: int) -> list[Any]:
        """Run a function whose tasks hand messages on to the tasks of a second one; return what the second one yields.

        Args:
            first: Yields numbers of tasks of the second function, each with a message for it.
            second: Gets its number, and the messages in any order.
            items: For the first function.
            count: The number of tasks of the second function.

        Raises:
            CalveError: A task failed.
        """

    @abstractmethod
    def close(self) -> None:
        """End what runs."""


class ClusterTasks(Tasks):
    """Jobs of Spark."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def parallelism(self) -> int:  # type: ignore[override] # it grows with the executors
        """The cores of all executors."""
        return int(self._context.defaultParallelism)

    def run(self, function: Function, items: Sequence[Any]) -> list[Any]:
        """See `Tasks`."""
        with java_errors("write"):
            return list(self._context.parallelize(items, len(items)).mapPartitions(function).collect())

    def run_twice(self, first: Function, second: Second, items: Sequence[Any], count: int) -> list[Any]:
        """See `Tasks`."""
        handed_on = self._context.parallelize(items, len(items)).mapPartitions(first).partitionBy(count, int)
        with java_errors("write"):
            return list(handed_on.mapPartitionsWithIndex(second).collect())

    def close(self) -> None:
        """See `Tasks`; Spark ends its jobs with its context."""


class LocalTasks(Tasks):
    """Workers of this machine."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.parallelism = workers.count

    def run(self, function: Function, items: Sequence[Any]) -> list[Any]:
        """See `Tasks`."""
        return self._workers.run(function, [[item] for item in items])

    def run_twice(self, first: Function, second: Second, items: Sequence[Any], count: int) -> list[Any]:
        """See `Tasks`; messages wait in files."""
        with temporary_folder("calve-handed-on-") as folder:
            self._workers.run(partial(hand_on, first, folder), [[item] for item in enumerate(items)])
            return self._workers.run(partial(take, second, folder), [[number] for number in range(count)])

    def close(self) -> None:
        """See `Tasks`."""
        self._workers.close()
