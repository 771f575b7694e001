"""Reads the events of the binary log of MySQL and MariaDB.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html;
https://mariadb.com/kb/en/replication-protocol/
"""

from __future__ import annotations

import struct
import uuid
import zlib
from typing import NamedTuple

from calve.sources.database.change import DELETE, INSERT, UPDATE
from calve.sources.mysql.protocol.compressed import inflated
from calve.sources.mysql.protocol.wire import read_length

__all__ = [
    "PARTIAL",
    "BinlogEvent",
    "Query",
    "Rows",
    "gtid",
    "has_checksum",
    "parse",
    "previous_gtids",
    "query",
    "rotated",
    "rows",
]

QUERY, ROTATE, FORMAT, XID, HEARTBEAT, TABLE_MAP = 2, 4, 15, 16, 27, 19
INCIDENT, XA_PREPARE, PAYLOAD = 26, 38, 40
_LOAD_QUERY, _COMPRESSED_QUERY = 18, 165
QUERIES = (QUERY, _LOAD_QUERY, _COMPRESSED_QUERY)
_PARTIAL_UPDATE, _COMPRESSED_ROWS = 39, range(166, 172)
PARTIAL = b"P"
"""An UPDATE whose new rows have only the changed parts of JSON values."""
CHANGES = {
    **dict.fromkeys((23, 30, 166, 169), INSERT),
    **dict.fromkeys((24, 31, 167, 170), UPDATE),
    **dict.fromkeys((25, 32, 168, 171), DELETE),
    _PARTIAL_UPDATE: PARTIAL,
}
"""What rows are, by the kind of their event."""
GTID, ANONYMOUS, TAGGED, MARIADB_GTID = 33, 34, 42, 162
PREVIOUS_GTIDS = 35
BEGINS = (GTID, ANONYMOUS, TAGGED, MARIADB_GTID)
"""Kinds of events that begin transactions."""
_HEAD = struct.Struct("<IBIIIH")
_CHECKSUM_BYTES = 4
_QUERY_HEAD = struct.Struct("<IIBHH")
_CLIENT, _MODE, _STATUS_BYTES = 4, 1, {0: 5, 1: 9, 3: 5, 6: 0}
"""The codes of the session's character sets and SQL mode, and the sizes of the variables before; 0: a text."""
_LOAD_HEAD_BYTES = 13
"""What the query of a LOAD DATA has besides."""
_ROW_HEAD_BYTES = 8
_SECOND_VERSION = frozenset({30, 31, 32, _PARTIAL_UPDATE, 169, 170, 171})
_COMMIT_TIME_AT, _COMMIT_TIME_BITS = 42, 55


class BinlogEvent(NamedTuple):
    """One event; `end` is the position after it, 0 for events that are in no file."""

    kind: int
    seconds: int
    server_id: int
    end: int
    size: int
    body: bytes


class Query(NamedTuple):
    """A statement in the log, with its session's `collation`, whose character set the text has, and `sql_mode`.

    Both are 0 if the log does not have them.
    """

    database: str
    text: bytes
    collation: int
    sql_mode: int


class Rows(NamedTuple):
    """Rows of a table, one after the other.

    Attributes:
        table: The table's number in the log.
        columns: Which columns rows have, by the place of a bit; of an UPDATE first the old, then the new ones.
        data: The rows, and `is_compressed` whether these bytes are.
    """

    table: bytes
    columns: tuple[int, ...]
    data: bytes
    is_compressed: bool

    @property
    def plain(self) -> bytes:
        """The rows.

        Raises:
            ValueError: They cannot be decompressed.
        """
        return inflated(self.data) if self.is_compressed else self.data


def parse(data: bytes, is_checked: bool) -> BinlogEvent:
    """Read the head of an event.

    Args:
        data: The event.
        is_checked: Whether it ends with a checksum.

    Raises:
        ValueError: The checksum does not fit.
    """
    seconds, kind, server, size, end, _ = _HEAD.unpack_from(data)
    if is_checked and kind != FORMAT:
        checksum = int.from_bytes(data[-_CHECKSUM_BYTES:], "little")
        data = data[:-_CHECKSUM_BYTES]
        if zlib.crc32(data) != checksum:
            raise ValueError(f"the checksum of an event that ends at {end} does not fit")
    return BinlogEvent(kind, seconds, server, end, size, data[_HEAD.size :])


