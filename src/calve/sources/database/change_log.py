"""The durable log of changes of one source: opened, planned as batches, and released."""

from __future__ import annotations

import itertools
from pathlib import Path

from calve.errors import SourceError
from calve.sources.database.outbox import Outbox, Waiter
from calve.sources.database.settings import DatabaseSettings
from calve.sources.database.stream_position import DurablePositions, StreamPosition
from calve.sources.log.index import Index, LogPosition
from calve.sources.log.log import Limits, Log
from calve.sources.log.segment import name as segment_name
from calve.sources.source import Backlog, Planned, Position, Split

__all__ = ["ChangeLog"]


class ChangeLog:
    """The log of one source.

    Args:
        folder: The source's folder.
        settings: The limits of its size.
        pipeline: The pipeline's name.

    Attributes:
        positions: The last position that is durable.
    """

    def __init__(self, folder: Path, settings: DatabaseSettings, pipeline: str) -> None:
        self._folder = folder
        self.positions = DurablePositions(folder)
        self._index = Index(folder)
        limits = Limits(settings.max_log_bytes, settings.min_free_bytes)
        self._log = Log(folder, self._index, self.positions, limits, pipeline)
        self._waiter = Waiter()

    def open(self, at: Position | None) -> None:
        """Continue after the end that is on disk.

        Raises:
            PositionLostError: Changes after the position are missing.
            SourceError: The log cannot be written, or is damaged.
        """
        try:
            self._index.load(at)
            self.positions.load(key for each in self._index.segments for key in each.keys)
            self._log.open(self._waiter.answered)
        except OSError as error:
            raise SourceError(
                f"the log of changes in {self._folder} cannot be used: {error.strerror}",
                step="start",
                target=str(self._folder),
                hint="Check its permissions and the space on its disk",
            ) from error

    def outbox(self) -> Outbox:
        """Return what collects the changes of a stream; its first entry begins a segment."""
        return Outbox(self._log, self._waiter)

    def backlog(self, at: Position | None) -> Backlog:
        """Count the changes after a position."""
        return self._index.backlog(at)

    def release(self, at: Position) -> None:
        """Let changes before a position be deleted, because they are committed."""
        self._log.release(LogPosition.of(at))

    def close(self) -> None:
        """Write what waits, and end; may be called twice."""
        self._log.close()

    def next(self, at: Position | None, max_bytes: int, before: int | None = None) -> Planned | None:
        """Return the next changes with one description of each table; None if nothing waits.

        Args:
            at: Where to begin; None: at the beginning.
            max_bytes: About the most bytes.
            before: Only changes of epochs before this one; None: all.
        """
        planned = self._index.plan(at, max_bytes)
        if planned is None:
            return None
        first = self.epoch(planned.splits[0].body["file"])
        if before is not None and first >= before:
            return None
        splits = self._alike(planned.splits, first)
        last = splits[-1].body
        return Planned(splits, LogPosition(int(Path(last["file"]).stem), last["end"]).position())

    def epoch(self, file: str) -> int:
        """Return the epoch of a segment of the log.

        Raises:
            SourceError: The log has no such segment.
        """
        for each in self._index.segments:
            if segment_name(each.number) == file and each.keys:
                return StreamPosition.of(each.keys[0][1]).epoch
        raise SourceError(f"the log has no segment {file}", step="read", target=file)

    def _alike(self, splits: list[Split], epoch: int) -> list[Split]:
        """Return the first splits, as long as their epoch is the same."""
        return list(itertools.takewhile(lambda split: self.epoch(split.body["file"]) == epoch, splits))
