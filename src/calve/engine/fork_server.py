"""The process that forks the workers of a local run, and what such a worker does.

The driver starts it as `python -m calve.engine.fork_server`, before the JVM. It imports slow modules once, and then
forks a worker for each socket that it receives. It and all workers end at once with the driver, however that ends:
the other end of its socket is then closed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import pickle
import signal
import socket
from multiprocessing.connection import Connection

from calve.errors import CalveError, InvariantError

__all__ = ["PRELOAD", "attempt", "import_modules", "serve"]

PRELOAD = "CALVE_PRELOAD"
"""The environment variable with the modules to import, separated by commas."""

_attempt: int | None = None


def attempt() -> int | None:
    """Return the number of the task that this process works on, which no other task of the run has; None: none."""
    return _attempt


def import_modules() -> None:
    """Import the modules that tasks need."""
    for module in filter(None, os.environ.get(PRELOAD, "").split(",")):
        importlib.import_module(module)


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
    import_modules()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)  # nor at what they keep of each file of a task, which has no cycles
    gc.enable()
    from calve.engine import fork_server  # as tasks import it; here it is called `__main__`

    fork_server.serve()
