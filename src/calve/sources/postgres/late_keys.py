"""Reduces a transaction to one change for each key, for tables that may have a key twice until it ends.

A deferrable primary key is checked at the end of a statement or transaction, so `UPDATE t SET id = id + 1` makes a new
row 2 before it takes the old row 2 away. Which of two rows with one key is gone only their other columns tell: such
tables have REPLICA IDENTITY FULL. Whatever the order was, of each key remains the row that was added once more than it
was removed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from calve.sources.database.change import DELETE, INSERT, UPDATE, Values
from calve.sources.postgres.large import from_old
from calve.sources.postgres.protocol import pgoutput

__all__ = ["LateKeys"]

_OLD = (b"K", b"O")
_SCHEMA = """
create table net (key blob, row blob, count integer, place integer, primary key (key, row)) without rowid
"""
_ADD = """
insert into net values (?, ?, ?, ?) on conflict (key, row) do update set count = count + excluded.count
"""
_NET = """
select key, max(case when count > 0 then row end), sum(count) from net group by key order by min(place)
"""


class LateKeys:
    """The changes of one table in one transaction; on disk where they are many.

    Args:
        oid: The table.
        keys: The positions of the columns of its key.
        width: How many columns it has.
    """

    def __init__(self, oid: int, keys: Sequence[int], width: int) -> None:
        self._head = oid.to_bytes(4, "big")
        self._keys, self._width = keys, width
        self._rows = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._rows.execute(_SCHEMA)
        self._place = 0

    def add(self, message: bytes) -> bool:
        """Add a change; return False if it has no old row, because the key was not checked late then.

        Partitions send whole old rows as keys, if the table that they are part of has another replica identity.
        """
        change = pgoutput.change(message)
        if change.kind != INSERT and message[5:6] not in _OLD:
            return False
        if change.old is not None:
            self._count(list(change.old), -1)
        if change.new is not None:
            self._count(from_old(change), 1)
        return True

    def settled(self) -> Iterator[bytes]:
        """Yield what remains of the changes, in an order that depends on them alone; then there are none."""
        if not self._place:
            return
        for key, row, count in self._rows.execute(_NET):
            if row is not None:
                yield (INSERT if count else UPDATE) + self._head + b"N" + row
            elif count:
                yield DELETE + self._head + b"K" + self._only(key)
        self._rows.execute("delete from net")
        self._place = 0

    def _count(self, row: Values, count: int) -> None:
        self._place += 1
        key = pgoutput.packed([row[index] for index in self._keys])
        self._rows.execute(_ADD, (key, pgoutput.packed(row), count, self._place))

    def _only(self, key: bytes) -> bytes:
        values: Values = [None] * self._width
        for index, value in zip(self._keys, pgoutput.unpacked(key), strict=True):
            values[index] = value
        return pgoutput.packed(values)
