"""Signals that ask for the end: the first one stops the pipelines gracefully, the next ones say how to force it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NoReturn

from calve.observe.log import Log

if TYPE_CHECKING:
    from calve.observe.watch import Watch

__all__ = ["run_until_asked", "sigterm_exits"]

ENDED = 0
STARTUP_STOPPED = 128
"""Plus the number of the signal: a shell's exit code for a program that a signal has ended."""
_CHECK_SECONDS = 0.5
"""How often the main thread checks for a signal that another thread received; such a signal does not wake it."""


def run_until_asked(work: Callable[[], int], watch: Watch, abandon: Callable[[], None]) -> int:
    """Run `work` on a thread of its own and return its result; a signal sets `watch.stop`.

    PySpark handles SIGINT itself if it is started on the main thread, so the main thread only waits. Before any
    pipeline has begun, a signal ends the process at once and quietly, because nothing has to be finished.

    Args:
        work: What is to be done.
        watch: Has the request to stop.
        abandon: Leaves nothing of what is starting; called before such an end.

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
                abandon()
                _leave(STARTUP_STOPPED + number)
            _asked(watch)
    return result.result()


@contextmanager
def sigterm_exits() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `SystemExit` in the block, as Ctrl-C raises `KeyboardInterrupt`."""

    def leave(number: int, frame: object) -> NoReturn:
        raise SystemExit(STARTUP_STOPPED + number)

    before = {number: signal.signal(number, leave) for number in _numbers() if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _next(happened: SimpleQueue[int]) -> int:
    """Wait for the next event. Python calls signal handlers only on the main thread, and only while it is awake."""
    while True:
        with suppress(Empty):
            return happened.get(timeout=_CHECK_SECONDS)


def _asked(watch: Watch) -> None:
    log = Log()
    if watch.stop.is_set():
        log.warning(
            "still finishing the current work; to end at once: "
            f"kill -9 {os.getpid()} (nothing is lost; the next run continues from here)"
        )
        return
    log.info("stopping: committing what was read")
    watch.stop.set()


def _leave(code: int) -> NoReturn:
    """Exit without waiting for threads, which may wait for Java or a catalog."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _numbers() -> list[signal.Signals]:
    """Return the signals that ask for the end; `nohup` lets SIGHUP be ignored, and it stays so."""
    is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if is_ignored else [signal.SIGHUP])]


@contextmanager
def _signals_to(happened: SimpleQueue[int]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda got, frame: happened.put(got)) for number in _numbers()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
