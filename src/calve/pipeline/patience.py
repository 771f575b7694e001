"""How long to wait before the next try."""

from __future__ import annotations

import random
import threading
import time

__all__ = ["Patience"]

_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 15.0


class Patience:
    """Waits longer after each failure, with jitter; ends early when `stop` is set.

    Args:
        stop: Ends a wait.
        limit_seconds: After this time of failures in a row there is no further try; None: never give up.
    """

    def __init__(self, stop: threading.Event, limit_seconds: float | None = None) -> None:
        self._stop = stop
        self._limit = limit_seconds
        self._seconds = _FIRST_SECONDS
        self._since: float | None = None

    def succeeded(self) -> None:
        """Begin anew."""
        self._seconds, self._since = _FIRST_SECONDS, None

    def next_seconds(self) -> float:
        """Say how long to wait after one more failure."""
        seconds = self._seconds * random.uniform(0.8, 1.2)
        self._seconds = min(self._seconds * 2, _LONGEST_SECONDS)
        return seconds

    def wait(self) -> bool:
        """Wait after a failure; say whether to try again."""
        now = time.monotonic()
        self._since = self._since if self._since is not None else now
        if self._limit is not None and now - self._since >= self._limit:
            return False
        return not self._stop.wait(self.next_seconds())
