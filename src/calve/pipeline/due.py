"""When a batch is due: a backlog is read at once, what trickles in waits for its size or its age."""

from __future__ import annotations

import time
from collections.abc import Callable

from calve.sources.source import Backlog, Planned

__all__ = ["Due"]

_BACKLOG_BATCHES = 2
"""So many full batches that wait at once are a backlog, too; one is what a steady flow brings."""


class Due:
    """Says when to read what waits in a source.

    A pipeline starts behind, as what waits then was there already: it reads batch after batch until one takes all that
    waits. From then on events wait until there are enough for a batch, or until they have waited long enough.

    Args:
        interval_seconds: How long events wait at most.
        clock: Seconds since the epoch.

    Attributes:
        since: When the oldest event that waits was first seen; None: nothing waits.
        behind: Whether a backlog is being read.
    """

    def __init__(self, interval_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._interval_seconds = interval_seconds
        self._clock = clock
        self.since: float | None = None
        self.behind = True

    def look(self, backlog: Backlog, max_bytes: int) -> bool:
        """Return whether what waits is to be read now.

        Args:
            backlog: What waits.
            max_bytes: The size of a full batch.
        """
        if not backlog:
            self.since = None
            return False
        now = self._clock()
        self.since = self.since or now
        self.behind = self.behind or backlog.size_bytes >= _BACKLOG_BATCHES * max_bytes
        return self.behind or backlog.size_bytes >= max_bytes or now - self.since >= self._interval_seconds

    def took(self, planned: Planned, backlog: Backlog, max_bytes: int) -> bool:
        """Note what a batch takes of the backlog that `look` was given; return whether it ends a backlog."""
        was_behind = self.behind
        self.behind = was_behind and (bool(planned.waiting) or backlog.size_bytes > max_bytes)
        return was_behind and not self.behind
