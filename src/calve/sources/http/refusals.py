"""What the operator learns of requests that were refused: counts by status, log lines, and the reason of the last."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from calve.observe.log import Log
from calve.sources.http.message import Response

__all__ = ["CLOSED", "PARTIAL", "Refusals"]

CLOSED = "closed"
"""The status of connections that were closed without an answer, because there were too many."""
PARTIAL = "partial"
"""The status of requests of which only a part was accepted."""
_GROWTH = 10
_NOT_NOW = (429, 503)
"""The client is right, and the source cannot accept its events."""
_RECENT_SECONDS = 60.0
"""A refusal of this age no longer shows what the source does now; clients retry earlier."""


class Refusals:
    """Counts refused requests by status. Used by the server's thread, read by any.

    Args:
        lines: Gets a line for the first request of a status, and each time their number has grown tenfold.
        clock: Monotonic seconds.
    """

    def __init__(self, lines: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = lines
        self._clock = clock
        self._due: dict[str, int] = {}
        self._why, self._since = "", 0.0
        self.counts: Counter[str] = Counter()

    @property
    def refusing(self) -> str:
        """Why the last request was refused although its client did nothing wrong; empty after one that was accepted."""
        return self._why if self._clock() - self._since < _RECENT_SECONDS else ""

    def answered(self, response: Response) -> None:
        """Count the answer to a request."""
        if response.status < 400:
            self._why = ""
            return
        if response.status in _NOT_NOW:
            self._why, self._since = response.text.removesuffix(". Please retry later"), self._clock()
        self._count(str(response.status), response.text)

    def closed(self) -> None:
        """Count a connection that was closed without an answer."""
        self._count(CLOSED, "There are too many connections.")

    def partly(self, why: str) -> None:
        """Count a request of which only a part was accepted."""
        self._count(PARTIAL, why)

    def _count(self, status: str, why: str) -> None:
        count = self.counts[status] = self.counts[status] + 1
        if count >= self._due.get(status, 1):
            self._due[status] = count * _GROWTH
            times = "a request" if count == 1 else f"{count:,} requests"
            done = {CLOSED: "closed", PARTIAL: "accepted in part"}.get(status, f"answered {status}")
            self._lines.warning(f"{times} {done}, for example: {why}", status=status, count=count)
