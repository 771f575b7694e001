"""Decides how much one batch reads: more of a backlog whose events leave many small files."""

from __future__ import annotations

import math

from calve.record.staged import StagedBatch

__all__ = ["BatchSize"]

_SMALL_FILE_BYTES = 4 << 20
_GROWTH = 4


class BatchSize:
    """The most bytes of events in the next batch of a backlog.

    Each batch leaves a file for each task, table and partition, whatever its size. If files are small for the size of
    their batch, the next batches are larger, so that a backlog leaves fewer files. A task's memory is bounded by other
    limits.

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
        """Enlarge the batches so far that files are not small, if those of a batch say that they would be."""
        files = sum(len(table.files) for table in record.tables)
        size = sum(table.bytes for table in record.tables)
        if files and size and record.bytes:
            expected = size / files * self.size_bytes / record.bytes
            wanted = self.size_bytes * math.ceil(_SMALL_FILE_BYTES / expected)
            self.size_bytes = max(self.size_bytes, min(wanted, self._most))
