"""Runs functions in the tasks of Spark's jobs. Runs on the driver.

Spark erases the types of exceptions, so a task returns its error as data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark import SparkContext

from calve.engine.java.errors import JAVA_ERRORS, caused_by, jvm_error
from calve.engine.pyspark_private import has_stopped
from calve.errors import CalveError, EngineError, InvariantError, SetupError, WorkerLostError

__all__ = ["Tasks"]

_SPARK = "org.apache.spark.SparkException"
_PYTHON = "org.apache.spark.api.python.PythonException"
"""What a worker raised outside a task's function."""
_CUT = ("java.io.EOFException", "java.net.SocketException")
"""The connection to a worker ended."""
_LOST = "Perhaps it lacked memory: reduce `max_batch_bytes`; Calve tries again"
_STOPPED = (
    "Perhaps the cluster ended it, because executors could not start: look at their logs, and at the master's. "
    "Nothing is lost; start Calve again"
)
Function = Callable[[Iterator[Any]], Iterable[Any]]
Second = Callable[[int, Iterable[tuple[int, bytes]]], Iterator[Any]]


@dataclass(frozen=True)
class _Failed:
    """The error that ended a task."""

    error: CalveError


class Tasks:
    """Jobs of Spark, for any thread.

    Args:
        context: Runs them.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def parallelism(self) -> int:
        """The cores of all executors; it grows with them."""
        return int(self._context.defaultParallelism)

    def run(self, function: Function, items: Sequence[Any]) -> list[Any]:
        """Apply a function to each item, in a task of its own; return all that it yields, in the order of the items.

        Raises:
            CalveError: A task failed.
        """
        if not items:
            return []
        return self._collected(self._context.parallelize(items, len(items)).mapPartitions(partial(_caught, function)))

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
        messages = self._context.parallelize(items, len(items)).mapPartitions(first).partitionBy(count, int)
        return self._collected(messages.mapPartitionsWithIndex(partial(_caught, second)))

    def _collected(self, results: Any) -> list[Any]:
        try:
            collected = results.collect()
        except JAVA_ERRORS as error:
            raise self._error(error) from error
        for failed in (outcome for outcome in collected if isinstance(outcome, _Failed)):
            raise failed.error
        return list(collected)

    def _error(self, error: Exception) -> CalveError:
        """Return the error of a failed job: Java talks only to workers there, and what they raise comes as data."""
        if has_stopped(self._context):
            return EngineError("Spark has stopped while the pipeline ran", step="write", hint=_STOPPED)
        calve_error = jvm_error(error, step="write")
        if (
            isinstance(calve_error, EngineError | SetupError)
            or caused_by(error, _PYTHON)
            or not caused_by(error, _SPARK)
        ):
            return calve_error
        reason = "" if caused_by(error, *_CUT) else f": {calve_error.message}"
        return WorkerLostError(f"A worker ended while it ran a task{reason}", step="write", hint=_LOST)


def _caught(function: Callable[..., Iterable[Any]], *arguments: Any) -> Iterator[Any]:
    """Yield what a function yields, and the error that ended it."""
    try:
        yield from function(*arguments)
    except CalveError as error:
        yield _Failed(error)
    except Exception as error:
        yield _Failed(InvariantError(f"A task failed: {type(error).__name__}: {error}", step="write"))
