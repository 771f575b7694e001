"""Reads the events of the binary log of MySQL and MariaDB.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html;
https://mariadb.com/kb/en/replication-protocol/
"""

from __future__ import annotations

import struct
import uuid
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from calve.sources.mysql.wire import read_length

__all__ = [
    "ENUM",
    "SET",
    "YEAR",
    "Event",
    "Mapped",
    "MappedColumn",
    "Query",
    "gtid",
    "has_checksum",
    "layout_columns",
    "mapped",
    "parse",
    "previous_gtids",
    "query",
    "rotated",
    "rows",
]

QUERY, ROTATE, FORMAT, XID, HEARTBEAT, TABLE_MAP = 2, 4, 15, 16, 27, 19
INSERTS, UPDATES, DELETES = (23, 30), (24, 31), (25, 32)
GTID, ANONYMOUS, TAGGED, MARIADB_GTID = 33, 34, 42, 162
PREVIOUS_GTIDS = 35
BEGINS = (GTID, ANONYMOUS, TAGGED, MARIADB_GTID)
"""Kinds of events that begin transactions."""
REFUSED = {
    20: "events of MySQL 5.1",
    21: "events of MySQL 5.1",
    22: "events of MySQL 5.1",
    38: "an XA transaction",
    39: "partial JSON updates (set binlog_row_value_options = '')",
    40: "compressed transactions (set binlog_transaction_compression = OFF)",
    165: "compressed events (set log_bin_compress = OFF)",
    166: "compressed events (set log_bin_compress = OFF)",
    167: "compressed events (set log_bin_compress = OFF)",
    168: "compressed events (set log_bin_compress = OFF)",
    169: "compressed events (set log_bin_compress = OFF)",
    170: "compressed events (set log_bin_compress = OFF)",
    171: "compressed events (set log_bin_compress = OFF)",
}
"""Kinds of events that have changes, or may have, and are not read."""
_HEAD = struct.Struct("<IBIIIH")
_CHECKSUM_BYTES = 4
_QUERY_HEAD = struct.Struct("<IIBHH")
_CLIENT, _MODE, _STATUS_BYTES = 4, 1, {0: 5, 1: 9, 3: 5, 6: 0}
"""The codes of the session's character sets and SQL mode, and the sizes of the variables before; 0: a text."""
_ROW_HEAD_BYTES = 8
_SECOND_VERSION = 30
_COMMIT_TIME_AT, _COMMIT_TIME_BITS = 42, 55
_SIGNS, _CHARSET, _CHARSETS, _NAMES, _SETS, _ENUMS, _KEY, _PREFIX_KEY, _ENUM_CHARSET, _ENUM_CHARSETS = (
    1,
    2,
    3,
    4,
    5,
    6,
    8,
    9,
    10,
    11,
)
_META_BYTES = {4: 1, 5: 1, 15: 2, 16: 2, 17: 1, 18: 1, 19: 1, 242: 1, 245: 1, 246: 2, 252: 1, 253: 2, 254: 2, 255: 1}
_NUMBERS = frozenset({1, 2, 3, 4, 5, 8, 9, 246})
_TEXTS = frozenset({15, 252, 253, 254})
_STRING, ENUM, SET, YEAR = 254, 247, 248, 13
_MARIADB_NUMBERS, _MARIADB_TEXTS = _NUMBERS | {YEAR}, _TEXTS | {255}


class Event(NamedTuple):
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


class MappedColumn(NamedTuple):
    """A column as the log describes it: `kind` and `meta` are its type there, `collation` a number.

    Without `binlog_row_metadata = FULL` it has no name, and what the log does not say is None or empty.
    """

    name: str
    kind: int
    meta: bytes
    is_unsigned: bool | None
    collation: int | None
    labels: tuple[bytes, ...]
    is_key: bool


