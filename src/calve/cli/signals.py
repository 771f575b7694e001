"""Ctrl-C and SIGTERM: the first one asks the pipelines to stop, the next ones say how to force them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import NoReturn

from calve.observe.log import Log
from calve.observe.watch import Watch

__all__ = ["run_until_asked"]

ENDED = 0
STARTUP_STOPPED = 128
"""Plus the signal's number: what a shell reports for a program that a signal has ended."""
_LOOK_SECONDS = 0.5
"""So often the main thread looks for a signal that another thread received: such a signal does not wake it."""


def run_until_asked(work: Callable[[], int], watch: Watch) -> int:
    """Run `work` on a thread of its own and give what it returns; a signal sets `watch.stop`.

    PySpark takes SIGINT for itself when it is started on the main thread, so the main thread does nothing but wait.
    While nothing has begun, a signal ends the process at once and quietly: there is nothing to bring to an end.

    Raises:
        Exception: What `work` raised.
    """
    happened: SimpleQueue[int] = SimpleQueue()
    result: Future[int] = Future()

    def worked() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)
        happened.put(ENDED)

    with _signals_to(happened):
        threading.Thread(target=worked, name="calve-run", daemon=True).start()
        while number := _next(happened):
            if not watch.begun:
                _leave(STARTUP_STOPPED + number)
            _asked(watch)
    return result.result()


def _next(happened: SimpleQueue[int]) -> int:
    """Wait for what happens next. Python calls the handlers of signals on the main thread only, when it is awake."""
    while True:
        with suppress(Empty):
            return happened.get(timeout=_LOOK_SECONDS)


def _asked(watch: Watch) -> None:
    log = Log()
    if watch.stop.is_set():
        log.warning(
            "still finishing what has begun; to end it at once: "
            f"kill -9 {os.getpid()} (nothing is lost, the next run goes on from here)"
        )
        return
    log.info("stopping: what was read is being committed")
    watch.stop.set()


def _leave(code: int) -> NoReturn:
    """End without waiting for threads, which may be waiting for Java or a catalog themselves."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def _signals_to(happened: SimpleQueue[int]) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda got, frame: happened.put(got)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
