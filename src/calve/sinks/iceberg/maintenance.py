"""The options `maintenance` and `retention` of the Iceberg sink."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from calve.settings import Size, option
from calve.table.limits import DEFAULTS, MaintenanceLimits

__all__ = ["LEAST_RETENTION", "LONGEST_RETENTION", "RETENTION", "Maintenance"]

RETENTION = (
    "Delete rows that are older than this, e.g. `90d`, by `event_time` or else the column by whose time the table is "
    "partitioned: every hour, whole files alone. Default: never."
)
LEAST_RETENTION = timedelta(hours=1)
"""A shorter one is a mistake: `m` is a minute."""
LONGEST_RETENTION = timedelta(days=36_500)
"""Timestamps with nanoseconds begin in 1677."""


@dataclass(frozen=True)
class Maintenance:
    """When a table needs maintenance, and how much of the machine it may take."""

    small_files: int = option(
        DEFAULTS.small_files,
        "This many small files of a partition are joined, even if the partition is still written.",
        minimum=5,
    )
    small_file_size: Size = option(Size(DEFAULTS.small_bytes), "A file below this size is small.", minimum=1)
    quiet_after: timedelta = option(
        DEFAULTS.quiet,
        "A partition without new files for this time is quiet; then all its files below 3/4 of the target size are "
        "joined.",
    )
    max_snapshots: int | None = option(
        DEFAULTS.max_snapshots,
        "If a branch has more snapshots, the oldest ones are expired although they are young. 0 or null: only their "
        "age counts.",
        minimum=0,
    )
    snapshot_age: timedelta | None = option(
        DEFAULTS.snapshot_age,
        "Older snapshots are expired. Default: the table's `history.expire.max-snapshot-age-ms`, or five days.",
    )
    least_snapshot_age: timedelta = option(
        DEFAULTS.least_age, "Younger snapshots are never expired, because a reader may have them open."
    )
    orphans: bool = option(
        DEFAULTS.orphans, "Once a day, delete files that belong to no snapshot and are at least three days old."
    )
    max_round_bytes: Size = option(
        Size(DEFAULTS.round_bytes), "Maximum amount of data that one round rewrites.", minimum=1
    )
    share_of_cores: float = option(
        DEFAULTS.share_of_cores,
        "Maximum share of Spark's cores that maintenance takes, on average.",
        minimum=0.001,
        maximum=1,
    )

    @property
    def limits(self) -> MaintenanceLimits:
        """These options as limits."""
        return MaintenanceLimits(
            small_files=self.small_files,
            small_bytes=int(self.small_file_size),
            quiet=self.quiet_after,
            round_bytes=int(self.max_round_bytes),
            share_of_cores=self.share_of_cores,
            max_snapshots=self.max_snapshots or 0,
            snapshot_age=self.snapshot_age,
            least_age=self.least_snapshot_age,
            orphans=self.orphans,
        )
