"""Reads what the binary log says about a table before its rows (TABLE_MAP).

https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Table__map__event.html
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from calve.sources.mysql.protocol.wire import read_length

__all__ = [
    "BLOB_COMPRESSED",
    "ENUM",
    "HIDDEN",
    "SET",
    "VARCHAR_COMPRESSED",
    "YEAR",
    "Mapped",
    "MappedColumn",
    "layout_columns",
    "mapped",
    "table_name",
]

_HEAD_BYTES = 8
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
_STRING, ENUM, SET, YEAR = 254, 247, 248, 13
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
HIDDEN = 200
"""In a layout: eight bytes that belong to no column. No server has this type."""
_HASH = re.compile(r"DB_ROW_HASH_\d+").fullmatch
"""MariaDB's columns behind UNIQUE on long texts, whose hashes are in the rows."""
_OF_INDEX = re.compile(r"[0-9a-f]{32}|!hidden!.*", re.DOTALL).fullmatch
"""MySQL's columns behind indexes on expressions, which are not in the rows."""
_META_BYTES = {4: 1, 5: 1, 15: 2, 16: 2, 17: 1, 18: 1, 19: 1, 242: 1, 245: 1, 246: 2, 252: 1, 253: 2, 254: 2, 255: 1}
_META_BYTES |= {BLOB_COMPRESSED: 1, VARCHAR_COMPRESSED: 2}
_NUMBERS = frozenset({1, 2, 3, 4, 5, 8, 9, 246})
_TEXTS = frozenset({15, 252, 253, 254})
_MARIADB_NUMBERS, _MARIADB_TEXTS = _NUMBERS | {YEAR}, _TEXTS | {255, BLOB_COMPRESSED, VARCHAR_COMPRESSED}


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

    def only(self, columns: int) -> Mapped:
        """Return the description of rows that have only some columns, by the places of bits; others are of indexes."""
        kept = [index for index in range(len(self.columns)) if columns >> index & 1]
        types, metas = _split(self.layout)
        layout = _layout([types[index] for index in kept], [metas[index] for index in kept])
        return replace(self, layout=layout, columns=tuple(self.columns[index] for index in kept))

    def without_hashes(self, count: int) -> Mapped:
        """Return the description without MariaDB's hashes for UNIQUE, whose bytes are left out as rows are read.

        Args:
            count: How many of the last columns they are, if the log does not have names.
        """
        types, metas = _split(self.layout)
        hashes = {index for index, column in enumerate(self.columns) if _HASH(column.name)}
        if not self.is_complete:
            hashes = set(range(len(self.columns) - count, len(self.columns)))
        kinds = [HIDDEN if index in hashes else kind for index, kind in enumerate(types)]
        columns = tuple(column for index, column in enumerate(self.columns) if index not in hashes)
        return replace(self, layout=_layout(kinds, metas), columns=columns)

    def is_of_indexes(self, columns: int) -> bool:
        """Return whether all columns but these are behind indexes on expressions, as far as the log has names."""
        others = [column.name for index, column in enumerate(self.columns) if not columns >> index & 1]
        return all(not name or _OF_INDEX(name) for name in others)

    @property
    def is_complete(self) -> bool:
        """Whether the log describes the columns completely (`binlog_row_metadata = FULL`)."""
        return all(column.name for column in self.columns)


def table_name(body: bytes) -> tuple[str, str]:
    """Return the database and the name of a described table."""
    (database, name), _ = _names(body)
    return database, name


def mapped(body: bytes, is_mariadb: bool) -> Mapped:
    """Read a description; MariaDB gives years a sign, and geometries a character set."""
    names, start = _names(body)
    count, at = read_length(body, start)
    types = body[at : at + count]
    size, at = read_length(body, at + count)
    metas = _metas(types, body[at : at + size])
    at += size
    columns = _columns(types, metas, body[at + (count + 7) // 8 :], is_mariadb)
    return Mapped(body[:6], *names, body[start:at], columns)


def layout_columns(layout: bytes) -> list[tuple[int, bytes]]:
    """Return the real type of each column of `Mapped.layout`, and what belongs to it."""
    return [(_real(kind, meta), meta) for kind, meta in zip(*_split(layout), strict=True)]


def _names(body: bytes) -> tuple[tuple[str, str], int]:
    """Return the database and the name of a table, and where they end."""
    names, at = [], _HEAD_BYTES
    for _ in range(2):
        end = at + 1 + body[at]
        names.append(body[at + 1 : end].decode("utf-8", "replace"))
        at = end + 1
    return (names[0], names[1]), at


def _split(layout: bytes) -> tuple[bytes, list[bytes]]:
    """Return the types of a layout, and what belongs to each."""
    count, at = read_length(layout, 0)
    types = layout[at : at + count]
    _, start = read_length(layout, at + count)
    return types, _metas(types, layout[start:])


def _layout(types: Sequence[int], metas: Sequence[bytes]) -> bytes:
    joined = b"".join(metas)
    return _length(len(types)) + bytes(types) + _length(len(joined)) + joined


def _length(value: int) -> bytes:
    """Return an integer of variable length; a table has at most 4,096 columns."""
    return bytes([value]) if value < 251 else b"\xfc" + value.to_bytes(2, "little")


def _metas(types: bytes, data: bytes) -> list[bytes]:
    metas, at = [], 0
    for kind in types:
        size = _META_BYTES.get(kind, 0)
        metas.append(data[at : at + size])
        at += size
    return metas


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
    real: list[int], kinds: frozenset[int] | set[int], default_and_others: bytes | None, by_column: bytes | None
) -> dict[int, int]:
    """Return collations by column: one for most, and exceptions; or all of them."""
    indices = [index for index, kind in enumerate(real) if kind in kinds]
    if by_column is not None:
        return dict(zip(indices, _integers(by_column), strict=True))
    if default_and_others is None:
        return {}
    default, *others = _integers(default_and_others)
    different = dict(zip(others[::2], others[1::2], strict=True))
    return {index: different.get(number, default) for number, index in enumerate(indices)}


def _labels(real: list[int], kind: int, data: bytes) -> dict[int, tuple[bytes, ...]]:
    labels, at = {}, 0
    for index in (index for index, real_kind in enumerate(real) if real_kind == kind):
        if at >= len(data):
            break
        count, at = read_length(data, at)
        texts = []
        for _ in range(count):
            size, at = read_length(data, at)
            texts.append(data[at : at + size])
            at += size
        labels[index] = tuple(texts)
    return labels


def _strings(data: bytes) -> list[bytes]:
    strings, at = [], 0
    while at < len(data):
        size, at = read_length(data, at)
        strings.append(data[at : at + size])
        at += size
    return strings


def _integers(data: bytes) -> list[int]:
    integers, at = [], 0
    while at < len(data):
        value, at = read_length(data, at)
        integers.append(value)
    return integers
