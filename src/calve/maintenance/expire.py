"""Expires old snapshots with Iceberg's own action; the fence's mark is a table property and stays.

Unused schemas and partition specs are kept: a pipeline may have staged deletes of a spec that no committed file uses
yet.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from calve.maintenance.context import MaintenanceContext
from calve.maintenance.rewrite import maintaining

__all__ = ["Expired", "expire"]


@dataclass(frozen=True)
class Expired:
    """The number of expired snapshots, and of the files deleted with them (0 in a dry run)."""

    snapshots: int = 0
    files: int = 0


def expire(context: MaintenanceContext, older_than: timedelta | None, dry_run: bool = False) -> Expired:
    """Expire the snapshots that no branch head, tag or table property retains.

    Args:
        context: The table, with all of its branches.
        older_than: The age; None: the table's `history.expire.max-snapshot-age-ms`, by default five days.
        dry_run: Only count.

    Raises:
        MaintenanceError: Another writer was faster every time, or a file could or may not be deleted.
    """
    with maintaining("expire snapshots", context):
        table = context.load()
        due = _due(table, older_than)
        snapshots = list(due.apply())
        count = len(snapshots)
        if dry_run or not count:
            return Expired(count)
        context.refuse_files(table, snapshots, deletes=True)
        action = context.actions().expireSnapshots(table)
        if older_than is not None:
            action = action.expireOlderThan(_before(older_than))
        done = action.execute()
        files = (
            done.deletedDataFilesCount()
            + done.deletedEqualityDeleteFilesCount()
            + done.deletedPositionDeleteFilesCount()
            + done.deletedManifestsCount()
            + done.deletedManifestListsCount()
        )
        return Expired(count, files)


def _due(table: Any, older_than: timedelta | None) -> Any:
    expiry = table.expireSnapshots()
    return expiry if older_than is None else expiry.expireOlderThan(_before(older_than))


def _before(age: timedelta) -> int:
    return int((time.time() - age.total_seconds()) * 1000)
