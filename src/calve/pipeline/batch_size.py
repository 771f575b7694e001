"""Decides how much one batch reads: more of a backlog whose events leave many small files."""

from __future__ import annotations

from calve.record.staged import StagedBatch

__all__ = ["BatchSize"]

_SMALL_FILE_BYTES = 4 << 20
_GROWTH = 4


class BatchSize:
    """The most bytes of events in the next batch of a backlog.

    Each batch leaves a file for each task, table and partition, whatever its size. If files are small, the next batches
    are larger, so that a backlog leaves fewer files. A task's memory is bounded by other limits.

    Args:
        size_bytes: The size to begin with.
        may_grow: Whether it may become four times this size.

    Attributes:
        size_bytes: The size of the next batch.
    """

    def __init__(self, size_bytes: int, may_grow: bool) -> None:
        self.size_bytes = size_bytes
        self._most = size_bytes * _GROWTH if may_grow else size_bytes

    def learn(self, record: StagedBatch) -> None:
        """Double the size after a batch of at least half of it that left small files."""
        files = sum(len(table.files) for table in record.tables)
        is_small = sum(table.bytes for table in record.tables) < files * _SMALL_FILE_BYTES
        if is_small and record.bytes >= self.size_bytes // 2:
            self.size_bytes = min(2 * self.size_bytes, self._most)
