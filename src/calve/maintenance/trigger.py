"""Decides when a branch is inspected, from what its commits say; costs nothing, so every commit may ask."""

from __future__ import annotations

import math
from dataclasses import dataclass

from calve.maintenance.by_need import Round
from calve.maintenance.retention import RETENTION_SECONDS
from calve.table.limits import MaintenanceLimits

__all__ = ["Trigger"]

_FIRST_WAIT_SECONDS = 60.0
"""A run leaves the machine to its first batches; less if a partition is quiet sooner."""
_COLLECTED = 10
"""After an inspection, files collect for half of the time after which a partition is quiet, unless there are so many
times the limit. A pipeline with a backlog commits as fast as it can: more files are then joined at once, less often."""


@dataclass
class Trigger:
    """When one branch is inspected. All times are seconds of one clock.

    Attributes:
        limits: The table's.
        files: The data files that are new since the last inspection; before the first one, all of them.
        waits: Whether there was a commit since the last inspection.
        more: Whether the last round left something.
        committed_at: The time of the last commit.
        inspected_at: The time of the last inspection.
        not_before: Until then maintenance rests.
        waits_until: Until then it leaves a usual number of new files alone.
    """

    limits: MaintenanceLimits
    files: int = 0
    waits: bool = False
    more: bool = False
    committed_at: float = -math.inf
    inspected_at: float = -math.inf
    not_before: float = -math.inf
    waits_until: float = -math.inf

    def committed(self, added_files: int, all_files: int, now: float) -> None:
        """Record a commit."""
        if self.not_before == -math.inf:
            wait = min(_FIRST_WAIT_SECONDS, self.limits.quiet.total_seconds())
            self.files, self.inspected_at, self.not_before = all_files, now, now + wait
        else:
            self.files += added_files
        self.committed_at, self.waits = now, True

    def is_due(self, now: float) -> bool:
        """Return whether the branch should be inspected now."""
        enough = self.limits.small_files <= self.files < _COLLECTED * self.limits.small_files
        collects = enough and not self.more and now < self.waits_until
        return now >= self.not_before and not collects and self.has_reason(now)

    def has_reason(self, now: float) -> bool:
        """Return whether an inspection could find something, whether or not maintenance must rest."""
        quiet = self.limits.quiet.total_seconds()
        is_full = self.files >= self.limits.small_files
        is_quiet = self.inspected_at < self.committed_at + quiet <= now
        ages = self.limits.retention is not None and now - self.inspected_at >= RETENTION_SECONDS
        return self.more or is_full or is_quiet or ages or (self.waits and now - self.inspected_at >= quiet)

    def ran(self, round: Round, cores: int, now: float) -> None:
        """Record a round, and rest as the share of the cores wants it.

        Args:
            round: What it did.
            cores: The cores of Spark.
            now: When it ended.
        """
        used = 1 if round.one_task else cores
        self.files, self.waits, self.more, self.inspected_at = 0, False, not round.is_done, now
        self.not_before = now + self.limits.pause_seconds(round.seconds, used, cores)
        self.waits_until = now + self.limits.quiet.total_seconds() / 2

    def failed(self, wait_seconds: float, now: float) -> None:
        """Record a failure: inspect again after a while."""
        self.more, self.not_before = True, now + wait_seconds
