"""Decodes the rows of the binary log."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from calve.sources.database.change import DELETE, INSERT, UPDATE, Change, Values
from calve.sources.database.table import Column, Table, arrow_type
from calve.sources.mysql.declared import decoded
from calve.sources.mysql.events import ENUM, SET, YEAR, layout_columns
from calve.sources.mysql.json_binary import json_text
from calve.sources.mysql.packed import (
    date_text,
    date_time_text,
    decimal_bytes,
    decimal_text,
    time_text,
    timestamp_text,
)

__all__ = ["arrays", "changes", "message"]

Read = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value; returns it, and where it ends."""
_HEAD = struct.Struct(">IcH")
_INTEGERS = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_FLOATS = {4: struct.Struct("<f"), 5: struct.Struct("<d")}
_DATE, _TIMESTAMP, _DATE_TIME, _TIME, _BIT, _JSON, _DECIMAL = 10, 17, 18, 19, 16, 245, 246
_VARCHAR, _VAR_STRING, _BLOB, _STRING, _GEOMETRY = 15, 253, 252, 254, 255
_UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8"})
_DATE_TIME_OFFSET = 1 << 39


def message(oid: int, kind: bytes, layout: bytes, rows: bytes) -> bytes:
    """Return rows of a table as a message of the log: with all that is needed to decode them, but the table."""
    return _HEAD.pack(oid, kind, len(layout)) + layout + rows


def changes(data: bytes, tables: Mapping[int, Table]) -> Iterator[Change]:
    """Yield the changes of a message."""
    oid, kind, size = _HEAD.unpack_from(data)
    at = _HEAD.size + size
    table = tables[oid]
    readers = _readers(data[_HEAD.size : at], table.columns)
    end = len(data)
    while at < end:
        row, at = _row(data, at, readers)
        if kind == UPDATE:
            new, at = _row(data, at, readers)
            yield Change(UPDATE, oid, row, new)
        elif kind == INSERT:
            yield Change(INSERT, oid, None, row)
        else:
            yield Change(DELETE, oid, row, None)


def arrays(columns: Sequence[Column], rows: Sequence[Values]) -> list[pa.Array]:
    """Return rows as columns of texts, or of integers, floats or bytes."""
    return [_array(column, values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)]


def _array(column: Column, values: tuple[Any, ...]) -> pa.Array:
    if column.kind in ("int", "long", "float", "double", "binary"):
        return pa.array(values, arrow_type(column.kind))
    if column.charset in _UTF8 and not column.labels:
        return pa.array(values, pa.binary()).cast(pa.string())
    return pa.array(values, pa.string())


def _row(data: bytes, at: int, readers: Sequence[Read]) -> tuple[Values, int]:
    size = (len(readers) + 7) // 8
    nulls = int.from_bytes(data[at : at + size], "little")
    at += size
    row: Values = []
    for read in readers:
        if nulls & 1:
            row.append(None)
        else:
            value, at = read(data, at)
            row.append(value)
        nulls >>= 1
    return row, at


@functools.lru_cache(512)
def _readers(layout: bytes, columns: tuple[Column, ...]) -> list[Read]:
    return [_reader(kind, meta, column) for (kind, meta), column in zip(layout_columns(layout), columns, strict=True)]


def _reader(kind: int, meta: bytes, column: Column) -> Read:
    if kind in _INTEGERS:
        return _integer(_INTEGERS[kind], column)
    if kind in _FLOATS:
        return _float(_FLOATS[kind])
    if kind in (_VARCHAR, _VAR_STRING):
        return _text(1 if int.from_bytes(meta, "little") < 256 else 2, column)
    if kind == _STRING:
        return _fixed(meta, column)
    if kind in (_BLOB, _GEOMETRY):
        return _text(meta[0], column)
    if kind == _JSON:
        return _json(meta[0])
    if kind in (ENUM, SET):
        return _labelled(kind, meta[1], column.labels)
    if kind == _DECIMAL:
        return _decimal(meta[0], meta[1])
    if kind == _BIT:
        return _bit(meta[1] * 8 + meta[0])
    return _moment(kind, meta)


