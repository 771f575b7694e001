"""Rewrites data files with Iceberg's own action: joins small ones, and drops deleted rows.

This relies on a fact of Iceberg 1.12, which tests check: new files keep the sequence number of the snapshot that was
read (`use-starting-sequence-number`). So equality deletes that a pipeline commits meanwhile apply to them, and a commit
of such deletes is not a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from calve.engine.java.errors import java_errors
from calve.errors import CommitConflictError, CommitError, MaintenanceError
from calve.maintenance.context import Workbench

__all__ = ["Rewritten", "maintaining", "plan", "rewrite"]

ANY_DELETE = {"delete-file-threshold": "1"}
"""Rewrite a file if at least one delete file applies to it."""
NO_SIZE = {"min-file-size-bytes": "0"}
"""Rewrite no file because of its size."""
_STEP_BYTES = 2 << 30
"""The approximate bytes between two commits: a killed or overtaken rewrite keeps its earlier commits."""
_MOST_COMMITS = 10
_AT_ONCE = "max-concurrent-file-group-rewrites"


@dataclass(frozen=True)
class Rewritten:
    """The number and size of rewritten data files, and the number of new files; in a dry run the plan."""

    files: int = 0
    into: int = 0
    size_bytes: int = 0


def plan(bench: Workbench, options: dict[str, str], where: Any = None) -> Rewritten:
    """Describe what `rewrite` would do; the number of new files is an estimate."""
    with maintaining("plan a rewrite", bench):
        table = bench.load()
        snapshot = table.snapshot(bench.target.branch)
        if snapshot is None or table.currentSnapshot() is None:  # the action needs a table with `main`
            return Rewritten()
        bench.refuse_files(table, [snapshot], deletes=False)
        iceberg = bench.jvm.org.apache.iceberg
        files = where or iceberg.expressions.Expressions.alwaysTrue()
        planner = iceberg.actions.BinPackRewriteFilePlanner(table, files, snapshot.snapshotId(), True)
        planner.init({**bench.options, **options})
        groups = list(planner.plan().groups().iterator())
        return Rewritten(
            sum(one.inputFileNum() for one in groups),
            sum(one.expectedOutputFiles() for one in groups),
            sum(one.inputFilesSizeInBytes() for one in groups),
        )


def rewrite(bench: Workbench, options: dict[str, str], where: Any = None) -> Rewritten:
    """Rewrite data files; may be repeated safely, and continues after its last commit.

    Args:
        bench: The table and its branch.
        options: Iceberg's options to select files.
        where: A Java `Expression` for their partitions; None: all.

    Raises:
        MaintenanceError: A part could not be written or committed; other parts may be complete.
    """
    planned = plan(bench, options, where)
    if not planned.files:
        return planned
    with maintaining("rewrite data files", bench):
        table = bench.load()
        action = bench.actions().rewriteDataFiles(table).toBranch(bench.target.branch)
        if where is not None:
            action = action.filter(where)
        if table.sortOrder().isSorted():
            action = action.sort()
        commits = min(_MOST_COMMITS, planned.size_bytes // _STEP_BYTES)
        steps = {"partial-progress.enabled": "true", "partial-progress.max-commits": str(commits)} if commits else {}
        parallel = {_AT_ONCE: str(bench.at_once)} if bench.at_once else {}
        for key, value in {**bench.options, **steps, **parallel, **options}.items():
            action = action.option(key, value)
        done = action.execute()
    if failed := done.failedDataFilesCount():
        raise MaintenanceError(
            f"{failed} data files of {bench.name} could not be rewritten; the others were",
            step="rewrite data files",
            target=bench.name,
            hint="Run it again; CALVE_SPARK_LOG=WARN shows the reason",
        )
    return Rewritten(done.rewrittenDataFilesCount(), done.addedDataFilesCount(), done.rewrittenBytesCount())


@contextmanager
def maintaining(step: str, bench: Workbench) -> Iterator[None]:
    """Convert errors of a table's maintenance to `MaintenanceError`, which does not stop other work."""
    try:
        with java_errors(step, bench.name):
            yield
    except CommitConflictError as error:
        raise MaintenanceError(
            f"{bench.name}: other writers were faster every time",
            step=step,
            target=bench.name,
            hint="Run it again at a quieter time, or increase the table property `commit.retry.num-retries`",
        ) from error
    except CommitError as error:
        raise MaintenanceError(error.message, step=step, target=bench.name, hint=error.hint) from error
