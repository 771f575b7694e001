"""The durable log of changes of one source: opened, planned as batches, and released."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

from calve.errors import SourceError
from calve.observe import humanize
from calve.sources.database.change_buffer import ChangeBuffer, Waiter
from calve.sources.database.settings import DatabaseSettings
from calve.sources.database.stream_position import DurablePositions, StreamPosition
from calve.sources.log.index import LogPosition, SegmentIndex
from calve.sources.log.log import Journal, JournalLimits
from calve.sources.log.segment import anywhere
from calve.sources.log.segment import name as segment_name
from calve.sources.log.storage import storage_in
from calve.sources.source import Backlog, Planned, Position, Split
from calve.sources.source_files import SourceFiles
from calve.state.folder import StateFolder

__all__ = ["ChangeLog"]

_SHOWN_BYTES = 2 << 20
"""Less of a transaction is read at once."""


class ChangeLog:
    """The log of one source.

    Args:
        folder: The source's folder, local or on an object store.
        settings: The limits of its size.
        pipeline: The pipeline's name.
        files: The small files in the folder, if somebody has them already.

    Attributes:
        positions: The last position that is durable.
    """

    def __init__(
        self, folder: StateFolder, settings: DatabaseSettings, pipeline: str, files: SourceFiles | None = None
    ) -> None:
        self._folder = folder
        self._settings = settings
        self.positions = DurablePositions(files or folder)
        self._index = SegmentIndex(folder, _is_end if settings.transactional else anywhere)
        limits = JournalLimits(settings.max_log_bytes, settings.min_free_bytes)
        if settings.transactional:  # what is committed must not keep a large part of the room
            limits = replace(limits, segment_bytes=min(limits.segment_bytes, settings.max_log_bytes // 8))
        self._log = Journal(folder, self._index, self.positions, limits, pipeline)
        self._waiter = Waiter()
        self._released: Position | None = None

    def open(self, at: Position | None) -> None:
        """Continue after the end that is on disk.

        Raises:
            PositionLostError: Changes after the position are missing.
            SourceError: The log cannot be written, or is damaged.
        """
        self._released = at
        try:
            self._index.load(at)
            self.positions.load(key for segment in self._index.segments for key in segment.keys)
            self._log.open(self._waiter.answered)
        except OSError as error:
            raise SourceError(
                f"the log of changes in {self._folder} cannot be used: {error.strerror}",
                step="start",
                target=str(self._folder),
                hint="Check its permissions and the space on its disk",
            ) from error

    def buffer(self) -> ChangeBuffer:
        """Return what collects the changes of a stream; its first entry begins a segment."""
        return ChangeBuffer(self._log, self._waiter, self if self._settings.transactional else None)

    @property
    def is_open(self) -> bool:
        """Whether the log ends amid a transaction."""
        return self._settings.transactional and self.positions.last.is_open

    @property
    def condition(self) -> str:
        """How much of a transaction waits for its end; empty if it is little."""
        waiting = self._index.open_bytes() if self.is_open else 0
        return f"{humanize.size(waiting)} of a transaction wait for its end" if waiting >= _SHOWN_BYTES else ""

    def check_room(self, size: int) -> None:
        """See `TransactionEnds`: there will be none if everything before the transaction is committed and deleted."""
        at, most = self._released, self._settings.max_log_bytes
        is_deleting = at is not None and bool(self._index.before(LogPosition.of(at)))
        if self._index.size_bytes + size <= most or self._index.backlog(at) or is_deleting:
            return
        raise SourceError(
            f"a transaction does not fit in the log of changes: more than {humanize.size(self._index.open_bytes())}",
            step="read",
            target=self._settings.shown,
            hint=f"Increase max_log_bytes ({humanize.size(most)}). Nothing is lost. Without transactional the "
            "transaction is written in parts",
        )

    def backlog(self, at: Position | None) -> Backlog:
        """Count the changes after a position."""
        return self._index.backlog(at)

    def release(self, at: Position | None) -> None:
        """Let changes before a position be deleted, because they are committed; None: there are none."""
        if at is not None:
            self._released = at
            self._log.release(LogPosition.of(at))

    def hurry(self) -> None:
        """Wait no longer for a store that does not answer: the process ends."""
        self._log.hurry()

    def clear(self) -> None:
        """Remove all changes; the log is closed, and may be opened again with a new object."""
        storage_in(self._folder).clear()

    def close(self) -> None:
        """Write what waits, and end; may be called twice."""
        self._log.close()

    def next(self, at: Position | None, max_bytes: int, before: int | None = None) -> Planned | None:
        """Return the next changes with one description of each table; None if nothing waits.

        With `transactional` they end where a transaction ends. If one transaction has changes of several epochs, the
        splits have its first and its last epoch as `epochs`, and all tables are as in the last one.

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
        splits = self._until(planned.splits, first + 1)
        if self._settings.transactional and len(splits) < len(planned.splits):
            splits = self._whole(at, max_bytes, splits, before)
        last = splits[-1].body
        return Planned(splits, LogPosition(_number(last), last["end"]).position())

    def _whole(self, at: Position | None, max_bytes: int, first: list[Split], before: int | None) -> list[Split]:
        """Return the splits up to the last end of a transaction in the first epoch; or else up to the next end.

        Args:
            at: Where they begin.
            max_bytes: About the most bytes.
            first: All splits of the first epoch.
            before: Only changes of epochs before this one; None: all.
        """
        planned = self._index.plan(at, max_bytes, last=_number(first[-1].body))
        if planned is not None:
            return planned.splits
        planned = self._index.plan(at, 0)
        assert planned is not None
        splits = planned.splits if before is None else self._until(planned.splits, before)
        epochs = [self.epoch(body["file"]) for body in (splits[0].body, splits[-1].body)]
        return [replace(split, body={**split.body, "epochs": epochs}) for split in splits]

    def epoch(self, file: str) -> int:
        """Return the epoch of a segment of the log.

        Raises:
            SourceError: The log has no such segment.
        """
        for segment in self._index.segments:
            if segment_name(segment.number) == file and segment.keys:
                return StreamPosition.of(segment.keys[0][1]).epoch
        raise SourceError(f"the log has no segment {file}", step="read", target=file)

    def _until(self, splits: list[Split], epoch: int) -> list[Split]:
        """Return the splits before an epoch."""
        return list(itertools.takewhile(lambda split: self.epoch(split.body["file"]) < epoch, splits))


def _number(body: dict[str, Any]) -> int:
    """Return the number of a split's segment."""
    return int(Path(body["file"]).stem)


def _is_end(key: bytes) -> bool:
    return not StreamPosition.of(key).is_open
