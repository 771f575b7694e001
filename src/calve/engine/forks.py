"""Starts the process that forks the workers of a local run: before Spark is imported, so that both are read at once."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

from calve.compiled import library
from calve.engine.fork_server import MEMORY, PRELOAD, Forked
from calve.errors import EngineError, WorkerLostError

__all__ = [
    "HINT",
    "MASTER",
    "PRELOADED",
    "PYTHON",
    "TASK_TRIES",
    "Forks",
    "cores_and_tries",
    "environment_of",
    "master_of",
    "start",
]

MASTER = "local[*]"
TASK_TRIES = 4
"""How often Spark tries a task before the batch fails."""
PRELOADED = ("pyarrow.compute", "pyarrow.parquet", "pyarrow.fs", "pyiceberg.io.pyarrow")
"""Modules that most tasks need and that are slow to import."""
PYTHON = "spark.pyspark.python"
"""Spark's setting for the Python of the workers."""
HINT = "Perhaps it lacked memory: reduce `max_batch_bytes`; Calve tries again"
_STARTS = 3
"""How often the process that forks is started for one worker."""
_VARIABLES = "spark.executorEnv."


def master_of(master: str | None, conf: Mapping[str, str]) -> str:
    """Return Spark's master URL; that of a local master with the number of tries, without which it repeats nothing."""
    chosen = conf.get("spark.master") or master or MASTER
    local = re.fullmatch(r"local(?:\[([^,\]]+)\])?", chosen)
    return f"local[{local.group(1) or 1},{TASK_TRIES}]" if local else chosen


def cores_and_tries(master: str) -> tuple[str, str]:
    """Return the cores and the tries of a task of a local master that has both; two empty texts: it is a cluster."""
    local = re.fullmatch(r"local\[(\d+|\*),\s*(\d+)\]", master)
    return (local.group(1), local.group(2)) if local else ("", "")


def environment_of(conf: Mapping[str, str], preload: Sequence[str]) -> dict[str, str]:
    """Return the environment variables for Python workers on any machine."""
    chosen = {name: os.environ[name] for name in (library.VARIABLE,) if name in os.environ}
    of_users = {key.removeprefix(_VARIABLES): value for key, value in conf.items() if key.startswith(_VARIABLES)}
    return {PRELOAD: ",".join(preload), **chosen, **of_users}


def start(master: str | None, conf: Mapping[str, str], preload: Sequence[str], from_here: bool = False) -> Forks | None:
    """Start the process; None if the master is a cluster.

    Args:
        master: Spark's master URL; None: `local[*]`.
        conf: Spark's settings.
        preload: Modules that it imports.
        from_here: Fork it from this process, which then has imported these modules, too.
    """
    is_local = any(cores_and_tries(master_of(master, conf)))
    return Forks(conf.get(PYTHON), environment_of(conf, preload), from_here) if is_local else None


class Forks:
    """The process that forks workers, and is replaced if it ends; any thread may ask it.

    Args:
        python: The interpreter; None: that of this process, with its module path.
        environment: Additional variables of its environment.
        from_here: Fork it from this process, unless it has another interpreter, or this process has threads: a lock
            that one of them holds would never be released in the fork.
    """

    def __init__(self, python: str | None, environment: Mapping[str, str], from_here: bool = False) -> None:
        path = {} if python else {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._command = [python or sys.executable, "-m", "calve.engine.fork_server"]
        self._environment = {"OMP_NUM_THREADS": "1", **MEMORY, **os.environ, **path, **environment}
        self._lock = threading.Lock()
        self._is_closed = False
        self._process: Forked | subprocess.Popen[bytes]
        self._start(from_here and python is None and threading.active_count() == 1)

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
        raise WorkerLostError("No worker starts", step="engine", hint=HINT)

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

    def _start(self, from_here: bool = False) -> None:
        """Start it in a process group of its own: Ctrl-C is for the driver, which drains.

        In a session of its own it would get as much of a busy machine as the JVM, which starts at the same time (Linux
        shares processors among sessions), and nobody waits for it as long.
        """
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = Forked(theirs, self._environment) if from_here else self._of_its_own(theirs)

    def _of_its_own(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            env=self._environment,
            process_group=0,
        )

    def _kill(self) -> None:
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
