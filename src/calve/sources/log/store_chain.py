"""The log on an object store: a chain of objects that only one driver can continue (decision 29).

    log/<segment>-<offset>      the records that begin at this offset of a segment;
                                or, where the segment ends, the head of the next one

An object is only created, never changed, and its name is where the one before it ends. So all drivers that know the
same end want the same name, and the store lets one of them have it. Whoever takes over creates the head of a new
segment there: a driver that wrote until now either was earlier, and its records are read, or is refused, and knows it.

Objects of a released segment are deleted, but not a head that keeps another driver out: that one may sleep for as long
as it likes before it wants the name.
"""

from __future__ import annotations

import enum
import struct
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from calve.errors import PositionLostError, WriteError
from calve.sources.log import record
from calve.sources.log.record import SEGMENT_HEAD_BYTES, BadRecordError
from calve.sources.log.segment import IsEnd, Segment, check_border, damaged
from calve.state.folder import Listed
from calve.state.store_folder import StoreFolder

__all__ = ["SegmentCause", "clear", "head", "log_folder", "name", "names_of", "take_over"]

_HEAD = struct.Struct("<16sB16s")
_MAGIC = b"calve log head 1"
_FETCHES = 16
_FETCHED_BYTES = 64 << 20
"""About the most bytes that are in memory while a log is read."""
_ATTEMPTS = 10


class SegmentCause(enum.IntEnum):
    """Why a segment begins."""

    NEXT = 0  # its driver went on, or nobody writes the one before
    TAKEN = 1  # another driver may still want to write the one before
    CLOSED = 2  # its driver has ended, and will write nothing


class _ChangedError(Exception):
    """Objects were deleted after they were listed. Internal: the list is read again."""


def log_folder(folder: StoreFolder) -> StoreFolder:
    """Return where the log of a source is, by the folder of the source."""
    return folder / "log"


def name(number: int, offset: int) -> str:
    """Return the name of the object at an offset of a segment."""
    return f"{number:012d}-{offset:020d}"


def head(kind: SegmentCause) -> bytes:
    """Build the head of a segment; no other head is equal."""
    return _HEAD.pack(_MAGIC, kind, uuid.uuid4().bytes)


def take_over(folder: StoreFolder, at: tuple[int, int], is_end: IsEnd) -> list[Segment]:
    """Read the log, and begin a new segment, so that any other driver is refused from then on.

    Args:
        folder: The source's folder; its log is read to the end, also if it grows meanwhile.
        at: A border (segment, offset) that becomes a mark.
        is_end: Whether a batch may end after a record.

    Returns:
        The segments; the last one is new and empty. A segment of which something is missing is not among them, nor is
        any before it.

    Raises:
        PositionLostError: The last records are missing, or there is no record at the border.
        SourceError: An object is damaged.
        WriteError: The store does not answer. May be repeated.
    """
    for _ in range(_ATTEMPTS):
        try:
            chain = _Chain(log_folder(folder), at, is_end)
            chain.read()
            return chain.seal()
        except _ChangedError:
            continue
    raise WriteError(f"The log in {folder} changes all the time", step="start", target=str(folder))


def clear(folder: StoreFolder) -> None:
    """Remove all records of a log, and keep other drivers out of it; may be repeated.

    Raises:
        WriteError: The store does not answer.
    """
    for old in take_over(folder, (0, 0), lambda key: True)[:-1]:
        log_folder(folder).remove_all(names_of(old))


