"""Waits in a run with `once`, until changes are worth a batch or the stream is at the end of the run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from calve.errors import SourceUnavailableError
from calve.sources.database.stream import DatabaseStream
from calve.sources.database.stream_position import DurablePositions
from calve.sources.source import Planned

__all__ = ["awaited"]

_POLL_SECONDS = 0.02
_SILENCE_SECONDS = 10.0
_WORTH_BYTES, _WORTH_SECONDS = 16 << 20, 1.0
"""So many changes are worth a batch while more of them come, and so long they wait for more: each batch is a snapshot
of its own, and each file of its deletes makes all older rows slower to read. Below this size a batch is one task."""


def awaited(
    stream: DatabaseStream,
    positions: DurablePositions,
    plan: Callable[[], Planned | None],
    has_ended: Callable[[], bool],
) -> Planned | None:
    """Return the next batch of a run with `once`; None: it is over.

    Args:
        stream: Reads until the end of the run.
        positions: How far its changes are durable.
        plan: Returns the changes that are there.
        has_ended: Returns whether the run is over because the stream has ended by itself, or raises why.

    Raises:
        SourceUnavailableError: Nothing comes for a while.
    """
    silence, gathering = _Silence(positions), _Gathering()
    while True:
        failed, reached = stream.failed, stream.reached
        planned = plan()
        if reached or (planned and (failed or gathering.is_enough(planned))):
            return planned
        if has_ended():
            return None
        if silence.is_long():
            raise failed or stream.trouble or SourceUnavailableError("The database sends nothing", step="read")
        time.sleep(_POLL_SECONDS)


class _Silence:
    """The time in which nothing became durable, which may be parts of a transaction."""

    def __init__(self, positions: DurablePositions) -> None:
        self._positions = positions
        self._last, self._since = positions.last, time.monotonic()

    def is_long(self) -> bool:
        """Return whether it is too long to be waited for; called again and again."""
        if self._last != self._positions.last:
            self._last, self._since = self._positions.last, time.monotonic()
        return time.monotonic() > self._since + _SILENCE_SECONDS


class _Gathering:
    """Changes that are planned while more of them come."""

    def __init__(self) -> None:
        self._until = math.inf

    def is_enough(self, planned: Planned) -> bool:
        """Return whether they are worth a batch; called again and again."""
        self._until = min(self._until, time.monotonic() + _WORTH_SECONDS)
        return sum(split.size_bytes for split in planned.splits) >= _WORTH_BYTES or time.monotonic() >= self._until
