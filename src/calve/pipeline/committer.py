"""The thread that commits waiting tables when they are due, several in parallel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from calve.errors import CalveError, CommitError, InvariantError
from calve.ledger.ledger import Ledger
from calve.pipeline.table_commits import TableCommits

__all__ = ["Committer"]

_POOL = 8
"""Tables that are committed in parallel (17-25 ms per table with 4 to 8 threads)."""
_TICK_SECONDS = 0.02


class Committer:
    """Commits on its own thread.

    Args:
        commits: Commits the tables, and acknowledges the batches whose tables are all committed.
        ledger: The pipeline's ledger.
        give_up_seconds: How long `commit_all` retries while no table can be committed.
        now: Monotonic seconds.
        sleep: Waits for a number of seconds.

    Attributes:
        failed: The error that ended the thread.
        took_seconds: How long the last commits took.
    """

    def __init__(
        self,
        commits: TableCommits,
        ledger: Ledger,
        give_up_seconds: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.failed: CalveError | None = None
        self.took_seconds = 0.0
        self._commits = commits
        self._queue = commits.queue
        self._ledger = ledger
        self._give_up_seconds = give_up_seconds
        self._now = now
        self._sleep = sleep
        self._name = f"commit-{ledger.pipeline}"
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(_POOL, thread_name_prefix=self._name)
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)

    def start(self) -> None:
        """Start to commit."""
        self._thread.start()

    def cycle(self) -> None:
        """Commit the due tables, and acknowledge the batches that are then committed."""
        tables = self._queue.pop_due(self._now())
        if tables is None:
            return
        began = self._now()
        for commit in [self._pool.submit(self._commits.commit, table) for table in tables]:
            commit.result()
        self.took_seconds = self._now() - began if tables else self.took_seconds
        self._commits.acknowledge()

    def check(self) -> None:
        """Check that the pipeline may go on.

        Raises:
            OvertakenError: Another driver has the ledger.
            CalveError: The error that ended the thread.
        """
        self._ledger.check()
        if self.failed is not None:
            raise self.failed

    def commit_all(self) -> None:
        """Commit everything that is staged now.

        Raises:
            CalveError: Not everything is committed; what is left stays staged.
        """
        if self._drain():
            return
        self.check()
        if troubles := self._commits.troubles():
            raise troubles[0]
        raise CommitError(
            "Staged batches could not be committed in time",
            step="commit",
            hint="They are kept; the next run commits them",
        )

    def _drain(self) -> bool:
        """Make everything due until it is committed, or only held tables are left; return whether it is committed."""
        self._queue.drain(self._now())
        while not self._queue.is_empty():
            self._sleep(_TICK_SECONDS)
            if self.failed or self._queue.is_stuck(self._now() - self._give_up_seconds):
                return False
        return self.failed is None

    def stop(self) -> None:
        """End the thread; a running commit is finished."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        try:
            self._commits.prepare()
            while not self._ended.wait(_TICK_SECONDS):
                if not self._queue.is_empty():
                    self.cycle()
        except CalveError as error:
            self.failed = error
        except Exception as error:
            self.failed = InvariantError(f"The committer failed: {type(error).__name__}: {error}", step="commit")
            self.failed.__cause__ = error