@dataclass
class _Chain:
    """What was read of a log.

    Attributes:
        live: The segments without a gap, up to the end.
    """

    folder: StoreFolder
    at: tuple[int, int]
    is_end: IsEnd
    live: list[Segment] = field(default_factory=list)
    _stray: list[str] = field(default_factory=list)
    _last: SegmentCause | None = None
    _is_cut: bool = False

    def read(self) -> None:
        """Read all objects.

        Raises:
            PositionLostError: The last records are missing.
        """
        for listed, content in _fetched(self.folder, self.folder.entries()[1]):
            number, _, offset = listed.partition("-")
            self.add(int(number), int(offset), content)
        if self._is_cut:
            raise PositionLostError(
                f"the log in {self.folder} has a gap, and its last events were not all read",
                step="start",
                target=str(self.folder),
                hint="Restore the missing objects; if these events may be lost, start the pipeline with a new state",
            )

    def add(self, number: int, offset: int, content: bytes) -> None:
        """Add the next object; those that do not continue what is known are remains of deleted segments."""
        kind = _kind_of(content)
        current = self.live[-1] if self.live and not self._is_cut else None
        continues = current is not None and (current.number, current.end) == (number, offset)
        if kind is None and current is not None and continues:
            _grow(current, content, self)
            return
        if not continues:
            for segment in self.live:
                self._stray += names_of(segment)
            self.live = []
        if kind is None:
            self._stray.append(name(number, offset))
            self._is_cut = True
            return
        self._is_cut, self._last = False, kind
        new = Segment(number + 1, offset, is_fence=kind is SegmentCause.TAKEN)
        self._mark(new)
        self.live.append(new)

    def seal(self) -> list[Segment]:
        """Begin a new segment at the end.

        Raises:
            _ChangedError: The end is not there any more.
        """
        while True:
            last = self.live[-1] if self.live else None
            end = (last.number, last.end) if last else (0, 0)
            is_unwritten = last is None or (self._last is SegmentCause.CLOSED and last.end == SEGMENT_HEAD_BYTES)
            mine = head(SegmentCause.NEXT if is_unwritten else SegmentCause.TAKEN)
            content = mine if self.folder.create(name(*end), mine) else self._there(name(*end))
            self.add(*end, content)
            if content == mine:
                self._check()
                self.live[0].stray = self._stray
                return self.live

    def _there(self, of: str) -> bytes:
        stored = self.folder.get(of)
        if stored is None:
            raise _ChangedError
        return stored.content

    def _mark(self, segment: Segment) -> None:
        if (segment.number, segment.end) == self.at:
            segment.mark_end()

    def _check(self) -> None:
        for segment in self.live:
            if segment.number == self.at[0]:
                check_border(segment, self.at[1], f"{self.folder}/{segment.number:012d}")


def names_of(segment: Segment) -> list[str]:
    """Return the names of the objects that are deleted with a segment."""
    heads = [] if segment.is_fence else [name(segment.number - 1, segment.previous_end)]
    return [*segment.stray, *heads, *(name(segment.number, part) for part in segment.parts)]


def _grow(segment: Segment, content: bytes, chain: _Chain) -> None:
    """Add the records of an object to its segment."""
    segment.parts.append(segment.end)
    at = 0
    while at < len(content):
        try:
            parsed = record.parse_head(content, at, len(content))
        except BadRecordError as error:
            raise damaged(f"{chain.folder}/{name(segment.number, segment.parts[-1])}", at, str(error)) from error
        start = at + record.HEAD_BYTES
        key = content[start : start + parsed.key_bytes]
        if key:
            segment.keys.append((parsed.time_ms, key))
        at += parsed.size
        segment.grow(segment.end + parsed.size, parsed.rows, chain.is_end(key))
        if (segment.number, segment.end) == chain.at:
            segment.mark_end()


def _kind_of(content: bytes) -> SegmentCause | None:
    """Return the kind of a head; None: these are records."""
    if len(content) != _HEAD.size or not content.startswith(_MAGIC):
        return None
    return SegmentCause(_HEAD.unpack(content)[1])


def _fetched(folder: StoreFolder, listed: Sequence[Listed]) -> Iterator[tuple[str, bytes]]:
    """Yield objects with their contents in the order of their names, several of them fetched at the same time.

    Raises:
        _ChangedError: One does not exist any more.
    """
    unfetched = deque(sorted(entry for entry in listed if entry.name[:1].isdigit()))
    waiting: deque[tuple[Listed, Future[bytes]]] = deque()
    size = 0
    with ThreadPoolExecutor(_FETCHES) as pool:
        while unfetched or waiting:
            while unfetched and (
                not waiting or (len(waiting) < _FETCHES and size + unfetched[0].size_bytes <= _FETCHED_BYTES)
            ):
                entry = unfetched.popleft()
                size += entry.size_bytes
                waiting.append((entry, pool.submit(_content, folder, entry.name)))
            entry, future = waiting.popleft()
            size -= entry.size_bytes
            yield entry.name, future.result()


def _content(folder: StoreFolder, of: str) -> bytes:
    stored = folder.get(of)
    if stored is None:
        raise _ChangedError
    return stored.content
