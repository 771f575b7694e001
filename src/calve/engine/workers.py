"""The workers of a local run: processes that the driver sends tasks to; `calve.engine.fork_server` is their side."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from pyspark import cloudpickle

from calve.engine.forks import HINT, Forks
from calve.errors import WorkerLostError

__all__ = ["Workers"]

Function = Callable[[Iterator[Any]], Iterator[Any]]


class Workers:
    """A number of processes for tasks, each started with its first task, and replaced if it ends; for any thread.

    Args:
        forks: What starts them.
        count: How many tasks run at once.
        tries: How often a task may lose its worker.
    """

    def __init__(self, forks: Forks, count: int, tries: int) -> None:
        self.count = count
        self._forks = forks
        self._tries = tries
        self._threads = ThreadPoolExecutor(count, "worker")
        self._own = threading.local()
        self._numbers = itertools.count()

    def run(self, function: Function, partitions: Sequence[list[Any]]) -> list[Any]:
        """Apply a function to each partition in a task of its own; return all that it yields, in their order.

        Raises:
            WorkerLostError: A task has lost its worker each time.
            EngineError: The workers were closed.
            CalveError: A task raised it; all other exceptions are `InvariantError`.
        """
        pickled = cloudpickle.dumps(function)
        return list(itertools.chain.from_iterable(self._threads.map(partial(self._task, pickled), partitions)))

    def close(self) -> None:
        """Kill all workers, also those that work. May be called twice."""
        self._forks.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _task(self, function: bytes, partition: list[Any]) -> list[Any]:
        """Run a task with the worker of this thread."""
        items = pickle.dumps(partition)
        for _ in range(self._tries):
            try:
                if getattr(self._own, "worker", None) is None:
                    self._own.worker = self._forks.new()
                self._own.worker.send_bytes(pickle.dumps((next(self._numbers), function, items)))
                found, error = pickle.loads(self._own.worker.recv_bytes())
            except (EOFError, OSError):  # it has ended
                self._own.worker = None
                continue
            if error is not None:
                raise error
            return list(found)
        raise WorkerLostError("A worker ended while it ran a task", step="write", hint=HINT)
