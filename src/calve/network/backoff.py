"""How long to wait before the next try, for everything that tries again."""

from __future__ import annotations

import math
import random
import threading
import time

__all__ = ["Backoff", "delay"]

_MOST_DOUBLINGS = 60


def delay(failures: int, first_seconds: float = 0.5, longest_seconds: float = 15.0) -> float:
    """Return the seconds to wait after so many earlier failures in a row: each time twice as long, up to a bound.

    The wait is between half of that and the whole, so that those who failed together do not come again together.
    """
    seconds: float = min(first_seconds * 2 ** min(failures, _MOST_DOUBLINGS), longest_seconds)
    return seconds * random.uniform(0.5, 1.0)


class Backoff:
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
        self._failures = 0
        self._deadline: float | None = None

    def wait(self) -> bool:
        """Wait after a failure; say whether to try again."""
        if self._deadline is None and (self._bounded or self._stop.is_set()):
            self._deadline = time.monotonic() + self._limit
        remaining = math.inf if self._deadline is None else self._deadline - time.monotonic()
        if remaining <= 0:
            return False
        self._failures += 1
        self._sleep(min(delay(self._failures - 1), remaining))
        return True

    def _sleep(self, seconds: float) -> None:
        if self._stop.is_set():
            time.sleep(seconds)
        elif self._stop.wait(seconds):
            self._failures = 0
