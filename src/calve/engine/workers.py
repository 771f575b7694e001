"""The workers of a local run: processes that the driver sends tasks to; `calve.engine.fork_server` is their side."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from pyspark import cloudpickle

from calve.errors import EngineError, WorkerLostError

__all__ = ["Forks", "Workers"]

Function = Callable[[Iterator[Any]], Iterator[Any]]
_STARTS = 3
"""How often the process that forks is started for one worker."""
_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MIMALLOC_PURGE_DELAY": "1000",
}
"""Variables for the C library and for Arrow's allocator: a worker keeps freed memory for its next batch, because pages
that the system takes back and clears again cost a twelfth of a task's CPU."""
_HINT = "Perhaps it lacked memory: reduce `max_batch_bytes`; Calve tries again"


class Forks:
    """The process that forks workers, and is replaced if it ends; any thread may ask it.

    Args:
        python: The interpreter; None: that of this process, with its module path.
        environment: Additional variables of its environment.
    """

    def __init__(self, python: str | None, environment: Mapping[str, str]) -> None:
        path = {} if python else {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._command = [python or sys.executable, "-m", "calve.engine.fork_server"]
        self._environment = {"OMP_NUM_THREADS": "1", **_MEMORY, **os.environ, **path, **environment}
        self._lock = threading.Lock()
        self._is_closed = False
        self._start()

    def new(self) -> Connection:
        """Return the connection to a new worker.

        Raises:
            EngineError: Everything was closed.
            WorkerLostError: No worker starts.
        """
        with self._lock:
            for _ in range(_STARTS):
                if self._is_closed:
                    raise EngineError("Spark has stopped while the pipeline ran", step="engine")
                try:
                    return self._forked()
                except (EOFError, OSError):  # it has ended
                    self._kill()
                    self._start()
        raise WorkerLostError("No worker starts", step="engine", hint=_HINT)

    def close(self) -> None:
        """Kill it and all workers, also those that work. May be called twice."""
        with self._lock:
            self._is_closed = True
            self._kill()

    def _forked(self) -> Connection:
        """Return the connection to a new worker, which has said that it is there.

        Raises:
            EOFError: The process that forks has ended, or the new one.
            OSError: As before.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs:
            socket.send_fds(self._control, [b"f"], [theirs.fileno()])
            worker = Connection(ours.detach())
        worker.recv_bytes()
        return worker

    def _start(self) -> None:
        """Start it in a session of its own: Ctrl-C is for the driver, which drains."""
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )

    def _kill(self) -> None:
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


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
        raise WorkerLostError("A worker ended while it ran a task", step="write", hint=_HINT)
