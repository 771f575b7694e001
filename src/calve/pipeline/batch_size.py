"""Decides how much one batch reads: little before tables are made, more of a backlog that leaves many small files."""

from __future__ import annotations

import math

from calve.record.staged import StagedBatch

__all__ = ["FIRST_BYTES", "BatchSize"]

FIRST_BYTES = 8 << 20
"""The most bytes of a first batch whose tables must be made: it is read twice. What a survey reads, too."""

_SMALL_FILE_BYTES = 4 << 20
_GROWTH = 8
_SHRINKS = 8
"""Events are about so many times as large as the rows of their files."""


class BatchSize:
    """The most bytes of events in the next batch.

    Each batch leaves a file for each task, table and partition, whatever its size. If files are small for the size of
    their batch, the next batches are larger, so that a backlog leaves fewer files. A task's memory is bounded by other
    limits.

    Args:
        size_bytes: The size to begin with.
        may_grow: Whether it may become eight times this size.

    Attributes:
        size_bytes: The size of the next batch of a backlog.
    """

    def __init__(self, size_bytes: int, may_grow: bool) -> None:
        self.size_bytes = size_bytes
        self._full = size_bytes
        self._most = size_bytes * _GROWTH if may_grow else size_bytes
        self._is_small = False

    def begin(self, existing: int, absent: int) -> None:
        """Set the size of a first batch by how many tables of its events exist."""
        self._is_small = absent >= max(existing, 1)
        if not self._is_small and existing:
            self._enlarge(self.size_bytes / existing / _SHRINKS)

    def next_bytes(self, is_behind: bool) -> int:
        """Return the size of the next batch, which may be one of a backlog."""
        return min(FIRST_BYTES, self._full) if self._is_small else self.size_bytes if is_behind else self._full

    def learn(self, record: StagedBatch) -> None:
        """Enlarge the batches so far that files are not small, if those of a batch say that they would be."""
        files = sum(len(table.files) for table in record.tables)
        size = sum(table.bytes for table in record.tables)
        if files and size and record.bytes:
            self._enlarge(size / files * self.size_bytes / record.bytes)
        self._is_small = False

    def _enlarge(self, file_bytes: float) -> None:
        """Enlarge the batches so far that files are not small which would have this size."""
        wanted = self.size_bytes * math.ceil(_SMALL_FILE_BYTES / file_bytes)
        self.size_bytes = max(self.size_bytes, min(wanted, self._most))
