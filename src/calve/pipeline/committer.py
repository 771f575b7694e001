"""The thread that commits waiting tables when they are due, several in parallel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from calve.errors import CalveError, InvariantError
from calve.pipeline.commit_queue import CommitQueue
from calve.record.target import BranchRef

__all__ = ["Committer"]

_POOL = 8
"""Tables that are committed in parallel (17-25 ms per table with 4 to 8 threads)."""
_TICK_SECONDS = 0.02


class Committer:
    """Commits on its own thread.

    Args:
        name: The pipeline's name.
        queue: The waiting tables.
        commit: Commits a table that was taken from the queue.
        acknowledge: Acknowledges the batches whose tables are all committed.
        now: Monotonic seconds.
        sleep: Waits for a number of seconds.

    Attributes:
        failed: The error that ended the thread.
        took_seconds: How long the last commits took.
    """

    def __init__(
        self,
        name: str,
        queue: CommitQueue,
        commit: Callable[[BranchRef], None],
        acknowledge: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.failed: CalveError | None = None
        self.took_seconds = 0.0
        self._queue = queue
        self._commit = commit
        self._acknowledge = acknowledge
        self._now = now
        self._sleep = sleep
        self._name = f"commit-{name}"
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(_POOL, thread_name_prefix=self._name)
        self._thread: threading.Thread | None = None

    def start(self, prepare: Callable[[], None]) -> None:
        """Start to commit, after a preparation."""
        self._thread = threading.Thread(target=self._run, args=(prepare,), name=self._name, daemon=True)
        self._thread.start()

    def cycle(self) -> None:
        """Commit the due tables, and acknowledge the batches that are then committed."""
        tables = self._queue.take(self._now())
        if tables is None:
            return
        began = self._now()
        for commit in [self._pool.submit(self._commit, table) for table in tables]:
            commit.result()
        self.took_seconds = self._now() - began if tables else self.took_seconds
        self._acknowledge()

    def drain(self, limit_seconds: float) -> bool:
        """Commit everything that is staged now; return whether everything is committed.

        Args:
            limit_seconds: How long to retry while no table can be committed; not at all if all of them are held.
        """
        self._queue.drain(self._now())
        while not self._queue.is_empty():
            self._sleep(_TICK_SECONDS)
            if self.failed or self._queue.is_stuck(self._now() - limit_seconds):
                return False
        return self.failed is None

    def stop(self) -> None:
        """End the thread; a running commit is finished."""
        self._ended.set()
        if self._thread:
            self._thread.join()
        self._pool.shutdown()

    def _run(self, prepare: Callable[[], None]) -> None:
        try:
            prepare()
            while not self._ended.wait(_TICK_SECONDS):
                if not self._queue.is_empty():
                    self.cycle()
        except CalveError as error:
            self.failed = error
        except Exception as error:
            self.failed = InvariantError(f"The committer failed: {type(error).__name__}: {error}", step="commit")
            self.failed.__cause__ = error
