"""One file of the log, and its index in memory."""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from calve.errors import PositionLostError, SourceError
from calve.files.private import private
from calve.sources.log import record
from calve.sources.log.record import SEGMENT_HEAD_BYTES, BadRecordError
from calve.state.durable import sync

__all__ = ["MARK_BYTES", "IsEnd", "Segment", "anywhere", "check_border", "create", "damaged", "load", "name"]

MARK_BYTES = 1 << 20
"""The approximate distance of possible starts of splits; it limits the index to a few thousand entries per GiB."""

IsEnd = Callable[[bytes], bool]
"""Whether a batch may end after a record, by its key."""


def anywhere(_: bytes) -> bool:
    """Let a batch end after any record."""
    return True


@dataclass
class Segment:
    """A segment up to its durable end.

    Attributes:
        previous_end: The end of the previous segment; it proves that a position there has missed nothing.
        end: The end of its durable bytes.
        marks: Some borders between records, as (offset, rows before it); the first record is always one.
        keys: Idempotency keys of its records with their times (epoch milliseconds).
        ends: Some borders at which a batch may end, and always the last one, as (offset, rows before it).
        parts: On an object store: where its objects begin.
        is_fence: On an object store: whether its head keeps another driver from writing.
        stray: On an object store: remains of older segments.
    """

    number: int
    previous_end: int
    end: int = SEGMENT_HEAD_BYTES
    rows: int = 0
    marks: list[tuple[int, int]] = field(default_factory=lambda: [(SEGMENT_HEAD_BYTES, 0)])
    keys: list[tuple[int, bytes]] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    is_fence: bool = False
    stray: list[str] = field(default_factory=list)

    def grow(self, end: int, rows: int, is_end: bool = True) -> None:
        """Add one more record that is on disk, after which a batch may end, or may not."""
        self.end, self.rows = end, self.rows + rows
        if end - self.marks[-1][0] >= MARK_BYTES:
            self.mark_end()
        if is_end:
            if len(self.ends) > 1 and end - self.ends[-2][0] < MARK_BYTES:
                self.ends.pop()
            self.ends.append((end, self.rows))

    def parts_between(self, start: int, end: int) -> list[int]:
        """Return where the objects begin that have the bytes between two offsets."""
        return self.parts[max(bisect_right(self.parts, start) - 1, 0) : bisect_left(self.parts, end)]

    def mark_end(self) -> None:
        """Make the end a possible start of a split."""
        if self.marks[-1][0] != self.end:
            self.marks.append((self.end, self.rows))

    def rows_before(self, offset: int) -> int:
        """Return the rows before an offset that is a mark, the end, or the last end of a batch."""
        if offset == self.end:
            return self.rows
        if self.ends and self.ends[-1][0] == offset:
            return self.ends[-1][1]
        return self.marks[bisect_left(self.marks, (offset,))][1]

    def has_border(self, offset: int) -> bool:
        """Return whether an offset is a mark or the end."""
        index = bisect_left(self.marks, (offset,))
        return offset == self.end or (index < len(self.marks) and self.marks[index][0] == offset)

    def end_after(self, start: int, size: int) -> int | None:
        """Return the last end of a batch within `size` bytes after a start, or the next one, as a mark; None: none."""
        first = bisect_right(self.ends, (start, self.rows))
        chosen = max(first, bisect_right(self.ends, (start + size, self.rows)) - 1)
        if chosen == len(self.ends):
            return None
        end = self.ends[chosen]
        if not self.has_border(end[0]):
            insort(self.marks, end)
        return end[0]

    def cut(self, start: int, size: int) -> int:
        """Return the last mark within `size` bytes after a start, or the next one; the end counts as a mark."""
        self.mark_end()
        index = bisect_right(self.marks, (start + size, self.rows)) - 1
        if self.marks[index][0] <= start < self.end:
            index += 1
        return self.marks[index][0]


def name(number: int) -> str:
    """Return the file name of a segment."""
    return f"{number:012d}.log"


def create(folder: Path, number: int, previous_end: int) -> int:
    """Create an empty segment that survives a crash, and return its file descriptor.

    Raises:
        OSError: It could not be made durable; it was removed again.
    """
    path = folder / name(number)
    descriptor = private(str(path), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, record.segment_head(previous_end))
        os.fsync(descriptor)
        sync(folder)
    except OSError:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        raise
    return descriptor


def load(path: Path, last: bool, border: int, is_end: IsEnd = anywhere) -> Segment | None:
    """Load a segment from its file.

    All records of the last segment are checked, and its incomplete tail is skipped (it was never acknowledged); of the
    others only the heads are read, the reader checks the rest.

    Args:
        path: The file.
        last: Whether this is the segment that was open.
        border: An offset that must be a border between records (0: none); it becomes a mark.
        is_end: Whether a batch may end after a record.

    Returns:
        None if the segment was not even created: the crash came before its head was on disk.

    Raises:
        SourceError: Acknowledged bytes are damaged, or `border` is not a border.
    """
    with path.open("rb") as file:
        start = file.read(SEGMENT_HEAD_BYTES)
        size = path.stat().st_size
        try:
            segment = Segment(int(path.stem), record.parse_segment_head(start))
        except BadRecordError as error:
            if last and size <= SEGMENT_HEAD_BYTES:
                return None
            raise damaged(path, 0, str(error)) from error
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            _scan(segment, buffer, path, last, border, is_end)
    check_border(segment, border, str(path))
    return segment


def check_border(segment: Segment, border: int, title: str) -> None:
    """Check that an offset is a border between records (0: nothing to check).

    Raises:
        PositionLostError: It is not.
    """
    if border and not segment.has_border(border):
        raise PositionLostError(
            f"the log {title} has no record that begins at {border}",
            step="start",
            target=title,
            hint="The log is older than the pipeline's ledger: restore it as it was, or start with a new state",
        )


def _scan(segment: Segment, buffer: mmap.mmap, path: Path, last: bool, border: int, is_end: IsEnd) -> None:
    size = len(buffer)
    while segment.end < size:
        at = segment.end
        if at == border:
            segment.mark_end()
        try:
            head = record.parse_head(buffer, at, size)
            if last:
                record.check_body(buffer, at, head)
        except BadRecordError as error:
            if last and not record.durable_after(buffer, at, size):
                return
            raise damaged(path, at, str(error)) from error
        start = at + record.HEAD_BYTES
        key = buffer[start : start + head.key_bytes]
        if key:
            segment.keys.append((head.time_ms, key))
        segment.grow(at + head.size, head.rows, is_end(key))
    if segment.end == border:
        segment.mark_end()


def damaged(path: Path | str, offset: int, why: str) -> SourceError:
    """Return the error for damaged bytes that had been acknowledged."""
    return SourceError(
        f"the log {path} is damaged at byte {offset}: {why}",
        step="read",
        target=str(path),
        hint="Events that were acknowledged are in it: restore the file from a copy; moving it away gives them up",
    )
