"""Compacts a table: joins small data files, files of position deletes, and manifests."""

from __future__ import annotations

from calve.maintenance.context import Workbench
from calve.maintenance.rewrite import Rewritten, maintaining, rewrite

__all__ = ["compact", "compact_metadata", "rewrite_deletes"]

_MOST_MANIFESTS = 100
"""More data manifests are rewritten to speed up scan planning; appends themselves merge them by the hundred."""


def compact(bench: Workbench) -> Rewritten:
    """Rewrite small files and files with many deleted rows, by Iceberg's defaults and the table's target size.

    Raises:
        MaintenanceError: It could not finish; completed parts stay, and the call may be repeated.
    """
    return rewrite(bench, {})


def compact_metadata(bench: Workbench) -> tuple[int, int]:
    """Rewrite files of position deletes, and manifests if there are many; only on main, like these actions.

    Returns:
        How many delete files and how many manifests were rewritten.

    Raises:
        MaintenanceError: Another writer was faster; it may be repeated.
    """
    deletes = rewrite_deletes(bench)
    if not bench.is_main:
        return deletes, 0
    manifests = 0
    with maintaining("rewrite manifests", bench):
        table = bench.load()
        snapshot = table.currentSnapshot()
        if snapshot is not None and len(list(snapshot.dataManifests(table.io()))) > _MOST_MANIFESTS:
            done = bench.actions().rewriteManifests(table).execute()
            manifests = sum(1 for _ in done.rewrittenManifests())
    return deletes, manifests


def rewrite_deletes(bench: Workbench) -> int:
    """Join the files of position deletes, and drop those that apply to no row; return how many were rewritten.

    Raises:
        MaintenanceError: Another writer was faster; it may be repeated.
    """
    if not bench.is_main or not bench.count().position_delete_files:
        return 0
    with maintaining("rewrite position deletes", bench):
        action = bench.actions().rewritePositionDeletes(bench.load()).option("rewrite-all", "true")
        count: int = action.execute().rewrittenDeleteFilesCount()
        return count
