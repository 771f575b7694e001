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
from calve.maintenance.context import MaintenanceContext

__all__ = ["ANY_DELETE", "NO_SIZE", "RewrittenFiles", "maintaining", "plan", "rewrite"]

ANY_DELETE = {"delete-file-threshold": "1"}
"""Rewrite a file if at least one delete file applies to it."""
NO_SIZE = {"min-file-size-bytes": "0"}
"""Rewrite no file because of its size."""
_STEP_BYTES = 2 << 30
"""The approximate bytes between two commits: a killed or overtaken rewrite keeps its earlier commits."""
_MOST_COMMITS = 10
_AT_ONCE = "max-concurrent-file-group-rewrites"


@dataclass(frozen=True)
class RewrittenFiles:
    """The number and size of rewritten data files, and the number of new files; in a dry run the plan."""

    files: int = 0
    into: int = 0
    size_bytes: int = 0


def plan(context: MaintenanceContext, options: dict[str, str], where: Any = None) -> RewrittenFiles:
    """Describe what `rewrite` would do; the number of new files is an estimate."""
    with maintaining("plan a rewrite", context):
        table = context.load()
        snapshot = table.snapshot(context.target.branch)
        if snapshot is None or table.currentSnapshot() is None:  # the action needs a table with `main`
            return RewrittenFiles()
        context.refuse_files(table, [snapshot], deletes=False)
        iceberg = context.jvm.org.apache.iceberg
        files = where or iceberg.expressions.Expressions.alwaysTrue()
        planner = iceberg.actions.BinPackRewriteFilePlanner(table, files, snapshot.snapshotId(), True)
        planner.init({**context.options, **options})
        groups = list(planner.plan().groups().iterator())
        return RewrittenFiles(
            sum(group.inputFileNum() for group in groups),
            sum(group.expectedOutputFiles() for group in groups),
            sum(group.inputFilesSizeInBytes() for group in groups),
        )


def rewrite(context: MaintenanceContext, options: dict[str, str], where: Any = None) -> RewrittenFiles:
    """Rewrite data files; may be repeated safely, and continues after its last commit.

    Args:
        context: The table and its branch.
        options: Iceberg's options to select files.
        where: A Java `Expression` for their partitions; None: all.

    Raises:
        MaintenanceError: A part could not be written or committed; other parts may be complete.
    """
    planned = plan(context, options, where)
    if not planned.files:
        return planned
    with maintaining("rewrite data files", context):
        table = context.load()
        action = context.actions().rewriteDataFiles(table).toBranch(context.target.branch)
        if where is not None:
            action = action.filter(where)
        if table.sortOrder().isSorted():
            action = action.sort()
        commits = min(_MOST_COMMITS, planned.size_bytes // _STEP_BYTES)
        steps = {"partial-progress.enabled": "true", "partial-progress.max-commits": str(commits)} if commits else {}
        parallel = {_AT_ONCE: str(context.at_once)} if context.at_once else {}
        for key, value in {**context.options, **steps, **parallel, **options}.items():
            action = action.option(key, value)
        done = action.execute()
    if failed := done.failedDataFilesCount():
        raise MaintenanceError(
            f"{failed} data files of {context.name} could not be rewritten; the others were",
            step="rewrite data files",
            target=context.name,
            hint="Run it again; CALVE_SPARK_LOG=WARN shows the reason",
        )
    return RewrittenFiles(done.rewrittenDataFilesCount(), done.addedDataFilesCount(), done.rewrittenBytesCount())


@contextmanager
def maintaining(step: str, context: MaintenanceContext) -> Iterator[None]:
    """Convert errors of a table's maintenance to `MaintenanceError`, which does not stop other work."""
    try:
        with java_errors(step, context.name):
            yield
    except CommitConflictError as error:
        raise MaintenanceError(
            f"{context.name}: other writers were faster every time",
            step=step,
            target=context.name,
            hint="Run it again at a quieter time, or increase the table property `commit.retry.num-retries`",
        ) from error
    except CommitError as error:
        raise MaintenanceError(error.message, step=step, target=context.name, hint=error.hint) from error
