"""Reads the messages of `pgoutput` (protocol version 1, text), the plugin for logical replication.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from calve.sources.database.change import DELETE, Change, Values
from calve.sources.database.stream_position import Transaction

__all__ = [
    "UNCHANGED",
    "Relation",
    "RelationColumn",
    "begin",
    "change",
    "commit_end",
    "packed",
    "packed_change",
    "relation",
    "truncated",
    "unpacked",
    "with_values",
]

UNCHANGED = False
"""The value of a large column that the server leaves out, because it did not change (TOAST)."""
_EPOCH_MICROSECONDS = 946_684_800_000_000
_NULL, _TEXT, _TOAST = ord("n"), ord("t"), ord("u")
_KEY, _NEW = ord("K"), ord("N")
_KEY_OR_OLD = (_KEY, ord("O"))
_USHORT, _UINT, _INT = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">i")
_BEGIN, _LSN = struct.Struct(">QqI"), struct.Struct(">Q")


class RelationColumn(NamedTuple):
    """A column of a relation, as the stream describes it."""

    name: str
    oid: int
    modifier: int
    in_identity: bool


@dataclass(frozen=True)
class Relation:
    """The description of a table whose changes follow."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]

    @property
    def sent(self) -> frozenset[str] | None:
        """The columns that old rows have; None: all."""
        return None if self.identity == "f" else frozenset(column.name for column in self.columns if column.in_identity)


def begin(message: bytes) -> Transaction:
    """Read the message `B`."""
    lsn, time, xid = _BEGIN.unpack_from(message, 1)
    return Transaction(lsn, time + _EPOCH_MICROSECONDS, str(xid))


def commit_end(message: bytes) -> int:
    """Read the message `C`: return the position after the transaction."""
    return int(_LSN.unpack_from(message, 10)[0])


def relation(message: bytes) -> Relation:
    """Read the message `R`."""
    oid = _UINT.unpack_from(message, 1)[0]
    schema, at = _string(message, 5)
    name, at = _string(message, at)
    identity, count = chr(message[at]), _USHORT.unpack_from(message, at + 1)[0]
    at += 3
    columns = []
    for _ in range(count):
        flags = message[at]
        column, at = _string(message, at + 1)
        kind, modifier = _UINT.unpack_from(message, at)[0], _INT.unpack_from(message, at + 4)[0]
        columns.append(RelationColumn(column, kind, modifier, bool(flags & 1)))
        at += 8
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def truncated(message: bytes) -> list[int]:
    """Read the message `T`: return the tables."""
    count = _UINT.unpack_from(message, 1)[0]
    return [_UINT.unpack_from(message, 6 + 4 * index)[0] for index in range(count)]


def change(message: bytes) -> Change:
    """Read the messages `I`, `U` and `D`."""
    kind, oid = message[:1], _UINT.unpack_from(message, 1)[0]
    old: Values | None = None
    at = 5
    if message[at] in _KEY_OR_OLD:
        old, at = _values(message, at + 1)
    new = _values(message, at + 1)[0] if kind != DELETE else None
    return Change(kind, oid, old, new)


def packed_change(message: bytes) -> Change:
    """Read the messages `I`, `U` and `D`, with rows as they are packed, unless the old one and the new one differ."""
    kind, row = message[:1], message[5]
    if row == _NEW:
        return Change(kind, _UINT.unpack_from(message, 1)[0], None, message[6:])
    if row == _KEY and kind == DELETE:
        return Change(kind, _UINT.unpack_from(message, 1)[0], message[6:], None)
    return change(message)


def with_values(message: bytes, new: Values) -> bytes:
    """Return an update with another new row."""
    at = 5
    if message[at] in _KEY_OR_OLD:
        _, at = _values(message, at + 1)
    return message[: at + 1] + packed(new)


def packed(row: Values) -> bytes:
    """Return a row as the stream has it."""
    parts = [_USHORT.pack(len(row))]
    for value in row:
        if isinstance(value, bytes):
            parts += [b"t", _UINT.pack(len(value)), value]
        else:
            parts.append(b"n" if value is None else b"u")
    return b"".join(parts)


def unpacked(row: bytes) -> Values:
    """Read the result of `packed`."""
    return _values(row, 0)[0]


def _values(message: bytes, at: int) -> tuple[Values, int]:
    count = _USHORT.unpack_from(message, at)[0]
    at += 2
    values: Values = []
    for _ in range(count):
        kind = message[at]
        at += 1
        if kind == _TEXT:
            end = at + 4 + _UINT.unpack_from(message, at)[0]
            values.append(message[at + 4 : end])
            at = end
        elif kind == _NULL:
            values.append(None)
        elif kind == _TOAST:
            values.append(UNCHANGED)
        else:
            raise ValueError(f"a value of an unknown kind {kind}")
    return values, at


def _string(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1