def _integer(size: int, column: Column) -> Read:
    signed = not column.is_unsigned
    as_text = column.kind.startswith("decimal")

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value = int.from_bytes(data[at : at + size], "little", signed=signed)
        return str(value) if as_text else value, at + size

    return read


def _float(form: struct.Struct) -> Read:
    return lambda data, at: (form.unpack_from(data, at)[0], at + form.size)


def _text(size: int, column: Column) -> Read:
    charset = "" if column.kind == "binary" or column.charset in _UTF8 else column.charset

    def read(data: bytes, at: int) -> tuple[Any, int]:
        start = at + size
        end = start + int.from_bytes(data[at:start], "little")
        value = data[start:end]
        return decoded(value, charset) if charset else value, end

    return read


def _fixed(meta: bytes, column: Column) -> Read:
    """Return the reader of a CHAR or BINARY; its length has two bits in the byte of its type."""
    length = meta[1] | ((meta[0] & 0x30) ^ 0x30) << 4
    read = _text(1 if length < 256 else 2, column)
    if column.kind != "binary":
        return read

    def padded(data: bytes, at: int) -> tuple[Any, int]:
        value, end = read(data, at)
        return value.ljust(length, b"\0"), end  # the log has no zeros at the end

    return padded


def _json(size: int) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        start = at + size
        end = start + int.from_bytes(data[at:start], "little")
        return json_text(data[start:end]), end

    return read


def _labelled(kind: int, size: int, labels: tuple[str, ...]) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        number, end = int.from_bytes(data[at : at + size], "little"), at + size
        if kind == SET:
            return ",".join(label for index, label in enumerate(labels) if number >> index & 1), end
        return labels[number - 1] if number else "", end  # 0 is a value that was refused

    return read


def _decimal(precision: int, scale: int) -> Read:
    size = decimal_bytes(precision, scale)
    return lambda data, at: (decimal_text(data[at : at + size], precision, scale), at + size)


def _bit(bits: int) -> Read:
    size = (bits + 7) // 8

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value = int.from_bytes(data[at : at + size], "big")
        return ("t" if value else "f") if bits == 1 else f"{value:0{bits}b}", at + size

    return read


def _moment(kind: int, meta: bytes) -> Read:
    """Return the reader of a date, time or year.

    Raises:
        ValueError: There is no such type.
    """
    if kind == _DATE:
        return lambda data, at: (date_text(int.from_bytes(data[at : at + 3], "little")), at + 3)
    if kind == YEAR:
        return lambda data, at: (data[at] + 1900 if data[at] else 0, at + 1)
    if kind not in (_TIMESTAMP, _DATE_TIME, _TIME):
        raise ValueError(f"a column of an unknown type {kind}")
    digits = meta[0]
    extra = (digits + 1) // 2
    scale = 100 ** (3 - extra)
    if kind == _TIME:
        return _time(digits, extra, scale)
    size = 4 if kind == _TIMESTAMP else 5

    def read(data: bytes, at: int) -> tuple[Any, int]:
        middle, end = at + size, at + size + extra
        whole = int.from_bytes(data[at:middle], "big")
        part = int.from_bytes(data[middle:end], "big") * scale
        if kind == _TIMESTAMP:
            return timestamp_text(whole, part, digits), end
        return date_time_text(whole - _DATE_TIME_OFFSET, part, digits), end

    return read


def _time(digits: int, extra: int, scale: int) -> Read:
    """Return the reader of a TIME: one number with its fraction, moved so that it is positive."""
    size = 3 + extra
    offset = 1 << (8 * size - 1)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value = int.from_bytes(data[at : at + size], "big") - offset
        sign, value = (-1, -value) if value < 0 else (1, value)
        whole, part = value >> 8 * extra, (value & ((1 << 8 * extra) - 1)) * scale
        return time_text(sign * ((whole << 24) + part), digits), at + size

    return read