def has_checksum(event: BinlogEvent) -> bool:
    """Read a FORMAT event: return whether the events after it have a checksum."""
    return event.body[-_CHECKSUM_BYTES - 1] == 1


def rotated(event: BinlogEvent) -> tuple[str, int]:
    """Read a ROTATE event: return the next file, and the position in it."""
    return event.body[8:].decode(), int.from_bytes(event.body[:8], "little")


def gtid(event: BinlogEvent) -> tuple[str, int]:
    """Read the event that begins a transaction: return its GTID (empty without one), and its time in microseconds."""
    body = event.body
    if event.kind == MARIADB_GTID:
        number, domain = struct.unpack_from("<QI", body)
        return f"{domain}-{event.server_id}-{number}", event.seconds * 1_000_000
    time = event.seconds * 1_000_000
    if event.kind in (GTID, ANONYMOUS) and len(body) >= _COMMIT_TIME_AT + 7:
        time = int.from_bytes(body[_COMMIT_TIME_AT : _COMMIT_TIME_AT + 7], "little") & ((1 << _COMMIT_TIME_BITS) - 1)
    if event.kind != GTID:
        return "", time
    return f"{uuid.UUID(bytes=body[1:17])}:{int.from_bytes(body[17:25], 'little')}", time


def previous_gtids(event: BinlogEvent) -> str:
    """Read a PREVIOUS_GTIDS event: return the set of all transactions in the files before; empty also with tags."""
    body, at, parts = event.body, 8, []
    count = int.from_bytes(body[:8], "little")
    if count >> 56:  # the format with tags
        return ""
    for _ in range(count):
        source, intervals = uuid.UUID(bytes=body[at : at + 16]), int.from_bytes(body[at + 16 : at + 24], "little")
        at += 24
        ends = struct.unpack_from(f"<{2 * intervals}Q", body, at)
        at += 16 * intervals
        parts.append(
            ":".join([str(source), *(f"{start}-{end - 1}" for start, end in zip(ends[::2], ends[1::2], strict=True))])
        )
    return ",".join(parts)


def query(event: BinlogEvent) -> Query:
    """Read an event with a statement.

    Raises:
        ValueError: It cannot be decompressed.
    """
    _, _, database, _, status = _QUERY_HEAD.unpack_from(event.body)
    start = _QUERY_HEAD.size + (_LOAD_HEAD_BYTES if event.kind == _LOAD_QUERY else 0)
    at = start + status
    name = event.body[at : at + database].decode("utf-8", "replace")
    text = event.body[at + database + 1 :]
    text = inflated(text) if event.kind == _COMPRESSED_QUERY else text
    return Query(name, text, *_session(event.body[start:at]))


def _session(status: bytes) -> tuple[int, int]:
    """Return the collation and the SQL mode of the session; the variables before them are always in this order."""
    at = mode = 0
    while at < len(status):
        code = status[at]
        if code == _CLIENT:
            return int.from_bytes(status[at + 1 : at + 3], "little"), mode
        if code not in _STATUS_BYTES:
            break
        if code == _MODE:
            mode = int.from_bytes(status[at + 1 : at + 9], "little")
        at += _STATUS_BYTES[code] or 2 + status[at + 1]
    return 0, mode


def rows(event: BinlogEvent) -> Rows:
    """Read the head of an event with rows."""
    body = event.body
    at = _ROW_HEAD_BYTES
    if event.kind in _SECOND_VERSION:
        at += int.from_bytes(body[at : at + 2], "little")
    count, at = read_length(body, at)
    size = (count + 7) // 8
    images = 2 if CHANGES[event.kind] in (UPDATE, PARTIAL) else 1
    parts = [body[at + number * size : at + (number + 1) * size] for number in range(images)]
    every = (1 << count) - 1
    columns = tuple(int.from_bytes(part, "little") & every for part in parts)
    return Rows(body[:6], columns, body[at + images * size :], event.kind in _COMPRESSED_ROWS)
