"""Decides when a batch is due: a backlog is read at once; few events wait for more of them, or for their age."""

from __future__ import annotations

import time
from collections.abc import Callable

from calve.sources.source import Backlog, Planned

__all__ = ["BatchTrigger"]

_BACKLOG_BATCHES = 2
"""This many full batches are a backlog; one full batch also comes from a steady flow."""

_LONGEST_LEAST_SECONDS = 2.0


class BatchTrigger:
    """Decides when the waiting events of a source are read.

    A pipeline starts behind: it reads batch after batch until one takes all waiting events. From then on events wait
    until there are enough for a batch, or until they have waited long enough.

    Args:
        interval_seconds: The longest time that events wait.
        clock: Monotonic seconds, which no change of the machine's clock touches.

    Attributes:
        since: When the oldest waiting event was first seen, in seconds since the epoch; None if none waits.
        behind: Whether a backlog is being read.
    """

    def __init__(self, interval_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._began = 0.0
        self.since: float | None = None
        self.behind = True

    def is_due(self, backlog: Backlog, max_bytes: int, least_seconds: float = 0.0) -> bool:
        """Return whether the waiting events should be read now.

        Args:
            backlog: The waiting events.
            max_bytes: The size of a full batch.
            least_seconds: They wait so long although the interval is shorter, but at most two seconds: where each batch
                makes a commit slower, batches that come faster than commits would only delay these.
        """
        if not backlog:
            self.since = None
            return False
        now = self._clock()
        if self.since is None:
            self.since, self._began = time.time(), now
        self.behind = self.behind or backlog.is_urgent or backlog.size_bytes >= _BACKLOG_BATCHES * max_bytes
        wait = max(self._interval_seconds, min(least_seconds, _LONGEST_LEAST_SECONDS))
        return self.behind or backlog.size_bytes >= max_bytes or now - self._began >= wait

    def record(self, planned: Planned, backlog: Backlog, max_bytes: int) -> bool:
        """Record what a batch takes of the backlog that `is_due` got; return whether it ends the backlog."""
        was_behind = self.behind
        self.behind = was_behind and (bool(planned.waiting) or backlog.size_bytes > max_bytes)
        return was_behind and not self.behind
