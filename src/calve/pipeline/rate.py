"""A bound on how often something happens: the time, in monotonic seconds, is an argument."""

from __future__ import annotations

import math

__all__ = ["Rate"]


class Rate:
    """Allows so many things a second, at most those of one second at once; not thread-safe.

    Args:
        per_second: How many; infinite: any number.
        now: When it begins.
    """

    def __init__(self, per_second: float, now: float) -> None:
        self._per_second = per_second
        self._allowed = self._most = max(per_second, 1.0)
        self._at = now

    def take(self, wanted: int, now: float) -> int:
        """Return how many of the wanted things may happen now; they count as done."""
        if math.isinf(self._per_second):
            return wanted
        self._allowed = min(self._allowed + self._per_second * max(now - self._at, 0.0), self._most)
        self._at = now
        taken_now = min(wanted, int(self._allowed))
        self._allowed -= taken_now
        return taken_now
