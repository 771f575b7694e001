"""Compacts a table: joins small data files, files of position deletes, and manifests."""

from __future__ import annotations

from calve.maintenance.context import MaintenanceContext
from calve.maintenance.join import join
from calve.maintenance.rewrite import RewrittenFiles, maintaining, rewrite

__all__ = ["compact", "compact_metadata", "rewrite_deletes"]

_MOST_MANIFESTS = 100
"""More data manifests are rewritten to speed up scan planning; appends themselves merge them by the hundred."""


def compact(context: MaintenanceContext) -> RewrittenFiles:
    """Rewrite small files and files with many deleted rows, by Iceberg's defaults and the table's target size.

    Rows are copied where that is enough: only then pipelines may delete by position meanwhile.

    Raises:
        MaintenanceError: It could not finish; completed parts stay, and the call may be repeated.
    """
    return join(context, {}) or rewrite(context, {})


def compact_metadata(context: MaintenanceContext) -> tuple[int, int]:
    """Rewrite files of position deletes, and manifests if there are many; only on main, like these actions.

    Returns:
        How many delete files and how many manifests were rewritten.

    Raises:
        MaintenanceError: Another writer was faster; it may be repeated.
    """
    deletes = rewrite_deletes(context)
    if not context.is_main:
        return deletes, 0
    manifests = 0
    with maintaining("rewrite manifests", context):
        table = context.load()
        snapshot = table.currentSnapshot()
        if snapshot is not None and len(list(snapshot.dataManifests(table.io()))) > _MOST_MANIFESTS:
            done = context.actions().rewriteManifests(table).execute()
            manifests = sum(1 for _ in done.rewrittenManifests())
    return deletes, manifests


def rewrite_deletes(context: MaintenanceContext) -> int:
    """Join the files of position deletes, and drop those that apply to no row; return how many were rewritten.

    Raises:
        MaintenanceError: Another writer was faster; it may be repeated.
    """
    if not context.is_main or not context.count().position_delete_files:
        return 0
    with maintaining("rewrite position deletes", context):
        action = context.actions().rewritePositionDeletes(context.load()).option("rewrite-all", "true")
        count: int = action.execute().rewrittenDeleteFilesCount()
        return count
