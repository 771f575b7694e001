"""The log of accepted events: group commit by one thread, and an index for the planner."""

from __future__ import annotations

import enum
import errno
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from calve.errors import CalveError
from calve.observe.humanize import size as shown_size
from calve.observe.log import Log as LogLines
from calve.sources.log import record
from calve.sources.log.index import LogPosition, SegmentIndex
from calve.sources.log.record import SEGMENT_HEAD_BYTES, RecordEvents
from calve.sources.log.segment import Segment
from calve.sources.log.storage import storage_in
from calve.state.folder import StateFolder
from calve.stop_point import stop_at

__all__ = ["AppendOutcome", "Journal", "JournalEntry", "JournalKeys", "JournalLimits"]

_GROUP_BYTES = 16 << 20
"""The most bytes that share one fsync: limits the wait of the first entry, and the memory of all."""
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class AppendOutcome(enum.Enum):
    """The result of an entry's events."""

    KEPT = "kept"  # durable, now or earlier under the same key
    FULL = "full"  # there is no space; nothing of them is kept
    FAILED = "failed"  # the disk or the object store failed; it is unknown whether they are kept


@dataclass(eq=False)
class JournalEntry:
    """Events that wait for the disk together, e.g. those of one request.

    Attributes:
        key: What identifies the entry; an entry whose key is known is not written again. Empty: nothing does.
        headers: What the reader needs to know about the events.
        begins: Whether the entry begins a new segment.
    """

    events: RecordEvents
    key: bytes = b""
    headers: bytes = b""
    begins: bool = False
    outcome: AppendOutcome | None = None
    why: str = ""
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = record.packed_bytes(self.events, self.key, self.headers)


@dataclass(frozen=True)
class JournalLimits:
    """Bounds of the log, in bytes; `free_bytes` is of its disk, if it is on one."""

    log_bytes: int
    free_bytes: int
    segment_bytes: int = 128 << 20


