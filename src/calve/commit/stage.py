"""Adds staged batches to an attempt: by one snapshot where one is enough, else batch by batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from calve.catalog.attempt import Attempt
from calve.catalog.catalog import Catalog
from calve.catalog.retry import Retries
from calve.commit.full_row_deletes import delete_full_rows
from calve.commit.mark import CommitTarget
from calve.commit.merge import merge_changes
from calve.commit.positions import delete_by_position
from calve.commit.reformat import reformatted
from calve.engine.java.errors import unforeseen_errors
from calve.errors import InvariantError
from calve.record.content_file import ContentFile
from calve.record.target import EQUALITY_DELETE, MERGE_ON_READ
from calve.reduce.full_rows import is_of_full_rows
from calve.stop_point import fail_if
from calve.table.kinds import Limit
from calve.table.spark_types import check_types

__all__ = ["CommitHooks", "Lose", "Report", "refuse", "stage"]

Lose = Callable[[int, Sequence[bytes]], None]
"""Keeps the dead letters of a batch, as lines of JSON; they replace those of an earlier call for this batch."""

_STEP = "commit"
_LONG_SECONDS = 5.0
"""After so long an attempt takes no more batches to merge: the longer, the likelier another writer is faster."""
_MERGE = "keys or files that need a MERGE"
_REJECTED = "calve.rejected"
_WHO = ("calve.pipeline", "calve.state")
_Batches = Mapping[int, Sequence[ContentFile]]


class CommitHooks(NamedTuple):
    """What a commit calls and counts.

    Attributes:
        lose: Called for each batch, in every attempt and before the swap, with the dead letters of events that turned
            out not to be rows, often none.
        retries: How often it is tried; counts the tries.
    """

    lose: Lose
    retries: Retries


class Report(NamedTuple):
    """The snapshot summary, the callback for rejected events, how many each batch has lost to it, and the tries.

    `judge` is called for each snapshot in order, with its files; it returns more of its summary.
    """

    summary: dict[str, str]
    lose: Lose
    lost: dict[int, int]
    retries: Retries
    validates_only: bool = False
    judge: Callable[[Iterable[ContentFile]], dict[str, str]] = lambda _: {}


def stage(catalog: Catalog, begun: Attempt, target: CommitTarget, files: _Batches, report: Report) -> tuple[int, ...]:
    """Add batches to an attempt.

    Data files, and deletes by position, are one snapshot. Other deletes need a snapshot for each batch: they apply only
    to rows of earlier snapshots.

    Args:
        catalog: The catalog of the table.
        begun: The attempt; it has inspected the table.
        target: The table, its branch, and how deletes are committed.
        files: The files of each batch, in order.
        report: The summary of the last snapshot, and what happens to events that are not rows.

    Returns:
        The batches that were added: all, unless they are merged and this takes long.

    Raises:
        UnprocessableError: The files cannot become a snapshot; their events may be the reason.
        CalveError: The table cannot be read or changed.
    """
    staged = _unique(files)
    if all(file.is_data for file in staged):
        _stage(catalog, begun, target, staged, report.summary | report.judge(staged))
        return tuple(files)
    if any(is_of_full_rows(file) for file in staged):
        return _stage_full_rows(catalog, begun, target, files, report)
    if target.write_mode == MERGE_ON_READ and not target.write_as:
        with unforeseen_errors(_STEP, target.identifier):
            fail_if("commit.stage", lambda: [file.file_path for file in staged])
            if delete_by_position(catalog, begun, target, files, lambda letters: _rejected(report, files, letters)):
                return tuple(files)
    return _stage_each(catalog, begun, target, files, report)


def _unique(batches: _Batches) -> list[ContentFile]:
    return list({file.file_path: file for files in batches.values() for file in files}.values())


def _stage_full_rows(
    catalog: Catalog, begun: Attempt, target: CommitTarget, files: _Batches, report: Report
) -> tuple[int, ...]:
    """Add batches with deletes of whole rows, up to the first one with deletes of keys, or the other way round."""
    kind, first = None, dict[int, Sequence[ContentFile]]()
    for batch, batch_files in files.items():
        own = {is_of_full_rows(file) for file in batch_files if not file.is_data}
        kind = kind if kind is not None or not own else True in own
        if own - {kind}:
            break
        first[batch] = batch_files
    whole = {key: value for key, value in report.summary.items() if len(first) == len(files) or key in _WHO}
    summary = whole | {"calve.batch": str(max(first))}
    if not kind:
        return stage(catalog, begun, target, first, report._replace(summary=summary))
    with unforeseen_errors(_STEP, target.identifier):
        fail_if("commit.stage", lambda: [file.file_path for of_batch in first.values() for file in of_batch])
        delete_full_rows(catalog, begun, target, first, summary | report.judge(_unique(first)))
    return tuple(first)


def _rejected(report: Report, batches: _Batches, letters: Mapping[int, Sequence[bytes]]) -> dict[str, str]:
    """Keep the dead letters of batches; return the summary that counts them."""
    for batch in batches:
        report.lose(batch, letters.get(batch, ()))
        report.lost[batch] = len(letters.get(batch, ()))
    lost = sum(lost for batch, lost in report.lost.items() if batch <= max(batches))
    return _counted(report.summary, lost) | report.judge(_unique(batches))


def _counted(summary: Mapping[str, str], lost: int) -> dict[str, str]:
    """Return a summary that counts events that turned out not to be rows."""
    return {key: str(int(value) + lost) if key == _REJECTED else value for key, value in summary.items()}


def _stage_each(
    catalog: Catalog,
    begun: Attempt,
    target: CommitTarget,
    files: Mapping[int, Sequence[ContentFile]],
    report: Report,
) -> tuple[int, ...]:
    """Add batches one by one: an equality delete applies only to rows of earlier snapshots.

    Returns:
        The batches that were added: all, unless they are merged and this takes long.
    """
    last, ends, added = max(files), time.monotonic() + _LONG_SECONDS, []
    for batch, batch_files in files.items():
        summary = {key: value for key, value in report.summary.items() if batch == last or key in _WHO}
        summary |= {"calve.batch": str(batch)} | report.judge(batch_files)
        before = sum(lost for earlier, lost in report.lost.items() if earlier < batch)
        letters = _stage(catalog, begun, target, batch_files, summary, before)
        report.lose(batch, letters)
        report.lost[batch] = len(letters)
        added.append(batch)
        if target.write_mode != EQUALITY_DELETE and time.monotonic() > ends and not report.validates_only:
            break
    return tuple(added)


def _stage(
    catalog: Catalog,
    begun: Attempt,
    target: CommitTarget,
    files: Sequence[ContentFile],
    summary: Mapping[str, str],
    lost_before: int = 0,
) -> list[bytes]:
    """Add the files of one batch to an attempt: deletes first, because they apply to earlier rows.

    `calve.rejected` grows by the dead letters of this batch, and of earlier batches of the same commit (`lost_before`).

    Returns:
        The dead letters of events that turned out not to be rows.

    Raises:
        UnprocessableError: The files cannot become a snapshot; their events may be the reason.
    """
    lost: list[bytes] = []
    deletes = [file for file in files if not file.is_data]
    with unforeseen_errors(_STEP, target.identifier):
        fail_if("commit.stage", lambda: [file.file_path for file in files])
        if deletes and target.write_mode != EQUALITY_DELETE:
            check_types(begun.load(), _MERGE, Limit.NO_MERGE, _STEP, "Set write_mode: equality-delete")
            catalog.spark.describe(summary.get(_WHO[0], "calve"), f"merge into {target.identifier}")
            lost = merge_changes(catalog, begun.transaction, target.branch, target.write_mode, deletes)
            files, deletes = [file for file in files if file.is_data], []
        files = [*deletes, *reformatted(catalog, begun, target, [file for file in files if file.is_data])]
        stage = begun.change if deletes else begun.append
        stage(target.branch, files, _counted(summary, lost_before + len(lost)))
    return lost


def refuse(batch: int, letters: Sequence[bytes]) -> None:
    """Refuse dead letters.

    Raises:
        InvariantError: There are some.
    """
    if letters:
        raise InvariantError(
            f"{len(letters)} events of batch {batch} are not rows, and there is no dead-letter file for them",
            step=_STEP,
        )
