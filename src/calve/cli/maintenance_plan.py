"""`calve maintain --plan`: what a running pipeline would do for a table now, and why; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from calve.errors import CalveError
from calve.observe.humanize import duration, harmless, listed, many, size
from calve.table.limits import MaintenanceLimits

if TYPE_CHECKING:
    from calve.maintenance.by_need import Need
    from calve.maintenance.context import MaintenanceContext

__all__ = ["lines", "plan"]

_NAMED = 5


def plan(context: MaintenanceContext, limits: MaintenanceLimits) -> dict[str, Any]:
    """Look at a branch, and return its figures, the limits and the decisions as JSON values.

    Args:
        context: The table and its branch.
        limits: When the table needs maintenance.
    """
    from calve.maintenance.by_need import Rounds

    heading: dict[str, Any] = {"table": context.name, "branch": context.target.branch, "error": None}
    try:
        need = Rounds(context, limits).need()
    except CalveError as error:
        return heading | {"error": error.to_dict()}
    return heading | {"now": _figures(need), "decisions": list(_decisions(need, limits))}


def lines(table_plan: dict[str, Any]) -> Iterator[str]:
    """Yield a plan as text."""
    branch = "" if table_plan["branch"] == "main" else f" (branch {table_plan['branch']})"
    yield f"{table_plan['table']}{branch}: what a pipeline would do now"
    if table_plan["error"]:
        return
    now = table_plan["now"]
    files, partitions = many(now["data_files"], "file"), many(now["partitions"], "partition")
    yield f"  files      {files}, {size(now['size_bytes'])}, in {partitions}"
    yield f"  deletes    {many(now['delete_rows'], 'row')}"
    yield f"  manifests  {now['manifests']:,}"
    yield f"  snapshots  {now['snapshots']:,}"
    for decision in table_plan["decisions"]:
        yield f"  {decision['step']:<10} {'yes' if decision['due'] else 'no':<4} {decision['why']}"


def _figures(need: Need) -> dict[str, int]:
    partitions = need.branch.partitions
    return {
        "data_files": sum(partition.files for partition in partitions),
        "size_bytes": sum(partition.size_bytes for partition in partitions),
        "small_files": sum(partition.small for partition in partitions),
        "undersized_files": sum(partition.undersized for partition in partitions),
        "partitions": len(partitions),
        "delete_rows": need.branch.delete_rows,
        "manifests": need.branch.manifests,
        "snapshots": need.branch.history.count,
    }


def _decisions(need: Need, limits: MaintenanceLimits) -> Iterator[dict[str, Any]]:
    from calve.maintenance.by_need import MOST_MANIFESTS

    if limits.retention is not None:
        yield _decision("retention", need.old, _why_old(need, limits.retention))
    yield _decision("compact", need.compaction, _why_compact(need, limits))
    share = f"{need.branch.deleted_share:.0%} of the rows are deleted by position"
    yield _decision("deletes", need.deletes, f"{share}; files with more than 30 % are rewritten when these are so many")
    yield _decision("expire", need.expiry.is_due, _why_expire(need, limits))
    yield _decision(
        "manifests",
        need.manifests,
        f"{many(need.branch.manifests, 'manifest')} of data files; above {MOST_MANIFESTS} they are joined",
    )
    unset = ", ".join(need.properties)
    wanted = f"nobody has set {unset}, so commits leave files for ever, or read more than they must"
    why = wanted if need.properties else "the table's properties bound its metadata"
    yield _decision("metadata", need.properties, why)
    orphans = "once a day, at least three days old" if limits.orphans else "switched off"
    yield _decision("orphans", False, f"{orphans}; `--only orphans --dry-run` counts them")


def _decision(step: str, due: object, why: str) -> dict[str, Any]:
    return {"step": step, "due": bool(due), "why": why}


def _why_compact(need: Need, limits: MaintenanceLimits) -> str:
    if compaction := need.compaction:
        names = listed([harmless(partition.name) or "the table" for partition in compaction.partitions], _NAMED)
        return f"{many(len(compaction.partitions), 'partition')} with {compaction.reason}: {names}"
    most = max((partition.small for partition in need.branch.partitions), default=0)
    quiet = duration(limits.quiet.total_seconds())
    return (
        f"no partition has {limits.small_files} files below {size(limits.small_bytes)} (the most are {most:,}), or "
        f"files that would fill one of {size(need.branch.target_bytes)}, or five to join and no new one for {quiet}"
    )


def _why_old(need: Need, retention: timedelta) -> str:
    age = duration(retention.total_seconds())
    if need.old is None:
        return f"no file has only rows that are older than {age}, by event_time or the table's partitions"
    return f"all rows of {many(len(need.old.files), 'file')} are older than {age}, by {harmless(need.old.column)}"


def _why_expire(need: Need, limits: MaintenanceLimits) -> str:
    age = (
        "the age of the table's properties"
        if limits.snapshot_age is None
        else duration(limits.snapshot_age.total_seconds())
    )
    most = f"more than {limits.max_snapshots:,}, or older than {age}" if limits.max_snapshots else f"older than {age}"
    kept = f"; the tag {harmless(need.expiry.kept_for)} keeps more for its pipeline" if need.expiry.kept_for else ""
    least = duration(limits.least_age.total_seconds())
    return f"{many(len(need.expiry.ids), 'snapshot')} may go ({most}; never younger than {least}){kept}"
