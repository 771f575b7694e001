"""`calve maintain --plan`: what a running pipeline would do for a table now, and why; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from calve.errors import CalveError
from calve.observe.humanize import duration, harmless, listed, many, size
from calve.table.limits import Limits

if TYPE_CHECKING:
    from calve.maintenance.by_need import Need
    from calve.maintenance.context import MaintenanceContext

__all__ = ["lines", "plan"]

_NAMED = 5


def plan(context: MaintenanceContext, limits: Limits) -> dict[str, Any]:
    """Look at a branch, and return its figures, the limits and the decisions as JSON values.

    Args:
        context: The table and its branch.
        limits: When the table needs maintenance.
    """
    from calve.maintenance.by_need import Rounds

    found: dict[str, Any] = {"table": context.name, "branch": context.target.branch, "error": None}
    try:
        need = Rounds(context, limits).need()
    except CalveError as error:
        return found | {"error": error.to_dict()}
    return found | {"now": _figures(need), "decisions": list(_decisions(need, limits))}


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield a plan as text."""
    branch = "" if found["branch"] == "main" else f" (branch {found['branch']})"
    yield f"{found['table']}{branch}: what a pipeline would do now"
    if found["error"]:
        return
    now = found["now"]
    files, partitions = many(now["data_files"], "file"), many(now["partitions"], "partition")
    yield f"  files      {files}, {size(now['size_bytes'])}, in {partitions}"
    yield f"  deletes    {many(now['delete_rows'], 'row')}"
    yield f"  manifests  {now['manifests']:,}"
    yield f"  snapshots  {now['snapshots']:,}"
    for one in found["decisions"]:
        yield f"  {one['step']:<10} {'yes' if one['due'] else 'no':<4} {one['why']}"


def _figures(need: Need) -> dict[str, int]:
    partitions = need.branch.partitions
    return {
        "data_files": sum(one.files for one in partitions),
        "size_bytes": sum(one.size_bytes for one in partitions),
        "small_files": sum(one.small for one in partitions),
        "undersized_files": sum(one.undersized for one in partitions),
        "partitions": len(partitions),
        "delete_rows": need.branch.delete_rows,
        "manifests": need.branch.manifests,
        "snapshots": need.branch.history.count,
    }


def _decisions(need: Need, limits: Limits) -> Iterator[dict[str, Any]]:
    from calve.maintenance.by_need import MOST_MANIFESTS

    yield _decision("compact", need.compaction, _why_compact(need, limits))
    share = f"{need.branch.deleted_share:.0%} of the rows are deleted by position"
    yield _decision("deletes", need.deletes, f"{share}; files with more than 30 % are rewritten when these are so many")
    yield _decision("expire", need.expiry.is_due, _why_expire(need, limits))
    yield _decision(
        "manifests",
        need.manifests,
        f"{many(need.branch.manifests, 'manifest')} of data files; above {MOST_MANIFESTS} they are joined",
    )
    wanted = "nobody has set write.metadata.delete-after-commit.enabled, so every commit leaves a file for ever"
    yield _decision(
        "metadata", need.metadata, wanted if need.metadata else "the table's properties say what happens to old files"
    )
    orphans = "once a day, at least three days old" if limits.orphans else "switched off"
    yield _decision("orphans", False, f"{orphans}; `--only orphans --dry-run` counts them")


def _decision(step: str, due: object, why: str) -> dict[str, Any]:
    return {"step": step, "due": bool(due), "why": why}


def _why_compact(need: Need, limits: Limits) -> str:
    if found := need.compaction:
        names = listed([harmless(one.name) or "the table" for one in found.partitions], _NAMED)
        return f"{many(len(found.partitions), 'partition')} with {found.reason}: {names}"
    most = max((one.small for one in need.branch.partitions), default=0)
    quiet = duration(limits.quiet.total_seconds())
    return (
        f"no partition has {limits.small_files} files below {size(limits.small_bytes)} (the most are {most:,}), or "
        f"files that would fill one of {size(need.branch.target_bytes)}, or five to join and no new one for {quiet}"
    )


def _why_expire(need: Need, limits: Limits) -> str:
    age = (
        "the age of the table's properties"
        if limits.snapshot_age is None
        else duration(limits.snapshot_age.total_seconds())
    )
    most = f"more than {limits.max_snapshots:,}, or older than {age}" if limits.max_snapshots else f"older than {age}"
    kept = f"; the tag {harmless(need.expiry.kept_for)} keeps more for its pipeline" if need.expiry.kept_for else ""
    least = duration(limits.least_age.total_seconds())
    return f"{many(len(need.expiry.ids), 'snapshot')} may go ({most}; never younger than {least}){kept}"
