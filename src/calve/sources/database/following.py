"""The phase that follows: changes come from the stream into the log, and from there into batches."""

from __future__ import annotations

from collections.abc import Callable

from calve.sources.database.awaited import awaited
from calve.sources.database.load import log_position
from calve.sources.database.parts import Parts
from calve.sources.database.stream import DatabaseStream, StreamContext
from calve.sources.database.system import DatabaseSystem
from calve.sources.source import Planned, Position

__all__ = ["Following"]


class Following:
    """The stream of one load, which ends and begins again when tables are read again (the pipeline's thread).

    Args:
        parts: What the phases share.
        system: The database.

    Attributes:
        until: The position at which a run with `once` ends.
        committed: The position that is committed, if nothing is pending; None: nobody knows.
    """

    def __init__(self, parts: Parts, system: DatabaseSystem) -> None:
        self._parts, self._system = parts, system
        self._stream: DatabaseStream | None = None
        self.until: int | None = None
        self.committed: Position | None = None

    def open(self, position: Position | None) -> None:
        """Open the log behind a position; the stream does not run yet."""
        self._parts.log.open(log_position(position))
        self._stream = self._new_stream()

    @property
    def stream(self) -> DatabaseStream:
        """The stream, which may have ended."""
        assert self._stream is not None
        return self._stream

    def restart(self) -> None:
        """Begin another stream, where the last one ended."""
        self._stream = self._new_stream()
        self._stream.start()

    def next(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return the next changes that are there, before tables are read again."""
        return self._parts.log.next(log_position(position), max_bytes, self._parts.reloads.before)

    def awaited(self, position: Position | None, max_bytes: int, has_ended: Callable[[], bool]) -> Planned | None:
        """Return the next changes of a run with `once`; None: it is over."""
        return awaited(self.stream, self._parts.log.positions, lambda: self.next(position, max_bytes), has_ended)

    def stop(self) -> None:
        """Stop the stream; what it has read becomes durable."""
        self._parts.log.hurry()
        if self._stream is not None:
            self._stream.stop()

    def _new_stream(self) -> DatabaseStream:
        parts = self._parts
        shared = parts.epochs, parts.load.begun, parts.own_targets
        context = StreamContext(parts.settings, parts.pipeline, parts.log.buffer(), parts.log.positions, *shared)
        return self._system.follow(context, self.until if parts.once else None)
