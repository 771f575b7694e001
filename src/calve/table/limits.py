"""The limits of maintenance by need; one set for the tables of a sink."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["DEFAULTS", "MaintenanceLimits"]


@dataclass(frozen=True)
class MaintenanceLimits:
    """When a table needs maintenance, and how much of the machine it may take.

    Attributes:
        small_files: So many small files of one partition are joined, while the partition is still written.
        small_bytes: A file below this size is small.
        quiet: A partition without new files for so long is quiet; all its undersized files are then joined.
        round_bytes: The most bytes that one round rewrites.
        share_of_cores: The most that maintenance takes of Spark's cores, on average.
        max_snapshots: More snapshots of the branch are expired although they are young; 0: any number.
        snapshot_age: Snapshots of a greater age are expired; None: the table's setting, by default five days.
        least_age: Snapshots of a smaller age are never expired.
        orphans: Whether orphans are removed, once a day.
        retention: Rows of a greater age are deleted; None: never.
        time_column: The column with the time of a row; empty: the one by whose time the table is partitioned.
        keeps_waiting: Whether snapshots that the branch has and `main` lacks stay, because they may be published.
    """

    small_files: int = 100
    small_bytes: int = 32 << 20
    quiet: timedelta = timedelta(minutes=10)
    round_bytes: int = 1 << 30
    share_of_cores: float = 0.05
    max_snapshots: int = 2_000
    snapshot_age: timedelta | None = None
    least_age: timedelta = timedelta(hours=1)
    orphans: bool = True
    retention: timedelta | None = None
    time_column: str = ""
    keeps_waiting: bool = False

    def pause_seconds(self, worked_seconds: float, used_cores: int, cores: int) -> float:
        """Return how long maintenance must rest after some work, so that its average stays within its share."""
        return worked_seconds * max(0.0, used_cores / (self.share_of_cores * max(cores, 1)) - 1)


DEFAULTS = MaintenanceLimits()
