"""Maintains one table for `calve maintain`: runs the steps in order, and reports counts before and after."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from calve.errors import CalveError
from calve.maintenance.compact import compact, compact_metadata
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.equality_deletes import convert
from calve.maintenance.expire import expire
from calve.maintenance.manifests import DeleteCounts
from calve.maintenance.orphans import remove_orphans
from calve.maintenance.rewrite import NO_SIZE, RewrittenFiles, plan

__all__ = ["STEPS", "DoneStep", "MaintenanceOptions", "MaintenanceReport", "maintain"]

STEPS = ("convert", "compact", "expire", "orphans")
"""The order matters: expire removes the old files of a rewrite, orphans the files of a killed one."""


@dataclass(frozen=True)
class MaintenanceOptions:
    """The steps to run, and how.

    Attributes:
        steps: Some of `STEPS`.
        older_than: The least age of removed snapshots and orphans; None: the table's setting, and three days.
        dry_run: Only report what would be done.
    """

    steps: Collection[str] = STEPS
    older_than: timedelta | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class DoneStep:
    """One step and its result, as text and as figures; no figures: there was nothing to do."""

    step: str
    text: str
    figures: dict[str, int]


@dataclass
class MaintenanceReport:
    """The result for one table.

    Attributes:
        before: The counts before.
        after: The counts after; the same in a dry run, or if there was nothing to do.
        done: The steps that were done; in a dry run those that would be.
        error: Why the other steps were not done.
    """

    table: str
    branch: str
    before: DeleteCounts = field(default_factory=DeleteCounts)
    after: DeleteCounts = field(default_factory=DeleteCounts)
    done: list[DoneStep] = field(default_factory=list)
    error: CalveError | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "table": self.table,
            "branch": self.branch,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "done": [asdict(step) for step in self.done],
            "error": self.error.to_dict() if self.error else None,
        }


def maintain(
    context: MaintenanceContext, options: MaintenanceOptions, begins: Callable[[str], None]
) -> MaintenanceReport:
    """Run the requested steps; a failed step ends the table's maintenance, and completed steps stay.

    Args:
        context: The table.
        options: The steps to run.
        begins: Called with each step when it begins.
    """
    report = MaintenanceReport(context.name, context.target.branch)
    try:
        report.before = report.after = context.count()
        for step in STEPS:
            if step in options.steps:
                begins(step)
                report.done.append(_STEPS[step](context, options, report))
    except CalveError as error:
        report.error = error
    if not options.dry_run and any(done_step.figures for done_step in report.done):
        report.after = context.count()
    return report


def _convert(context: MaintenanceContext, options: MaintenanceOptions, report: MaintenanceReport) -> DoneStep:
    if not report.before.equality_delete_files:
        return DoneStep("convert", "no equality deletes", {})
    deletes = report.before.equality_delete_files
    text = f"{_files(deletes, 'equality delete file')} removed"
    if options.dry_run:
        return DoneStep("convert", text, {"delete_files": deletes})
    converted = convert(context, {} if "compact" in options.steps else NO_SIZE)
    rewritten, rows = converted.rewritten, converted.positions
    parts = [text, f"{rows:,} row{'s' * (rows != 1)} deleted by position instead"][: 1 + (rows > 0)]
    parts += [f"{_files(rewritten.files, 'data file')} rewritten"] * bool(rewritten.files)
    figures = {**_figures(rewritten), "delete_files": deletes, "positions": rows}
    return DoneStep("convert", ", ".join(parts), figures)


def _compact(context: MaintenanceContext, options: MaintenanceOptions, report: MaintenanceReport) -> DoneStep:
    if options.dry_run:
        rewritten, deletes, manifests = plan(context, {}), 0, 0
    else:
        rewritten = compact(context)
        deletes, manifests = compact_metadata(context)
    if not (rewritten.files or deletes or manifests):
        return DoneStep("compact", "nothing worth a rewrite", {})
    parts = [f"{_files(rewritten.files, 'data file')} rewritten into {rewritten.into:,}"] * bool(rewritten.files)
    parts += [f"{_files(deletes, 'position delete file')} rewritten"] * bool(deletes)
    parts += [f"{_files(manifests, 'manifest')} rewritten"] * bool(manifests)
    return DoneStep(
        "compact", ", ".join(parts), {**_figures(rewritten), "delete_files": deletes, "manifests": manifests}
    )


def _expire(context: MaintenanceContext, options: MaintenanceOptions, report: MaintenanceReport) -> DoneStep:
    expired = expire(context, options.older_than, options.dry_run)
    if not expired.snapshots:
        return DoneStep("expire", "no snapshot is old enough", {})
    with_files = "" if options.dry_run else f", {_files(expired.files, 'file')} deleted"
    return DoneStep("expire", f"{_files(expired.snapshots, 'snapshot')} expired{with_files}", asdict(expired))


def _orphans(context: MaintenanceContext, options: MaintenanceOptions, report: MaintenanceReport) -> DoneStep:
    orphans = remove_orphans(context, options.older_than, options.dry_run)
    kept = f", {_files(orphans.kept, 'file')} kept for a pipeline" if orphans.kept else ""
    if not orphans.files:
        return DoneStep("orphans", f"none{kept}", {"kept": orphans.kept} if orphans.kept else {})
    return DoneStep("orphans", f"{_files(orphans.files, 'file')} deleted{kept}", asdict(orphans))


def _files(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _figures(rewritten: RewrittenFiles) -> dict[str, int]:
    return {"rewritten": rewritten.files, "into": rewritten.into}


_STEPS = {"convert": _convert, "compact": _compact, "expire": _expire, "orphans": _orphans}
