"""The process that forks the workers of a local run, and what such a worker does.

It has imported slow modules once, and forks a worker for each socket that it receives. It and all workers end at once
with the driver, however that ends: the other end of its socket is then closed. The command `calve run` forks it from
itself, before it has any thread; all else starts it as `python -m calve.engine.fork_server`.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import os
import pickle
import signal
import socket
from collections.abc import Mapping
from multiprocessing.connection import Connection

from calve.errors import CalveError, InvariantError

__all__ = ["MEMORY", "PRELOAD", "Forked", "attempt", "import_modules", "serve"]

PRELOAD = "CALVE_PRELOAD"
"""The environment variable with the modules to import, separated by commas."""

MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MIMALLOC_PURGE_DELAY": "1000",
}
"""Variables for the C library and for Arrow's allocator: a worker keeps freed memory for its next batch, because pages
that the system takes back and clears again cost a twelfth of a task's CPU."""
_MALLOPT = {-1: 256 << 20, -3: 32 << 20}
"""The same by `mallopt`, as a forked process reads no variables: `M_TRIM_THRESHOLD`, and `M_MMAP_THRESHOLD`, which some
C libraries limit to this. Without the second a task takes up to a fifth more CPU."""
_attempt: int | None = None


def attempt() -> int | None:
    """Return the number of the task that this process works on, which no other task of the run has; None: none."""
    return _attempt


def import_modules(names: str) -> None:
    """Import the modules that tasks need, whose names are separated by commas."""
    for module in filter(None, names.split(",")):
        importlib.import_module(module)


class Forked:
    """The process, forked from this one, whose modules it has.

    Args:
        control: Its end of the socket.
        environment: Its variables, beside those of this process.

    Attributes:
        pid: Of the process, and of its group.
    """

    def __init__(self, control: socket.socket, environment: Mapping[str, str]) -> None:
        with contextlib.suppress(Exception):  # the pipeline that needs a module raises its error
            import_modules(environment.get(PRELOAD, ""))
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _become(control, environment)
            finally:
                os._exit(1)
        with contextlib.suppress(OSError):  # it may have done so itself, or have ended
            os.setpgid(self.pid, self.pid)

    def wait(self) -> None:
        """Wait for its end."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _become(control: socket.socket, environment: Mapping[str, str]) -> None:
    """Keep nothing of the driver but its modules, and serve."""
    os.setpgid(0, 0)  # Ctrl-C is for the driver, which drains
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    os.dup2(control.fileno(), 0)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.update(environment)
    with contextlib.suppress(AttributeError):  # a C library without it
        for option, value in _MALLOPT.items():
            ctypes.CDLL(None).mallopt(option, value)
    gc.freeze()
    serve()


def serve() -> None:
    """Fork a worker for each socket that comes by the standard input; at its end kill them all, and this process."""
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while received := socket.recv_fds(control, 1, 1)[1]:
        if os.fork() == 0:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.close()
                _work(Connection(received[0]))
            finally:
                os._exit(0)
        os.close(received[0])
    os.killpg(0, signal.SIGKILL)


def _work(driver: Connection) -> None:
    """Run one task after the other, until the driver closes the connection."""
    global _attempt
    with contextlib.suppress(EOFError, OSError):
        driver.send_bytes(b"")  # it is there
        while True:
            _attempt, function, partition = pickle.loads(driver.recv_bytes())
            driver.send_bytes(_result(function, partition))


def _result(function: bytes, partition: bytes) -> bytes:
    """Return what a pickled function yields for a pickled list, or the error that ended it; None instead of that."""
    try:
        return pickle.dumps((list(pickle.loads(function)(iter(pickle.loads(partition)))), None))
    except CalveError as error:
        return pickle.dumps((None, error))
    except Exception as error:
        return pickle.dumps((None, InvariantError(f"A task failed: {type(error).__name__}: {error}", step="write")))


if __name__ == "__main__":
    faulthandler.enable()  # the workers inherit it
    gc.disable()  # what is imported stays: nobody needs to look at it, again and again
    import_modules(os.environ.get(PRELOAD, ""))
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)  # nor at what they keep of each file of a task, which has no cycles
    gc.enable()
    from calve.engine import fork_server  # as tasks import it; here it is called `__main__`

    fork_server.serve()
