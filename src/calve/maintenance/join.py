"""Rewrites data files by copying their rows as Arrow batches, in tasks: a sixth of the CPU of Spark's SQL.

Iceberg's planner chooses the files and the deletes that apply to each. The rows that are left are copied with the
writer of the pipelines (`copied_rows`), and rows that are deleted meanwhile are deleted in the new files by the same
snapshot (`moved_deletes`). What needs more is left to Iceberg's action: large groups of a table with a sort order,
files that are not Parquet, or lack a part of a nested column that is not NULL in older rows.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calve.catalog.attempt import Attempt
from calve.engine.java.compiled import java_class
from calve.errors import CalveError, MaintenanceError
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.copied_rows import CopiedFile, CopiedGroup, FileGroup, copy_on_executor, unpacked
from calve.maintenance.moved_deletes import CopiedPiece, remove_copies, replace_files
from calve.maintenance.rewrite import RewrittenFiles, maintaining
from calve.stop_point import stop_at
from calve.table.loaded import Table

__all__ = ["SORTED_BYTES", "join"]

_STEP = "join data files"
_GROUP = "max-file-group-size-bytes"
_PIECE_BYTES = 1 << 30
"""What one task copies, and one commit replaces: a killed or overtaken rewrite keeps its earlier commits."""
SORTED_BYTES = 128 << 20
"""The largest group of files whose rows are sorted here: they are in the memory of a task."""
_MOST_DELETE_BYTES = 64 << 20
"""Of more equality deletes the keys are too many for a task."""


def join(
    context: MaintenanceContext,
    options: Mapping[str, str],
    where: Any = None,
    hidden_share: float | None = None,
    most_bytes: int | None = None,
) -> RewrittenFiles | None:
    """Rewrite the files that Iceberg's planner chooses; None: they need Iceberg's action. May be repeated safely.

    Args:
        context: The table and its branch.
        options: Iceberg's options to select files.
        where: A Java `Expression` for their partitions; None: all.
        hidden_share: Only files of whose rows deletes by position hide a greater share than this.
        most_bytes: About so much of them; None: all.

    Raises:
        MaintenanceError: Not everything was joined; completed parts stay.
        NoTargetError: There is no such table.
    """
    with maintaining(_STEP, context):
        begun = context.begin()
        begun.inspect(context.target.branch)
        table, snapshot = begun.load(), begun.table.snapshot(context.target.branch)
        if snapshot is None:
            return RewrittenFiles()
        groups = _planned(context, begun, snapshot, {_GROUP: str(_PIECE_BYTES), **context.options, **options}, where)
        if groups is None:
            return None
        if hidden_share is not None:
            groups = list(_with_hidden(groups, hidden_share, most_bytes))
        if replace(table).sort_order.fields and any(group.size_bytes > SORTED_BYTES for group in groups):
            return None
        done = RewrittenFiles()
        for pieces in _waves(groups, context.at_once or context.spark.tasks.parallelism):
            outcomes = _copied(context, table, pieces)
            if outcomes is None:
                return None
            for files, outcome in zip(pieces, outcomes, strict=True):
                piece = CopiedPiece(table, snapshot.snapshotId(), snapshot.sequenceNumber(), files, outcome)
                replace_files(context, piece)
                done = _sum(done, files, outcome)
    return done


def _planned(
    context: MaintenanceContext, begun: Attempt, snapshot: Any, options: Mapping[str, str], where: Any
) -> list[FileGroup] | None:
    """Return the groups of files of Iceberg's planner, with the rows that are hidden; None: they need the action."""
    context.refuse_files(begun.table, [snapshot], deletes=False)
    where = where or context.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
    planner = java_class(context.jvm, __name__, "Joins").newInstance()
    planned = planner.plan(begun.table, where, snapshot.snapshotId(), options)
    if planned is None or _is_left(context, planner.deleteBytes()):
        return None
    positions = java_class(context.jvm, "calve.commit.positions", "Positions").newInstance()
    positions.begin(begun.transaction, context.target.branch, planner.tasks())
    return [
        FileGroup([CopiedFile(*file)._replace(hidden=positions.hidden(file[0])) for file in files], into)
        for files, into in json.loads(planned)
    ]


def _copied(
    context: MaintenanceContext, table: Table, pieces: Sequence[Sequence[FileGroup]]
) -> list[list[CopiedGroup]] | None:
    """Copy pieces, each in a task; None: only Iceberg can read one of the files. Then no copy is left.

    Raises:
        MaintenanceError: A file cannot be read or written; copies that are left are orphans.
    """
    outcomes = context.spark.tasks.run(functools.partial(copy_on_executor, table), pieces)
    stop_at("maintain.after-copy")
    if error := next((outcome for outcome in outcomes if isinstance(outcome, CalveError)), None):
        raise MaintenanceError(error.message, step=_STEP, target=context.name, hint=error.hint)
    if None not in outcomes:
        return outcomes
    for outcome in filter(None, outcomes):
        remove_copies(table, outcome)
    return None


def _is_left(context: MaintenanceContext, delete_bytes: int) -> bool:
    """Return whether equality deletes are too many; or batches with one worker would wait for a search of keys."""
    is_alone = context.spark.tasks.parallelism == 1 and bool(context.at_once)
    return delete_bytes > _MOST_DELETE_BYTES or (delete_bytes > 0 and is_alone)


def _with_hidden(groups: Sequence[FileGroup], share: float, most_bytes: int | None) -> Iterator[FileGroup]:
    """Yield the groups with those files that have so many hidden rows, until these are enough; one at least."""
    size = 0
    for group in groups:
        files = []
        for file in group.files:
            is_chosen = unpacked(file.hidden, file.rows).sum() > share * file.rows
            if is_chosen and (most_bytes is None or not size or size + file.size_bytes <= most_bytes):
                size += file.size_bytes
                files.append(file)
        if files:
            bytes_left = sum(file.size_bytes for file in files)
            yield FileGroup(files, max(1, round(group.into * bytes_left / max(group.size_bytes, 1))))


def _waves(groups: Sequence[FileGroup], width: int) -> Iterator[list[list[FileGroup]]]:
    """Yield groups in pieces, each for one task; so many pieces at once."""
    pieces: list[list[FileGroup]] = []
    for group in groups:
        if pieces and sum(earlier.size_bytes for earlier in pieces[-1]) + group.size_bytes <= _PIECE_BYTES:
            pieces[-1].append(group)
        else:
            pieces.append([group])
    for start in range(0, len(pieces), width):
        yield pieces[start : start + width]


def _sum(done: RewrittenFiles, groups: Sequence[FileGroup], copied: Sequence[CopiedGroup]) -> RewrittenFiles:
    return RewrittenFiles(
        done.files + sum(len(group.files) for group in groups),
        done.into + sum(len(group.files) for group in copied),
        done.size_bytes + sum(group.size_bytes for group in groups),
    )
