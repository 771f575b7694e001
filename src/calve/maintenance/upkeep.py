"""What `calve maintain` does to a table: the steps in their order, and a report of before and after."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from calve.errors import CalveError
from calve.maintenance.compact import compact, compact_metadata
from calve.maintenance.context import Workbench
from calve.maintenance.equality_deletes import convert
from calve.maintenance.expire import expire
from calve.maintenance.manifests import DeleteCounts
from calve.maintenance.orphans import remove_orphans
from calve.maintenance.rewrite import ANY_DELETE, NO_SIZE, Rewritten, plan

__all__ = ["STEPS", "Done", "MaintenanceOptions", "Report", "maintain"]

STEPS = ("convert", "compact", "expire", "orphans")
"""In this order: what a rewrite leaves behind is expired, and what a killed one left is an orphan."""


@dataclass(frozen=True)
class MaintenanceOptions:
    """What is to be done.

    Attributes:
        steps: Which of `STEPS`.
        older_than: The age of snapshots and orphans that go; None: the table's own, and three days.
        dry_run: Only say what would be done.
    """

    steps: Collection[str] = STEPS
    older_than: timedelta | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Done:
    """One step and what it did, as a sentence without a subject and as figures; no figures: nothing was to be done."""

    step: str
    said: str
    figures: dict[str, int]


@dataclass
class Report:
    """What became of one table.

    Attributes:
        before: What it was.
        after: What it is; the same where nothing was to be done, or only asked.
        done: The steps that were done, or would be.
        error: Why the rest was not.
    """

    table: str
    branch: str
    before: DeleteCounts = field(default_factory=DeleteCounts)
    after: DeleteCounts = field(default_factory=DeleteCounts)
    done: list[Done] = field(default_factory=list)
    error: CalveError | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "table": self.table,
            "branch": self.branch,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "done": [asdict(one) for one in self.done],
            "error": self.error.to_dict() if self.error else None,
        }


def maintain(bench: Workbench, wishes: MaintenanceOptions, begins: Callable[[str], None]) -> Report:
    """Do the steps that are wished for; one that fails ends the table's maintenance, and what is done stays.

    Args:
        bench: The table.
        wishes: What is to be done.
        begins: Called with each step when it begins.
    """
    report = Report(bench.name, bench.target.branch)
    try:
        report.before = report.after = bench.count()
        for step in STEPS:
            if step in wishes.steps:
                begins(step)
                report.done.append(_STEPS[step](bench, wishes, report))
    except CalveError as error:
        report.error = error
    if not wishes.dry_run and any(one.figures for one in report.done):
        report.after = bench.count()
    return report


def _convert(bench: Workbench, wishes: MaintenanceOptions, report: Report) -> Done:
    if not report.before.equality_delete_files:
        return Done("convert", "no equality deletes", {})
    sizes = {} if "compact" in wishes.steps else NO_SIZE
    found = plan(bench, ANY_DELETE | sizes) if wishes.dry_run else convert(bench, sizes)
    deletes = report.before.equality_delete_files
    said = f"{_files(deletes, 'equality delete file')} removed, {_files(found.files, 'data file')} rewritten"
    return Done("convert", said, {**_figures(found), "delete_files": deletes})


def _compact(bench: Workbench, wishes: MaintenanceOptions, report: Report) -> Done:
    if wishes.dry_run:
        found, deletes, manifests = plan(bench, {}), 0, 0
    else:
        found = compact(bench)
        deletes, manifests = compact_metadata(bench)
    if not (found.files or deletes or manifests):
        return Done("compact", "nothing worth a rewrite", {})
    parts = [f"{_files(found.files, 'data file')} rewritten into {found.into:,}"] * bool(found.files)
    parts += [f"{_files(deletes, 'position delete file')} rewritten"] * bool(deletes)
    parts += [f"{_files(manifests, 'manifest')} rewritten"] * bool(manifests)
    return Done("compact", ", ".join(parts), {**_figures(found), "delete_files": deletes, "manifests": manifests})


def _expire(bench: Workbench, wishes: MaintenanceOptions, report: Report) -> Done:
    found = expire(bench, wishes.older_than, wishes.dry_run)
    if not found.snapshots:
        return Done("expire", "no snapshot is old enough", {})
    with_files = "" if wishes.dry_run else f", {_files(found.files, 'file')} deleted"
    return Done("expire", f"{_files(found.snapshots, 'snapshot')} expired{with_files}", asdict(found))


def _orphans(bench: Workbench, wishes: MaintenanceOptions, report: Report) -> Done:
    found = remove_orphans(bench, wishes.older_than, wishes.dry_run)
    kept = f", {_files(found.kept, 'file')} kept for a pipeline" if found.kept else ""
    if not found.files:
        return Done("orphans", f"none{kept}", {"kept": found.kept} if found.kept else {})
    return Done("orphans", f"{_files(found.files, 'file')} deleted{kept}", asdict(found))


def _files(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _figures(found: Rewritten) -> dict[str, int]:
    return {"rewritten": found.files, "into": found.into}


_STEPS = {"convert": _convert, "compact": _compact, "expire": _expire, "orphans": _orphans}
