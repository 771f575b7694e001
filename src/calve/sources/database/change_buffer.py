"""Changes that are not durable yet, and the durable log that takes them, one entry after the other."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from calve.errors import SourceError
from calve.sources.database.stream_position import DurablePositions, Run, StreamPosition, Transaction, pack_runs
from calve.sources.log.log import AppendOutcome, Journal, JournalEntry
from calve.sources.log.record import RecordEvents

__all__ = ["Block", "ChangeBuffer", "TransactionEnds", "Waiter"]

_ENTRY_BYTES = 1 << 20
"""About the most bytes of an entry; an entry is the smallest unit of a split."""
_ENTRY_ROWS = 20_000
_ENTRY_SECONDS = 0.05
"""How long changes wait for others of their entry: each entry is an fsync."""
_BUSY_TIMES = 8
"""So many times larger an entry becomes while the one before is not durable, because the disk is slow."""
_LENGTH = struct.Struct("<I")
_WAIT_SECONDS = 1.0


class Waiter:
    """Answers of the log's thread, waited for by the stream's thread; one entry at a time is under way."""

    def __init__(self) -> None:
        self._done = threading.Event()

    def answered(self, entries: list[JournalEntry]) -> None:
        """Take the answer (the log's thread)."""
        self._done.set()

    def submit(self, log: Journal, entry: JournalEntry) -> None:
        """Submit an entry."""
        self._done.clear()
        log.submit(entry)

    def wait(self, log: Journal, entry: JournalEntry) -> AppendOutcome:
        """Wait for the outcome of the submitted entry."""
        while not self._done.wait(_WAIT_SECONDS):
            if not log.alive:
                raise SourceError(
                    "the log of changes has ended by itself", step="read", hint="Start the pipeline again"
                )
        return entry.outcome or AppendOutcome.FAILED


@dataclass(frozen=True)
class Block:
    """Messages of one table that follow each other.

    Attributes:
        data: The messages, joined.
        lengths: Their lengths, as the log has them.
    """

    data: bytes
    lengths: bytes

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.lengths) // _LENGTH.size

    def messages(self) -> Iterator[bytes]:
        """Yield the messages."""
        at = 0
        for (length,) in _LENGTH.iter_unpack(self.lengths):
            yield self.data[at : at + length]
            at += length

    def last(self, count: int) -> Block:
        """Return the last messages, at most so many."""
        if count >= self.count:
            return self
        lengths = self.lengths[(self.count - count) * _LENGTH.size :]
        size = sum(length for (length,) in _LENGTH.iter_unpack(lengths))
        return Block(self.data[len(self.data) - size :], lengths)


class TransactionEnds(Protocol):
    """The log, if batches end where transactions end."""

    positions: DurablePositions

    def check_room(self, size: int) -> None:
        """Check that the log will have room for an entry that it had no room for.

        Raises:
            SourceError: It is full of one transaction that has not ended.
        """
        ...


