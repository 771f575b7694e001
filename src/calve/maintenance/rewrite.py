"""Rewrites data files with Iceberg's own action: small ones into large ones, and those whose rows have deletes.

What this relies on (Iceberg 1.12, read and tested): the new files keep the sequence number of the snapshot that was
read (`use-starting-sequence-number`), so equality deletes that a pipeline commits meanwhile hold for them, and a
commit that adds such deletes is no conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from calve.engine.jvm import java_errors
from calve.errors import CommitConflictError, CommitError, MaintenanceError
from calve.maintenance.context import Workbench

__all__ = ["Rewritten", "maintaining", "plan", "rewrite"]

ANY_DELETE = {"delete-file-threshold": "1"}
"""A file is rewritten when a single delete file holds for it."""
NO_SIZE = {"min-file-size-bytes": "0"}
"""No file is rewritten for being small."""
_STEP_BYTES = 2 << 30
"""What is rewritten between two commits, about: a rewrite that is killed or overtaken keeps what it had committed."""
_MOST_COMMITS = 10
_AT_ONCE = "max-concurrent-file-group-rewrites"


@dataclass(frozen=True)
class Rewritten:
    """How many data files were rewritten, or would be, into how many, and how large they were."""

    files: int = 0
    into: int = 0
    size_bytes: int = 0


def plan(bench: Workbench, options: dict[str, str]) -> Rewritten:
    """Describe what `rewrite` would do; the number of new files is an estimate."""
    with maintaining("plan a rewrite", bench):
        table = bench.load()
        snapshot = table.snapshot(bench.target.branch)
        if snapshot is None or table.currentSnapshot() is None:  # the action works on tables with a main only
            return Rewritten()
        iceberg = bench.jvm.org.apache.iceberg
        everything = iceberg.expressions.Expressions.alwaysTrue()
        planner = iceberg.actions.BinPackRewriteFilePlanner(table, everything, snapshot.snapshotId(), False)
        planner.init({**bench.options, **options})
        groups = list(planner.plan().groups().iterator())
        return Rewritten(
            sum(one.inputFileNum() for one in groups),
            sum(one.expectedOutputFiles() for one in groups),
            sum(one.inputFilesSizeInBytes() for one in groups),
        )


def rewrite(bench: Workbench, options: dict[str, str]) -> Rewritten:
    """Rewrite data files; may be repeated, also after a kill: what is committed is not done again.

    Args:
        bench: The table and its branch.
        options: Which files.

    Raises:
        MaintenanceError: A part of it could not be written or committed; other parts may be done.
    """
    planned = plan(bench, options)
    if not planned.files:
        return planned
    with maintaining("rewrite data files", bench):
        table = bench.load()
        action = bench.actions().rewriteDataFiles(table).toBranch(bench.target.branch)
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
            f"{failed} data files of {bench.name} could not be rewritten; others were",
            step="rewrite data files",
            target=bench.name,
            hint="Run it again; with CALVE_SPARK_LOG=WARN Spark says why",
        )
    return Rewritten(done.rewrittenDataFilesCount(), done.addedDataFilesCount(), done.rewrittenBytesCount())


@contextmanager
def maintaining(step: str, bench: Workbench) -> Iterator[None]:
    """Turn what goes wrong with a table's maintenance into an error that stops nothing else."""
    try:
        with java_errors(step, bench.name):
            yield
    except CommitConflictError as error:
        raise MaintenanceError(
            f"{bench.name}: other writers were faster every time",
            step=step,
            target=bench.name,
            hint="Run it again when less is committed, or raise the table property `commit.retry.num-retries`",
        ) from error
    except CommitError as error:
        raise MaintenanceError(error.message, step=step, target=bench.name, hint=error.hint) from error
