"""Deletes the data files of a branch whose rows are all older than its retention; runs on the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calve.engine.java.compiled import java_class
from calve.maintenance.context import MaintenanceContext
from calve.table.limits import MaintenanceLimits

__all__ = ["RETENTION_SECONDS", "OldRows", "Retention"]

RETENTION_SECONDS = 3600.0
"""How often it looks: that plans a scan, and without a partition by time reads all manifests."""
_MOST_FILES = 100_000
"""Files of one commit; what is left goes an hour later."""


@dataclass(frozen=True)
class OldRows:
    """The files to delete: Java's, and the column that says so."""

    column: str
    files: Any


class Retention:
    """The retention of one branch.

    Args:
        context: The table and its branch.
        limits: With its retention.
    """

    def __init__(self, context: MaintenanceContext, limits: MaintenanceLimits) -> None:
        self._context, self._limits = context, limits
        self._checked = 0.0

    def find(self, table: Any, now: float) -> OldRows | None:
        """Return what is too old, at most once an hour; None: nothing.

        Args:
            table: The Java table.
            now: Epoch seconds.
        """
        keep, branch = self._limits.retention, self._context.target.branch
        if keep is None or now - self._checked < RETENTION_SECONDS or table.snapshot(branch) is None:
            return None
        self._checked = now
        finder = self._java()
        column = self._limits.time_column or finder.column(table)
        if not finder.hasTime(table, column):
            return None
        before = int((now - keep.total_seconds()) * 1000)
        files = finder.find(table, branch, column, before, _MOST_FILES)
        return OldRows(column, files) if len(files) else None

    def delete(self, old: OldRows) -> tuple[int, int]:
        """Delete files in a commit of their own; return their number and their rows."""
        rows: int = self._java().delete(self._context.load(), self._context.target.branch, old.files)
        return len(old.files), rows

    def _java(self) -> Any:
        return java_class(self._context.jvm, __name__, "OldFiles").newInstance()