class JournalKeys(Protocol):
    """The memory of the keys of entries; used by the log's thread only."""

    def __contains__(self, key: bytes) -> bool:
        """Return whether an entry with this key was written."""
        ...

    def add(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """Add the keys of written entries, with their times in epoch milliseconds."""
        ...

    def keep(self, keys: list[tuple[int, bytes]]) -> None:
        """Make the keys of a segment durable before it is deleted; may be repeated.

        Raises:
            OSError: They are not durable; the segment must stay.
            CalveError: The same.
        """
        ...


class Journal:
    """Keeps entries in segments under a folder, local or on an object store.

    One thread writes, rolls and deletes: it writes all waiting entries with one fsync, or as one object, and passes
    them to `answered`. `submit`, `withdraw` and `release` may be called from any thread.
    """

    def __init__(
        self, folder: StateFolder, index: SegmentIndex, keys: JournalKeys, limits: JournalLimits, pipeline: str = ""
    ) -> None:
        self._folder = folder
        self._index = index
        self._keys = keys
        self._limits = limits
        self._lines = LogLines(pipeline)
        self._tail = storage_in(folder).end(self._lines)
        self._waiting: deque[JournalEntry] = deque()
        self._released: LogPosition | None = None
        self._closing = self._ended = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="calve-log", daemon=True)
        self._answered: Callable[[list[JournalEntry]], None] = lambda entries: None

    def open(self, answered: Callable[[list[JournalEntry]], None]) -> None:
        """Continue after the end that the index found on disk, and start the thread.

        Raises:
            OSError: The log cannot be written.
        """
        self._answered = answered
        self._tail.open(self._index.last)
        self._index.add(self._tail.segment)
        self._thread.start()

    @property
    def overtaken(self) -> CalveError | None:
        """The error of a log on an object store that another driver has taken over."""
        return self._tail.overtaken

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def submit(self, entry: JournalEntry) -> None:
        """Submit an entry; `answered` gets it with its outcome."""
        with self._wake:
            self._waiting.append(entry)
            self._wake.notify()

    def withdraw(self, entry: JournalEntry) -> bool:
        """Withdraw an entry; return False if it is already being written, and so will be answered."""
        with self._wake, suppress(ValueError):
            self._waiting.remove(entry)
            return True
        return False

    def release(self, at: LogPosition) -> None:
        """Release everything before a position, because its events are committed.

        The thread deletes the segments a little later; after `close`, when the last batches are committed, they are
        deleted here.
        """
        with self._wake:
            if self._ended:
                self._delete_before(at)
                self._tail.close()
                return
            self._released = at
            self._wake.notify()

    def hurry(self) -> None:
        """Wait no longer for an object store that does not answer: the process ends."""
        self._tail.hurry()

    def close(self) -> None:
        """Write and delete everything that waits, and end the thread; may be called twice."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self.hurry()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._waiting or self._released or self._closing)
                if self._closing and not (self._waiting or self._released):
                    self._close()
                    self._ended = True
                    return
                group, released = self._next_group(), self._released
                self._released = None
            if group:
                self._settle(group)
                stop_at("log.after-append")
                self._answered(group)
            if released:
                self._delete_before(released)

    def _close(self) -> None:
        if (empty := self._tail.close()) is not None:
            self._index.add(empty)

    def _next_group(self) -> list[JournalEntry]:
        group: list[JournalEntry] = []
        size = 0
        while self._waiting and (not group or self._joins(size)):
            group.append(self._waiting.popleft())
            size += group[-1].size
        return group

    def _joins(self, size: int) -> bool:
        """Return whether the next entry can share the fsync of a group with so many bytes."""
        return not self._waiting[0].begins and size + self._waiting[0].size <= _GROUP_BYTES

    def _settle(self, group: list[JournalEntry]) -> None:
        """Set the outcome of every entry of a group."""
        try:
            self._tail.repair()
            self._write(self._admit(group))
            outcome, why = AppendOutcome.KEPT, ""
        except Exception as error:  # whatever the error is, no entry may wait forever
            outcome, why = self._after(error)
        for entry in group:
            if entry.outcome is None:
                entry.outcome, entry.why = outcome, why

    def _admit(self, group: list[JournalEntry]) -> list[JournalEntry]:
        """Select the entries to write: no duplicate keys, and only while there is space."""
        free, limits = self._tail.free_bytes(), self._limits
        room = min(limits.log_bytes - self._index.size_bytes, free - limits.free_bytes)
        why = f"the log of accepted events is full (max_log_bytes: {shown_size(limits.log_bytes)})"
        if room == free - limits.free_bytes:
            why = f"its disk is nearly full: {shown_size(free)} free (min_free_bytes: {shown_size(limits.free_bytes)})"
        admitted: list[JournalEntry] = []
        keys: set[bytes] = set()
        for entry in group:
            if entry.key and (entry.key in keys or entry.key in self._keys):
                continue
            if entry.size > room:
                entry.outcome, entry.why = AppendOutcome.FULL, why
                continue
            room -= entry.size
            keys.add(entry.key)
            admitted.append(entry)
        return admitted

    def _write(self, entries: list[JournalEntry]) -> None:
        if not entries:
            return
        size = sum(entry.size for entry in entries)
        is_full = self._tail.segment.end > self._limits.segment_bytes - size
        if self._tail.segment.end > SEGMENT_HEAD_BYTES and (is_full or entries[0].begins):
            self._index.add(self._tail.roll())
        durable, now = self._tail.segment.end, time.time_ns() // 1_000_000
        parts = [
            part for entry in entries for part in record.pack(entry.events, entry.key, entry.headers, durable, now)
        ]
        self._tail.write(b"".join(parts))
        self._keys.add([(now, entry.key) for entry in entries if entry.key])
        self._index.grow([(entry.size, entry.events.rows, entry.key) for entry in entries], now)

    def _after(self, error: Exception) -> tuple[AppendOutcome, str]:
        """Clean up after a failed write, so that a refusal is correct."""
        if isinstance(error, CalveError):
            return (
                AppendOutcome.FAILED,
                "another driver runs it by now" if self.overtaken else "the store does not answer",
            )
        self._lines.warning(f"log not written: {error!r}", folder=str(self._folder))
        try:
            self._tail.repair()
        except OSError:
            return AppendOutcome.FAILED, "the disk fails"
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            return AppendOutcome.FULL, "the disk is full"
        return AppendOutcome.FAILED, "the disk fails"

    def _delete_before(self, at: LogPosition) -> None:
        """Delete segments completely before a position, even the open one if all of it is done."""
        try:
            self._delete(self._index.before(at))
            if at == (self._tail.segment.number, self._tail.segment.end) and at.offset > SEGMENT_HEAD_BYTES:
                old = self._tail.segment
                self._index.add(self._tail.roll())
                self._delete([old])
        except (OSError, CalveError) as error:  # the next release tries again
            self._lines.warning(f"log not shortened: {error!r}", folder=str(self._folder))

    def _delete(self, segments: list[Segment]) -> None:
        for old in segments:
            self._keys.keep(old.keys)
            self._tail.delete(old)
            self._index.drop(old)