@dataclass(frozen=True)
class Mapped:
    """The description of a table that comes before its rows.

    Attributes:
        layout: What is needed to read rows: the number of columns, their types and what belongs to these.
        columns: Its columns.
    """

    id: bytes
    database: str
    table: str
    layout: bytes
    columns: tuple[MappedColumn, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the log describes the columns completely (`binlog_row_metadata = FULL`)."""
        return all(column.name for column in self.columns)


def parse(data: bytes, is_checked: bool) -> Event:
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
    return Event(kind, seconds, server, end, size, data[_HEAD.size :])


def has_checksum(event: Event) -> bool:
    """Read a FORMAT event: return whether the events after it have a checksum."""
    return event.body[-_CHECKSUM_BYTES - 1] == 1


def rotated(event: Event) -> tuple[str, int]:
    """Read a ROTATE event: return the next file, and the position in it."""
    return event.body[8:].decode(), int.from_bytes(event.body[:8], "little")


def gtid(event: Event) -> tuple[str, int]:
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


def previous_gtids(event: Event) -> str:
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
            ":".join([str(source), *(f"{one}-{end - 1}" for one, end in zip(ends[::2], ends[1::2], strict=True))])
        )
    return ",".join(parts)


def query(event: Event) -> Query:
    """Read a QUERY event."""
    _, _, database, _, status = _QUERY_HEAD.unpack_from(event.body)
    at = _QUERY_HEAD.size + status
    name = event.body[at : at + database].decode("utf-8", "replace")
    return Query(name, event.body[at + database + 1 :], *_session(event.body[_QUERY_HEAD.size : at]))


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


def rows(event: Event) -> tuple[bytes, bytes, bool]:
    """Read the head of a ROWS event: return the table's id, the rows, and whether these have all columns."""
    body = event.body
    at = _ROW_HEAD_BYTES
    if event.kind >= _SECOND_VERSION:
        at += int.from_bytes(body[at : at + 2], "little")
    count, at = read_length(body, at)
    size = (count + 7) // 8
    images = 2 if event.kind in UPDATES else 1
    sent = [int.from_bytes(body[at + number * size : at + (number + 1) * size], "little") for number in range(images)]
    every = (1 << count) - 1
    return body[:6], body[at + images * size :], all(one & every == every for one in sent)


def mapped(event: Event, is_mariadb: bool) -> Mapped:
    """Read a TABLE_MAP event; MariaDB gives years a sign, and geometries a character set."""
    body = event.body
    names = []
    at = _ROW_HEAD_BYTES
    for _ in range(2):
        end = at + 1 + body[at]
        names.append(body[at + 1 : end].decode())
        at = end + 1
    start = at
    count, at = read_length(body, at)
    types = body[at : at + count]
    size, at = read_length(body, at + count)
    metas = _metas(types, body[at : at + size])
    at += size
    layout = body[start:at]
    columns = _columns(types, metas, body[at + (count + 7) // 8 :], is_mariadb)
    return Mapped(body[:6], names[0], names[1], layout, columns)


def layout_columns(layout: bytes) -> list[tuple[int, bytes]]:
    """Return the real type of each column of `Mapped.layout`, and what belongs to it."""
    count, at = read_length(layout, 0)
    types = layout[at : at + count]
    _, start = read_length(layout, at + count)
    return [(_real(kind, meta), meta) for kind, meta in zip(types, _metas(types, layout[start:]), strict=True)]


def _metas(types: bytes, data: bytes) -> list[bytes]:
    found, at = [], 0
    for kind in types:
        size = _META_BYTES.get(kind, 0)
        found.append(data[at : at + size])
        at += size
    return found


def _real(kind: int, meta: bytes) -> int:
    """Return the type of a column; enumerations and sets are stored as strings of another real type."""
    return meta[0] if kind == _STRING and meta[0] in (ENUM, SET) else kind


def _columns(types: bytes, metas: list[bytes], data: bytes, is_mariadb: bool) -> tuple[MappedColumn, ...]:
    """Return the columns with what the server says besides."""
    fields = {}
    at = 0
    while at < len(data):
        size, start = read_length(data, at + 1)
        fields[data[at]] = data[start : start + size]
        at = start + size
    real = [_real(kind, meta) for kind, meta in zip(types, metas, strict=True)]
    names = [name.decode() for name in _strings(fields.get(_NAMES, bytes(len(types))))]
    numbers = [index for index, kind in enumerate(real) if kind in (_MARIADB_NUMBERS if is_mariadb else _NUMBERS)]
    bits = fields.get(_SIGNS)
    signs = {index: bool(bits[at // 8] >> (7 - at % 8) & 1) for at, index in enumerate(numbers)} if bits else {}
    texts = _MARIADB_TEXTS if is_mariadb else _TEXTS
    collations = _collations(real, texts, fields.get(_CHARSET), fields.get(_CHARSETS))
    collations |= _collations(real, {ENUM, SET}, fields.get(_ENUM_CHARSET), fields.get(_ENUM_CHARSETS))
    labels = _labels(real, ENUM, fields.get(_ENUMS, b"")) | _labels(real, SET, fields.get(_SETS, b""))
    keys = set(_integers(fields.get(_KEY, b""))) | set(_integers(fields.get(_PREFIX_KEY, b""))[::2])
    return tuple(
        MappedColumn(name, real[i], metas[i], signs.get(i), collations.get(i), labels.get(i, ()), i in keys)
        for i, name in enumerate(names)
    )


def _collations(
    real: list[int], kinds: frozenset[int] | set[int], one: bytes | None, each: bytes | None
) -> dict[int, int]:
    """Return collations by column: one for most, and exceptions; or all of them."""
    indices = [index for index, kind in enumerate(real) if kind in kinds]
    if each is not None:
        return dict(zip(indices, _integers(each), strict=True))
    if one is None:
        return {}
    default, *others = _integers(one)
    different = dict(zip(others[::2], others[1::2], strict=True))
    return {index: different.get(number, default) for number, index in enumerate(indices)}


def _labels(real: list[int], kind: int, data: bytes) -> dict[int, tuple[bytes, ...]]:
    found, at = {}, 0
    for index in (index for index, one in enumerate(real) if one == kind):
        if at >= len(data):
            break
        count, at = read_length(data, at)
        texts = []
        for _ in range(count):
            size, at = read_length(data, at)
            texts.append(data[at : at + size])
            at += size
        found[index] = tuple(texts)
    return found


def _strings(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size, at = read_length(data, at)
        found.append(data[at : at + size])
        at += size
    return found


def _integers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value, at = read_length(data, at)
        found.append(value)
    return found
