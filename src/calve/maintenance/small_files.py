"""Decides which partitions of a table are compacted: a pure function of what their files are.

Joining every small file at once would rewrite the same rows with each commit. So a partition that is still written
waits until it has many small files. Then those of the largest tier that has several are joined, and all below it.
The tiers are powers of eight, so what eight files become is in a higher tier: a row is rewritten at most once a tier,
once more into a file of the target size, and once when its partition is quiet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from calve.table.limits import MaintenanceLimits

__all__ = ["Compaction", "PartitionFiles", "compaction", "tiers"]

_FAN = 8
"""So many files of a tier are joined, and so many times as large is the next tier."""
_SMALL = 4
"""The tiers of small files; files below 64 KiB are one tier, with the default limit of 32 MiB."""
_HALF = _SMALL + 1
"""With files below half of the target size; joined ones are larger, so no busy partition rewrites them again."""
_UNDERSIZED = _HALF + 1
"""With files below 3/4 of the target size, Iceberg's `min-file-size-bytes`."""
_LEAST_FILES = 5
"""Fewer undersized files are not worth a rewrite (Iceberg's `min-input-files`)."""
_MOST_FILES = 1_000
"""Files of one round."""
_GROUP = "max-file-group-size-bytes"
_MOST_PARTITIONS = 50
"""Partitions of one round; Iceberg's planning has a condition for each."""
_ANY_SIZE = str((1 << 63) - 1)