class ChangeBuffer:
    """Collects changes of the stream into an entry of the log, while the one before becomes durable.

    With `ends` an entry tells whether its last transaction goes on in the next one. If the end comes when all changes
    are durable, an entry without changes tells it.

    Args:
        log: Where they become durable.
        waiter: Gets the log's answers.
        ends: What notes the ends of transactions; None: nothing does.
    """

    def __init__(self, log: Journal, waiter: Waiter, ends: TransactionEnds | None = None) -> None:
        self._log = log
        self._waiter = waiter
        self._ends = ends
        self._begins = True  # an earlier run may have ended just after an epoch began
        self.messages: list[bytes] = []
        self._lengths: list[bytes | None] = []
        self._count = self._size = 0
        self._since = 0.0
        self._runs: list[Run] = []
        self._last = (0, 0)
        self._is_open = self._has_end = False
        self._under_way: JournalEntry | None = None

    def __bool__(self) -> bool:
        """Whether something is not durable."""
        return self._is_waiting or self._under_way is not None

    @property
    def _is_waiting(self) -> bool:
        return bool(self.messages) or self._has_end

    @property
    def is_full(self) -> bool:
        """Whether it is time to write."""
        times = 1 if self._under_way is None or self._under_way.outcome else _BUSY_TIMES
        is_large = self._size >= times * _ENTRY_BYTES or self._count >= times * _ENTRY_ROWS
        return is_large or (self._count > 0 and time.monotonic() > self._since + times * _ENTRY_SECONDS)

    def begin_epoch(self) -> None:
        """Let the next entry begin a segment; nothing may wait."""
        self._begins = True

    def add(self, message: bytes, transaction: Transaction, ordinal: int) -> int:
        """Add a change; return its position in `messages`, where it may be replaced."""
        self._add(message, None, 1, transaction)
        self._last = (transaction.commit, ordinal)
        return len(self.messages) - 1

    def add_block(self, block: Block, transaction: Transaction, ordinal: int) -> None:
        """Add changes, the last of which has this number in its transaction."""
        self._add(block.data, block.lengths, block.count, transaction)
        self._last = (transaction.commit, ordinal)

    def _add(self, data: bytes, lengths: bytes | None, count: int, transaction: Transaction) -> None:
        if self._runs and self._runs[-1].transaction.commit == transaction.commit:
            self._runs[-1].count += count
        else:
            self._runs.append(Run(count, transaction))
        self._since = self._since if self.messages else time.monotonic()
        self.messages.append(data)
        self._lengths.append(lengths)
        self._count += count
        self._size += len(data)
        self._is_open = self._ends is not None

    def end(self, transaction: Transaction) -> None:
        """Note that all changes of a transaction were added, or are durable."""
        if self._ends is None:
            return
        durable = self._ends.positions.last
        if not self.messages and durable.is_open and durable.commit == transaction.commit:
            self._last, self._has_end = durable.order, True
        self._is_open = False

    def write(self, epoch: int, idle: Callable[[AppendOutcome, str], None]) -> None:
        """Make everything durable; as long as the disk refuses, call `idle` and try again.

        Raises:
            SourceError: The log has ended, or is full of one transaction.
            OvertakenError: Another driver has the log by now.
        """
        self.hand_over(epoch, idle)
        self._settle(idle)

    def hand_over(self, epoch: int, idle: Callable[[AppendOutcome, str], None]) -> None:
        """Let the log make everything durable, after what was handed over before: that is durable on return.

        With `ends` all is durable on return. Raises as `write`.
        """
        self._settle(idle)
        if not self._is_waiting:
            return
        entries = zip(self.messages, self._lengths, strict=True)
        lengths = b"".join(_LENGTH.pack(len(data)) if lengths is None else lengths for data, lengths in entries)
        events = RecordEvents(self._count, lengths, b"".join(self.messages))
        key, headers = StreamPosition(epoch, *self._last, self._is_open).packed(), pack_runs(self._runs)
        self._submit(JournalEntry(events, key, headers, self._begins))
        self._begins = False
        self._forget()
        if self._ends is not None:
            self._settle(idle)

    def clear(self) -> None:
        """Forget what is not durable: the server sends it again. What is under way gets its outcome first."""
        if self._under_way is not None:
            outcome = self._waiter.wait(self._log, self._under_way)
            self._begins |= self._under_way.begins and outcome is not AppendOutcome.KEPT
            self._under_way = None
        self._forget()

    def _submit(self, entry: JournalEntry) -> None:
        self._under_way = entry
        self._waiter.submit(self._log, entry)

    def _settle(self, idle: Callable[[AppendOutcome, str], None]) -> None:
        """Wait until what is under way is durable."""
        while (entry := self._under_way) is not None:
            outcome = self._waiter.wait(self._log, entry)
            if outcome is AppendOutcome.KEPT:
                self._under_way = None
                return
            if self._log.overtaken is not None:
                raise self._log.overtaken
            if outcome is AppendOutcome.FULL and self._ends is not None:
                self._ends.check_room(entry.size)
            idle(outcome, entry.why)
            self._submit(JournalEntry(entry.events, entry.key, entry.headers, entry.begins))

    def _forget(self) -> None:
        self.messages, self._lengths, self._count, self._size, self._runs = [], [], 0, 0, []
        self._is_open = self._has_end = False
