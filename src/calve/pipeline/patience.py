"""How long to wait before the next try."""

from __future__ import annotations

import math
import random
import threading
import time

__all__ = ["Patience"]

_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 15.0


class Patience:
    """Waits longer after each failure, with jitter, and gives up at the end of a bound.

    Args:
        stop: Says that the end was asked for; it ends a wait, and from then on there is a bound.
        limit_seconds: The bound on failures in a row, once there is one.
        bounded: Whether there is one from the first failure on.
    """

    def __init__(self, stop: threading.Event, limit_seconds: float = 0.0, bounded: bool = False) -> None:
        self._stop = stop
        self._limit = limit_seconds
        self._bounded = bounded
        self._seconds = _FIRST_SECONDS
        self._deadline: float | None = None

    def next_seconds(self) -> float:
        """Say how long to wait after one more failure."""
        seconds = self._seconds * random.uniform(0.8, 1.2)
        self._seconds = min(self._seconds * 2, _LONGEST_SECONDS)
        return seconds

    def wait(self) -> bool:
        """Wait after a failure; say whether to try again."""
        if self._deadline is None and (self._bounded or self._stop.is_set()):
            self._deadline = time.monotonic() + self._limit
        left = math.inf if self._deadline is None else self._deadline - time.monotonic()
        if left <= 0:
            return False
        self._sleep(min(self.next_seconds(), left))
        return True

    def _sleep(self, seconds: float) -> None:
        if self._stop.is_set():
            time.sleep(seconds)
        elif self._stop.wait(seconds):
            self._seconds = _FIRST_SECONDS