def tiers(target_bytes: int, limits: MaintenanceLimits) -> tuple[int, ...]:
    """Return the sizes that divide files into tiers, ascending: a file of tier n is smaller than the n-th of them."""
    small = min(limits.small_bytes, target_bytes // 2)
    return (*(small // _FAN**power for power in reversed(range(_SMALL))), target_bytes // 2, target_bytes * 3 // 4)


@dataclass(frozen=True)
class PartitionFiles:
    """The files of one partition.

    Attributes:
        key: Identifies it; `name` is for people, e.g. `day=2026-11-23`, and empty for an unpartitioned table.
        counts: Its data files by tier; the last are those of full size.
        sizes: Their bytes by tier.
        written_ms: When its newest rows were committed, as epoch milliseconds; 0: before the oldest known snapshot.
    """

    key: str
    name: str
    counts: Sequence[int]
    sizes: Sequence[int]
    written_ms: int

    @property
    def files(self) -> int:
        """The number of its data files."""
        return sum(self.counts)

    @property
    def size_bytes(self) -> int:
        """Their bytes."""
        return sum(self.sizes)

    @property
    def small(self) -> int:
        """The number of small files."""
        return sum(self.counts[:_SMALL])

    @property
    def undersized(self) -> int:
        """The number of files below three quarters of the target size."""
        return sum(self.counts[:_UNDERSIZED])

    def below(self, count: int) -> tuple[int, int]:
        """Return the files and the bytes of the lowest tiers."""
        return sum(self.counts[:count]), sum(self.sizes[:count])


@dataclass(frozen=True)
class Compaction:
    """The partitions to compact in one round.

    Attributes:
        partitions: All of them need the same kind of rewrite.
        reason: Why, for people.
        options: Iceberg's options that select their files.
        one_task: Whether each group of files becomes one file, written by one task.
        size_bytes: The bytes of the files.
    """

    partitions: tuple[PartitionFiles, ...]
    reason: str
    options: dict[str, str]
    one_task: bool
    size_bytes: int


def compaction(
    partitions: Iterable[PartitionFiles],
    target_bytes: int,
    limits: MaintenanceLimits,
    now: float,
    only_quiet: bool = False,
    group_bytes: int | None = None,
) -> Compaction | None:
    """Return what is compacted next, or None.

    Args:
        partitions: Those of the branch.
        target_bytes: The table's target size of a data file.
        limits: When a partition needs it.
        now: Epoch seconds.
        only_quiet: Leave alone what is written now: a MERGE would have to be repeated.
        group_bytes: The most bytes of files that may become one; None: twice the target size.
    """
    group_bytes = min(group_bytes or 2 * target_bytes, 2 * target_bytes)
    still = [partition for partition in partitions if now - partition.written_ms / 1000 >= limits.quiet.total_seconds()]
    candidates = still if only_quiet else list(partitions)
    many = sorted(
        ((partition, _small_tiers(partition, min(target_bytes, group_bytes), limits)) for partition in candidates),
        key=lambda entry: -entry[0].small,
    )
    if count := next((count for _, count in many if count), 0):
        reason = f"{limits.small_files} or more files below {limits.small_bytes >> 20} MiB"
        small = _compaction([entry[0] for entry in many if entry[1] == count], count, reason, target_bytes, limits)
        return replace(small, options={**small.options, _GROUP: str(group_bytes)})
    if group_bytes < 2 * target_bytes:
        return None  # the same files would be rewritten for ever
    if full := [
        partition
        for partition in candidates
        if partition.below(_HALF)[1] > target_bytes and _is_worth_it(partition, _HALF, target_bytes)
    ]:
        return _compaction(full, _HALF, "enough undersized files for a full one", target_bytes, limits)
    if ripe := [partition for partition in still if _is_worth_it(partition, _UNDERSIZED, target_bytes)]:
        return _compaction(ripe, _UNDERSIZED, "quiet, with undersized files", target_bytes, limits)
    return None


def _small_tiers(partition: PartitionFiles, most_bytes: int, limits: MaintenanceLimits) -> int:
    """Return how many of the lowest tiers of a partition are joined, if it has many small files; else 0.

    Args:
        partition: The partition.
        most_bytes: The size of the files that they become.
        limits: When a partition needs it.
    """
    if partition.small < limits.small_files:
        return 0
    fan = max(2, min(_FAN, limits.small_files // _SMALL))  # so one of the tiers has as many
    highest = max((tier for tier in range(_SMALL) if partition.counts[tier] >= fan), default=-1)
    return highest + 1 if _shrinks(*partition.below(highest + 1), most_bytes) else 0


def _is_worth_it(partition: PartitionFiles, count: int, target_bytes: int) -> bool:
    files, size_bytes = partition.below(count)
    return files >= _LEAST_FILES and _shrinks(files, size_bytes, target_bytes)


def _shrinks(files: int, size_bytes: int, target_bytes: int) -> bool:
    """Return whether half of the files or fewer will be left; else the same files would be rewritten for ever."""
    return files >= 2 * math.ceil(size_bytes / target_bytes)


def _compaction(
    partitions: Iterable[PartitionFiles], count: int, reason: str, target_bytes: int, limits: MaintenanceLimits
) -> Compaction:
    """Take the files of the lowest tiers of as many partitions as fit into a round, at least one."""
    chosen = sorted(partitions, key=lambda partition: -partition.below(count)[0])[:_MOST_PARTITIONS]
    files, size_bytes, count_of_partitions = 0, 0, 0
    for more, more_bytes in (partition.below(count) for partition in chosen):
        if count_of_partitions and (size_bytes + more_bytes > limits.round_bytes or files + more > _MOST_FILES):
            break
        files, size_bytes, count_of_partitions = files + more, size_bytes + more_bytes, count_of_partitions + 1
    fit = files * limits.round_bytes // max(size_bytes, 1)
    options = {
        "min-file-size-bytes": str(tiers(target_bytes, limits)[count - 1]),
        "target-file-size-bytes": str(target_bytes),
        _GROUP: str(2 * target_bytes),
        "max-file-size-bytes": _ANY_SIZE,
        "min-input-files": "2",
        "max-files-to-rewrite": str(max(2, min(files, fit, _MOST_FILES))),
    }
    return Compaction(tuple(chosen[:count_of_partitions]), reason, options, size_bytes <= target_bytes, size_bytes)
