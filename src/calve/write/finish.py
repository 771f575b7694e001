"""Finishes files in parallel, so that a task does not wait for its disk or object store file by file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

__all__ = ["FINISHERS", "Finishing"]

FINISHERS = 8
"""The threads."""
_BYTES = 64 << 20
"""The most bytes of rows in unfinished files, beyond one file."""
T = TypeVar("T")


class Finishing(Generic[T]):
    """A bounded queue of work on other threads; results are handled on the caller's thread.

    Args:
        done: Called with each result, in the order of `submit`.
    """

    def __init__(self, done: Callable[[T], None]) -> None:
        self._done = done
        self._pool = ThreadPoolExecutor(FINISHERS, "calve-finish")
        self._queue: deque[tuple[Future[T], int]] = deque()
        self._bytes = 0

    def submit(self, size_bytes: int, work: Callable[[], T]) -> None:
        """Start work that keeps `size_bytes` in memory; wait for earlier work while there is too much.

        Raises:
            CalveError: Earlier work failed.
        """
        self._queue.append((self._pool.submit(work), size_bytes))
        self._bytes += size_bytes
        while len(self._queue) > 1 and (len(self._queue) > FINISHERS or self._bytes > _BYTES):
            self._settle()

    def finish(self) -> None:
        """Wait for all work.

        Raises:
            CalveError: Work failed.
        """
        while self._queue:
            self._settle()
        self._pool.shutdown()

    def abandon(self) -> None:
        """Wait for all work, and ignore its results."""
        self._pool.shutdown(cancel_futures=True)
        self._queue.clear()

    def _settle(self) -> None:
        future, size_bytes = self._queue.popleft()
        self._bytes -= size_bytes
        self._done(future.result())
