"""Replaces data files by copies of their rows, in one snapshot with the deletes that others committed meanwhile.

Iceberg's own rewrite is refused as soon as a row of a file that it read was deleted by position. Beside a pipeline that
commits every few seconds it would never end. Here each such row is found in the new file: its place is its rank among
the rows that were copied. Equality deletes need nothing: new files keep the sequence number of the snapshot that was
read, so later deletes apply to them.

The swap is the fence's: it replaces exactly the metadata that was inspected. If another commit is faster, the deletes
are read again, and no row is copied again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from calve.arrays import RowNumbers
from calve.catalog.retry import retried
from calve.commit.swap import swap
from calve.engine.java.compiled import java_class
from calve.engine.java.errors import called, java_errors
from calve.errors import CommitConflictError, CommitUnknownError, InvariantError, MaintenanceError
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.copied_rows import CopiedFile, CopiedGroup, FileGroup, unpacked
from calve.record.content_file import ContentFile
from calve.stop_point import stop_at
from calve.table.loaded import Table
from calve.write.parquet import remove

__all__ = ["CopiedPiece", "moved_rows", "remove_copies", "replace_files"]

_STEP = "join data files"


class CopiedPiece(NamedTuple):
    """Files whose rows have been copied, and their copies.

    Attributes:
        table: The table when they were planned.
        snapshot_id: The snapshot that had them.
        sequence_number: The number of this snapshot.
        groups: The files.
        copied: What became of each group.
    """

    table: Table
    snapshot_id: int
    sequence_number: int
    groups: Sequence[FileGroup]
    copied: Sequence[CopiedGroup]

    @property
    def new_files(self) -> list[ContentFile]:
        """The copies."""
        return [file for group in self.copied for file in group.files]


def replace_files(context: MaintenanceContext, piece: CopiedPiece) -> None:
    """Commit copies of files in their place; rows that were deleted meanwhile stay deleted. May be repeated safely.

    Raises:
        MaintenanceError: Somebody else has rewritten one of the files, or brought deleted rows back; the copies are
            removed.
        CommitConflictError: Other writers were faster every time; the copies are removed.
        CommitUnknownError: The catalog's answer is lost; the copies stay.
    """
    is_unknown = False

    def attempt() -> None:
        nonlocal is_unknown
        try:
            _attempt(context, piece)
        except CommitUnknownError:
            is_unknown = True
            raise

    try:
        retried(attempt)
    except (CommitConflictError, MaintenanceError):
        if not is_unknown:
            remove_copies(piece.table, piece.copied)
        raise


def remove_copies(table: Table, copied: Iterable[CopiedGroup]) -> None:
    """Delete the new files of groups that are not committed."""
    for file in (file for group in copied for file in group.files):
        remove(file.file_path, table.io_properties)


def _attempt(context: MaintenanceContext, piece: CopiedPiece) -> None:
    begun, branch = context.begin(), context.target.branch
    paths = [file.path for group in piece.groups for file in group.files]
    with java_errors(_STEP, context.name):
        begun.inspect(branch)
        java = java_class(context.jvm, "calve.commit.positions", "Positions").newInstance()
        is_same = java.follow(begun.transaction, branch, piece.snapshot_id, paths)
        if any(java.isLive(file.file_path) for file in piece.new_files[:1]):
            return  # the answer to an earlier attempt was lost
        if not is_same or java.version() != piece.table.format_version:
            raise _overtaken(context.name, "have been rewritten or removed")
        moved = dict(_moved(java, piece, context.name))
        rows = [*moved.values(), np.zeros(0, np.int64)]
        counts = np.array([len(numbers) for numbers in moved.values()], "<i8")
        new_files = msgspec.json.encode(piece.new_files).decode()
        positions = np.concatenate(rows).astype("<i8").tobytes()
        called(java, "move", new_files, json.dumps(list(moved)), counts.tobytes(), positions)
        stop_at("commit.after-deletes")
        begun.replace(branch, java.added(), java.removed(), piece.new_files, java.files(), piece.sequence_number)
        swap(begun, branch)


def _moved(java: Any, piece: CopiedPiece, name: str) -> Iterator[tuple[str, RowNumbers]]:
    """Yield the rows of new files that were deleted after their copies were planned."""
    for group, copied in zip(piece.groups, piece.copied, strict=True):
        yield from moved_rows(group, copied, [_hidden(java, file, bits, name) for file, bits in _files(group, copied)])


def _files(group: FileGroup, copied: CopiedGroup) -> Iterator[tuple[CopiedFile, bytes]]:
    return zip(group.files, copied.dropped, strict=True)


def _hidden(java: Any, file: CopiedFile, dropped: bytes, name: str) -> bytes:
    """Return the rows of a file that are hidden now.

    Raises:
        MaintenanceError: A row that was not copied is no longer deleted.
    """
    hidden: bytes = java.hidden(file.path)
    keys_stay = {path for path, _ in file.keys} <= set(java.equalityDeletes(file.path))
    must_be = unpacked(file.hidden if keys_stay else dropped, file.rows)
    if (must_be & ~unpacked(hidden, file.rows)).any():
        raise _overtaken(name, "have rows that were deleted when they were read, and are no longer")
    return hidden


def moved_rows(group: FileGroup, copied: CopiedGroup, hidden: Sequence[bytes]) -> Iterator[tuple[str, RowNumbers]]:
    """Yield where copied rows are that are hidden now: new files, each with numbers of its rows.

    Args:
        group: The old files.
        copied: The new ones, and the rows that were not copied.
        hidden: The rows of each old file that deletes by position hide now.

    Raises:
        MaintenanceError: The rows of the group went to several partitions, so their places are not known.
    """
    places, before = [], 0
    for (file, dropped), bits in zip(_files(group, copied), hidden, strict=True):
        kept = ~unpacked(dropped, file.rows)
        rank = np.cumsum(kept) - 1
        places.append(rank[kept & unpacked(bits, file.rows)] + before)
        before += int(kept.sum())
    numbers = np.concatenate(places)
    if not len(numbers):
        return
    if copied.places:
        numbers = np.sort(np.frombuffer(copied.places, "<u4")[numbers].astype(np.int64))
    files = copied.files
    if any(file.partition != files[0].partition for file in files):
        raise _overtaken(group.files[0].path, "were divided into several partitions, and some rows deleted meanwhile")
    ends = np.cumsum([file.record_count for file in files])
    if ends[-1] != before:
        raise InvariantError(f"{before} rows were copied into files of {ends[-1]} rows", step=_STEP)
    which = np.searchsorted(ends, numbers, "right")
    for number in np.unique(which):
        yield files[number].file_path, numbers[which == number] - (ends[number - 1] if number else 0)


def _overtaken(name: str, what: str) -> MaintenanceError:
    return MaintenanceError(
        f"{name}: data files {what} by another writer while they were joined",
        step=_STEP,
        target=name,
        hint="Nothing has changed; a running pipeline tries again by itself",
    )
