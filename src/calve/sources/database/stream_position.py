"""Positions in the stream of changes, and the memory of the last one that is durable."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from calve.sources.source_files import FilesAt, encoded, files_in, read_json

__all__ = ["DurablePositions", "Run", "StreamPosition", "Transaction", "pack_runs", "unpack_runs"]

_POSITION = struct.Struct(">IQQ")
_OPEN = b"\1"
_LAST, _SEEN = "last.json", "seen.json"
_RUN = struct.Struct(">IQqH")


class Transaction(NamedTuple):
    """A transaction of the stream.

    Attributes:
        commit: Its position: every transaction has another one, and they only grow.
        time: When it was committed, in microseconds since 1970.
        id: What the database calls it.
    """

    commit: int
    time: int
    id: str


class StreamPosition(NamedTuple):
    """The position of a change: unique, and growing from change to change.

    Databases do not give every change a position of its own, so that of the transaction and the number of the change
    in it are used.

    Attributes:
        epoch: The number of the descriptions of the tables; it is no part of the order.
        commit: The position of the transaction.
        ordinal: The number of the change in its transaction, from 1.
        is_open: Whether the transaction goes on in the next entry of the log; noted only with `transactional`.
    """

    epoch: int
    commit: int
    ordinal: int
    is_open: bool = False

    def packed(self) -> bytes:
        """Return it as the key of an entry of the log."""
        return _POSITION.pack(*self[:3]) + (_OPEN if self.is_open else b"")

    @staticmethod
    def of(key: bytes) -> StreamPosition:
        """Read the result of `packed`."""
        epoch, commit, ordinal = _POSITION.unpack_from(key)
        return StreamPosition(epoch, commit, ordinal, len(key) > _POSITION.size)

    @property
    def order(self) -> tuple[int, int]:
        """What is compared."""
        return self.commit, self.ordinal


@dataclass(slots=True)
class Run:
    """Changes of one transaction that are together in an entry of the log; `count` is how many."""

    count: int
    transaction: Transaction


def pack_runs(runs: Iterable[Run]) -> bytes:
    """Return runs as the headers of an entry of the log."""
    parts = []
    for run in runs:
        name = run.transaction.id.encode()
        parts += [_RUN.pack(run.count, run.transaction.commit, run.transaction.time, len(name)), name]
    return b"".join(parts)


def unpack_runs(headers: bytes) -> list[Run]:
    """Read the result of `pack_runs`."""
    runs, at = [], 0
    while at < len(headers):
        count, commit, time, size = _RUN.unpack_from(headers, at)
        at += _RUN.size + size
        runs.append(Run(count, Transaction(commit, time, headers[at - size : at].decode())))
    return runs


class DurablePositions:
    """The last durable position, also after the log's segments are deleted (`log.JournalKeys`).

    Args:
        folder: The source's files, where the position of deleted segments is kept.
    """

    def __init__(self, folder: FilesAt) -> None:
        self.files = files_in(folder)
        self.last = StreamPosition(0, 0, 0)

    def load(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """Find the last position: that of the log's entries, or of deleted ones."""
        for name in (_LAST, _SEEN):
            if (kept := read_json(self.files, name)) is not None:
                self.last = max(self.last, StreamPosition(*kept[:3]), key=_order)
        self.add(keys)

    def __contains__(self, key: bytes) -> bool:
        """Return False: the stream itself leaves out what is durable."""
        return False

    def add(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """Add the positions of durable entries; of two that are the same, the later one says whether it is open."""
        for _, key in keys:
            self.last = max(StreamPosition.of(key), self.last, key=_order)

    def keep(self, keys: list[tuple[int, bytes]]) -> None:
        """Write down the last position before entries are deleted."""
        if keys:
            self.files.write(_LAST, encoded(self.last[:3]))

    def advance(self, commit: int) -> None:
        """Write down that everything before a position was seen, also what is in no entry; nothing may wait."""
        seen = StreamPosition(self.last.epoch, commit, 0)
        if seen.order > self.last.order:
            self.files.write(_SEEN, encoded(seen[:3]))
            self.last = seen


def _order(position: StreamPosition) -> tuple[int, int]:
    return position.order
