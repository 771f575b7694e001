"""Changes of the log on executors: gathered by table, and what each means for rows with a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.errors import SourceError
from calve.sources.database.change import DELETE, INSERT, Change, Row
from calve.sources.database.metadata import Stamps
from calve.sources.database.stream_position import Transaction, unpack_runs
from calve.sources.database.table import DatabaseTable
from calve.sources.log import record

__all__ = ["Changes", "Decoded", "by_table", "effects"]

Numbers = npt.NDArray[np.int64]
_INSERTED, _UPDATED, _DELETED, _MOVED = range(4)
"""The kinds of rows in `Decoded`; the last one is the delete of the row with the old key of an UPDATE."""
_OPERATIONS = pa.array(["insert", "update", "delete", "delete"])
_OF_ROWS = pa.array(["insert", "insert", "delete", "delete"])
"""The operations on a table without a key: an update deletes the old row."""
_WORDS = pa.array(["insert", "update", "delete", "update"])
_TYPES = pa.array(["INSERT", "UPDATE_AFTER", "DELETE", "UPDATE_BEFORE"])
"""What `change_type` says, by kind, as in the changelogs of Iceberg."""
_OID_BYTES = 4


class Decoded(NamedTuple):
    """Rows of messages of a table.

    Attributes:
        values: The columns.
        messages: The number of the message of each row.
        kinds: What each is: 0 an insert, 1 an update, 2 a delete, 3 the delete of the old key of an update.
    """

    values: list[pa.Array]
    messages: Numbers
    kinds: Numbers


class Changes:
    """Messages of one table that become one batch.

    Attributes:
        messages: The messages (binary), in order.
        rows: How many they are; a message may have several rows.
        size_bytes: Their size.
    """

    def __init__(self, table: DatabaseTable) -> None:
        self.table = table
        self.messages: list[pa.Array] = []
        self.rows = self.size_bytes = 0
        self._transactions: list[Transaction] = []
        self._numbers: list[Numbers] = []

    def add(
        self, messages: pa.Array, transactions: Sequence[Transaction], numbers: Numbers, after: int | None = None
    ) -> None:
        """Add messages, each with the number of its transaction; None, or only those after a position."""
        if after is not None:
            is_later = np.array([transaction.commit > after for transaction in transactions])[numbers]
            messages, numbers = messages.filter(pa.array(is_later)), numbers[is_later]
        self.messages.append(messages)
        self._numbers.append(numbers + len(self._transactions))
        self._transactions += transactions
        self.rows += len(messages)
        self.size_bytes += messages.nbytes

    def stamps(self, decoded: Decoded, until: int) -> Stamps:
        """Return where rows come from. An insert up to `until` may already have been loaded, so it replaces."""
        numbers = np.concatenate(self._numbers)[decoded.messages]
        may_be_there = np.array([transaction.commit <= until for transaction in self._transactions])[numbers]
        kinds = np.where(may_be_there & (decoded.kinds == _INSERTED), _UPDATED, decoded.kinds)
        operations, words = _OPERATIONS.take(pa.array(kinds)), _WORDS.take(pa.array(decoded.kinds))
        if self.table.mirrors:
            operations = _OF_ROWS.take(pa.array(decoded.kinds))
        elif self.table.appends:
            operations = pa.repeat(pa.scalar("insert"), len(kinds))
        types = _TYPES.take(pa.array(decoded.kinds))
        return Stamps(operations, words, types, self._transactions, numbers)


def by_table(
    head: record.RecordHead, body: memoryview, oid_at: int
) -> Iterator[tuple[int, pa.Array, list[Transaction], Numbers]]:
    """Yield the messages of an entry of the log by table: its number, they, and the number of the transaction of each.

    Args:
        head: The head of the entry.
        body: Everything after it.
        oid_at: Where messages have the number of their table.
    """
    at = len(body) - head.data_bytes
    ends = np.zeros(head.rows + 1, np.int32)
    np.cumsum(np.frombuffer(body[at - 4 * head.rows : at], "<u4"), out=ends[1:])
    data = np.frombuffer(body[at:], np.uint8)
    messages = pa.Array.from_buffers(pa.binary(), head.rows, [None, pa.py_buffer(ends), pa.py_buffer(data)])
    runs = unpack_runs(bytes(body[head.key_bytes : head.key_bytes + head.headers_bytes]))
    transactions = [run.transaction for run in runs]
    numbers = np.repeat(np.arange(len(runs)), [run.count for run in runs])
    oids = np.zeros(head.rows, np.int64)
    for place in range(_OID_BYTES):
        oids = oids << 8 | data[ends[:-1] + (oid_at + place)]
    for oid in np.unique(oids).tolist():
        chosen = oids == oid
        yield oid, messages if chosen.all() else messages.filter(pa.array(chosen)), transactions, numbers[chosen]


def effects(change: Change, table: DatabaseTable) -> Iterator[tuple[int, Row]]:
    """Yield what a change means for rows with a key: kinds as in `Decoded`. A new key is a delete of the old row.

    Of a table without a key old rows are whole, and each update has one.

    Raises:
        SourceError: The change has no row.
    """
    if change.kind == DELETE:
        yield _DELETED, (change.old or []) if table.appends else _only(change.old, table.keys)
        return
    if change.new is None:
        raise SourceError("a change without a row", step="read", target=table.full_name)
    if change.kind == INSERT:
        yield _INSERTED, change.new
        return
    if table.appends:
        yield _MOVED, change.old or []
    elif change.old is not None and any(change.old[index] != change.new[index] for index in table.keys):
        yield _MOVED, _only(change.old, table.keys)
    yield _UPDATED, change.new


def _only(row: Row | None, keys: tuple[int, ...]) -> Row:
    """Return a row with its key alone."""
    if isinstance(row, bytes):
        return row
    values = row or []
    return [value if index in keys else None for index, value in enumerate(values)]
