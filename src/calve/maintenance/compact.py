"""Compacts a table: small data files become large ones, and so do files of position deletes and manifests."""

from __future__ import annotations

from calve.maintenance.context import Workbench
from calve.maintenance.rewrite import Rewritten, maintaining, rewrite

__all__ = ["compact", "compact_metadata"]

_MOST_MANIFESTS = 100
"""Data manifests beyond which planning a scan is worth the rewrite; appends merge them by the hundred themselves."""


def compact(bench: Workbench) -> Rewritten:
    """Rewrite what is small or full of deleted rows, as Iceberg's defaults and the table's target size say.

    Raises:
        MaintenanceError: It could not be finished; what is done stays, and it may be repeated.
    """
    return rewrite(bench, {})


def compact_metadata(bench: Workbench) -> tuple[int, int]:
    """Rewrite files of position deletes, and manifests where there are many; main only, as these actions have it.

    Returns:
        How many delete files and how many manifests were rewritten.

    Raises:
        MaintenanceError: Another writer was faster; it may be repeated.
    """
    if not bench.is_main or not (before := bench.count()).data_files:
        return 0, 0
    deletes = manifests = 0
    with maintaining("rewrite position deletes", bench):
        if before.position_delete_files:
            action = bench.actions().rewritePositionDeletes(bench.load()).option("rewrite-all", "true")
            deletes = action.execute().rewrittenDeleteFilesCount()
    with maintaining("rewrite manifests", bench):
        table = bench.load()
        if len(list(table.currentSnapshot().dataManifests(table.io()))) > _MOST_MANIFESTS:
            done = bench.actions().rewriteManifests(table).execute()
            manifests = sum(1 for _ in done.rewrittenManifests())
    return deletes, manifests
