"""Decodes the rows of the binary log."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from calve.compiled import mysql as core
from calve.sources.database.change import DELETE, INSERT, UPDATE, Change, Row, Values
from calve.sources.database.changes import Decoded
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.catalog.column_types import decoded
from calve.sources.mysql.protocol.addresses import ADDRESSES
from calve.sources.mysql.protocol.compressed import inflated_value
from calve.sources.mysql.protocol.events import PARTIAL
from calve.sources.mysql.protocol.json_binary import json_text
from calve.sources.mysql.protocol.json_diff import patched
from calve.sources.mysql.protocol.packed import (
    date_text,
    date_time_text,
    decimal_bytes,
    decimal_texts,
    time_text,
    timestamp_text,
)
from calve.sources.mysql.protocol.table_map import (
    BLOB_COMPRESSED,
    ENUM,
    HIDDEN,
    SET,
    VARCHAR_COMPRESSED,
    YEAR,
    layout_columns,
)
from calve.sources.mysql.protocol.wire import read_length
from calve.sources.mysql.rows.core_spec import core_columns, value_type

__all__ = ["arrays", "changes", "decoded_rows", "message"]

Convert = Callable[[Any], Any]
"""Makes a value of what is stored."""
_HEAD = struct.Struct(">IcH")
_INTEGERS = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_WHOLE = {1: "b", 2: "h", 4: "i", 8: "q"}
"""The forms of integers with a sign by their size."""
_FLOATS = {4: "f", 5: "d"}
_LENGTHS = {1: "B", 2: "H", 3: "3s", 4: "I"}
_ODD_BYTES = 3
_MOST_PARTS = 10_000
_PARTIAL_JSON = 1
_DATE, _TIMESTAMP, _DATE_TIME, _TIME, _BIT, _JSON, _DECIMAL = 10, 17, 18, 19, 16, 245, 246
_VARCHAR, _VAR_STRING, _BLOB, _STRING, _GEOMETRY = 15, 253, 252, 254, 255
_UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8"})
_DATE_TIME_OFFSET = 1 << 39


def message(oid: int, kind: bytes, layout: bytes, rows: bytes) -> bytes:
    """Return rows of a table as a message of the log: with all that is needed to decode them, but the table."""
    return _HEAD.pack(oid, kind, len(layout)) + layout + rows


def changes(data: bytes, tables: Mapping[int, DatabaseTable]) -> Iterator[Change]:
    """Yield the changes of a message; of old rows only the key is to be used."""
    oid, kind, size = _HEAD.unpack_from(data)
    at = _HEAD.size + size
    table = tables[oid]
    layout = _layout(data[_HEAD.size : at], table.columns)
    end = len(data)
    while at < end:
        old = new = None
        if kind == PARTIAL:
            old, new, at = _partial(data, at, layout)
            yield Change(UPDATE, oid, old, new)
            continue
        if kind != INSERT:
            old, at = _row(data, at, layout)
            _convert(old, layout.of_key)
        if kind != DELETE:
            new, at = _row(data, at, layout)
            _convert(new, layout.converters)
        yield Change(kind, oid, old, new)


def decoded_rows(table: DatabaseTable, messages: pa.Array) -> Decoded | None:
    """Return the rows of messages of a table by the compiled core; None: `changes` and `arrays` must read them."""
    core_step = core_columns(table.columns, True)
    columns = core_step and core.rows(messages, core_step.schema, core_step.spec)
    return Decoded(*columns) if columns else None


def arrays(columns: Sequence[Column], rows: Sequence[Row]) -> list[pa.Array]:
    """Return rows as columns of texts, or of integers, floats or bytes."""
    return [_array(column, values) for column, values in zip(columns, zip(*rows, strict=True), strict=True)]


def _array(column: Column, values: tuple[Any, ...]) -> pa.Array:
    if (kind := value_type(column.kind)) != pa.string():
        return pa.array(values, kind)
    if column.charset in _UTF8 and not column.labels:
        return pa.array(values, pa.binary()).cast(pa.string())
    return pa.array(values, pa.string())


def _row(data: bytes, at: int, layout: _Layout) -> tuple[Values, int]:
    """Return a row with its values as they are stored, and where it ends."""
    size = layout.null_bytes
    nulls = int.from_bytes(data[at : at + size], "little")
    at += size
    parts = layout.parts.get(nulls) or layout.parts_of(nulls)
    row: Values = []
    for form, length_bytes in parts:
        values = form.unpack_from(data, at)
        at += form.size
        row += values
        if length_bytes:
            length = values[-1]
            end = at + (length if length_bytes != _ODD_BYTES else int.from_bytes(length, "little"))
            row[-1] = data[at:end]
            at = end
    if nulls:
        for index in layout.absent(nulls):
            row.insert(index, None)
    for index in layout.hidden:
        del row[index]
    return row, at


def _partial(data: bytes, at: int, layout: _Layout) -> tuple[Values, Values, int]:
    """Return the old and the new row of an update that may have only changes of JSON values, and where it ends."""
    old, at = _row(data, at, layout)
    options, at = read_length(data, at)
    bits = 0
    if options & _PARTIAL_JSON:
        size = (len(layout.json) + 7) // 8
        bits = int.from_bytes(data[at : at + size], "little")
        at += size
    new, at = _row(data, at, layout)
    values = {
        index: patched(old[index], new[index])
        for number, index in enumerate(layout.json)
        if bits >> number & 1 and new[index] is not None
    }
    _convert(old, layout.of_key)
    _convert(new, [(index, convert) for index, convert in layout.converters if index not in values])
    for index, text in values.items():
        new[index] = text
    return old, new, at


def _convert(row: Values, converters: Sequence[tuple[int, Convert]]) -> None:
    for index, convert in converters:
        value = row[index]
        if value is not None:
            row[index] = convert(value)


class _Stored(NamedTuple):
    """How values of a column are stored.

    Attributes:
        form: The form for `struct` of a value, or of the length before it.
        length_bytes: The size of that length; 0: there is none.
        convert: What makes a value of what is stored; None: it is the value.
    """

    form: str
    length_bytes: int = 0
    convert: Convert | None = None


_HASH = _Stored("8s")


class _Layout:
    """How rows of a table are stored.

    Attributes:
        null_bytes: The size of the bits that tell which values are NULL, and so are not stored.
        parts: By these bits: values of fixed size that follow each other, and whether the last is a length.
        converters: What makes values of what is stored, by column.
        of_key: The same for the columns of the key; for all columns, if there is none.
        hidden: The places of values that belong to no column, the last one first.
        json: The columns with JSON.
    """

    def __init__(self, stored: Sequence[_Stored], hidden: Sequence[int], columns: Sequence[Column]) -> None:
        self._stored = stored
        self.null_bytes = (len(stored) + 7) // 8
        self.parts: dict[int, list[tuple[struct.Struct, int]]] = {}
        self.hidden = sorted(hidden, reverse=True)
        visible = [value for index, value in enumerate(stored) if index not in hidden]
        self.json = [index for index, value in enumerate(visible) if value.convert is json_text]
        self.converters = [(index, value.convert) for index, value in enumerate(visible) if value.convert]
        keys = {index for index, column in enumerate(columns) if column.is_key} or set(range(len(columns)))
        self.of_key = [(index, convert) for index, convert in self.converters if index in keys]

    def parts_of(self, nulls: int) -> list[tuple[struct.Struct, int]]:
        """Return the parts of a row with these NULLs, and remember them."""
        parts, forms = [], ""
        for index, value in enumerate(self._stored):
            if nulls >> index & 1:
                continue
            forms += value.form
            if value.length_bytes:
                parts.append((struct.Struct(f"<{forms}"), value.length_bytes))
                forms = ""
        if forms:
            parts.append((struct.Struct(f"<{forms}"), 0))
        if len(self.parts) >= _MOST_PARTS:
            self.parts.clear()
        self.parts[nulls] = parts
        return parts

    def absent(self, nulls: int) -> list[int]:
        """Return the columns that are NULL."""
        return [index for index in range(len(self._stored)) if nulls >> index & 1]


@functools.lru_cache(512)
def _layout(layout: bytes, columns: tuple[Column, ...]) -> _Layout:
    logged = layout_columns(layout)
    hidden = [index for index, (kind, _) in enumerate(logged) if kind == HIDDEN]
    own = iter(columns)
    stored = [_HASH if kind == HIDDEN else _stored(kind, meta, next(own)) for kind, meta in logged]
    if len(stored) != len(columns) + len(hidden):
        raise ValueError(f"rows with {len(stored)} columns, and a table with {len(columns)}")
    return _Layout(stored, hidden, columns)


def _stored(kind: int, meta: bytes, column: Column) -> _Stored:
    if kind in _INTEGERS:
        return _integer(_INTEGERS[kind], column)
    if kind in _FLOATS:
        return _Stored(_FLOATS[kind])
    if kind in (BLOB_COMPRESSED, VARCHAR_COMPRESSED):
        return _compressed(kind, meta, column)
    if kind in (_VARCHAR, _VAR_STRING):
        return _text(1 if int.from_bytes(meta, "little") < 256 else 2, column)
    if kind == _STRING:
        return _fixed(meta, column)
    if kind in (_BLOB, _GEOMETRY):
        return _text(meta[0], column)
    if kind == _JSON:
        return _Stored(_LENGTHS[meta[0]], meta[0], json_text)
    if kind in (ENUM, SET):
        return _labelled(kind, meta[1], column.labels)
    if kind == _DECIMAL:
        return _Stored(f"{decimal_bytes(meta[0], meta[1])}s", 0, decimal_texts(meta[0], meta[1]))
    if kind == _BIT:
        return _bit(meta[1] * 8 + meta[0])
    return _moment(kind, meta)


def _integer(size: int, column: Column) -> _Stored:
    signed = not column.is_unsigned
    as_text = str if column.kind.startswith("decimal") else None
    if size in _WHOLE:
        return _Stored(_WHOLE[size] if signed else _WHOLE[size].upper(), 0, as_text)

    def convert(data: bytes) -> Any:
        value = int.from_bytes(data, "little", signed=signed)
        return str(value) if as_text else value

    return _Stored(f"{size}s", 0, convert)


def _text(size: int, column: Column) -> _Stored:
    charset = "" if column.kind == "binary" or column.charset in _UTF8 else column.charset
    return _Stored(_LENGTHS[size], size, (lambda data: decoded(data, charset)) if charset else None)


def _compressed(kind: int, meta: bytes, column: Column) -> _Stored:
    """Return how a text or bytes of a COMPRESSED column are stored."""
    stored = _stored(_BLOB if kind == BLOB_COMPRESSED else _VARCHAR, meta, column)
    convert = stored.convert
    return stored._replace(convert=lambda data: convert(inflated_value(data)) if convert else inflated_value(data))


def _fixed(meta: bytes, column: Column) -> _Stored:
    """Return how a CHAR or BINARY is stored; its length has two bits in the byte of its type."""
    length = meta[1] | ((meta[0] & 0x30) ^ 0x30) << 4
    stored = _text(1 if length < 256 else 2, column)
    if column.declared in ADDRESSES:
        _, text = ADDRESSES[column.declared]
        return stored._replace(convert=lambda data: text(data.ljust(length, b"\0")))
    if column.kind != "binary":
        return stored
    return stored._replace(convert=lambda data: data.ljust(length, b"\0"))  # the log has no zeros at the end


def _labelled(kind: int, size: int, labels: tuple[str, ...]) -> _Stored:
    def convert(data: bytes) -> str:
        number = int.from_bytes(data, "little")
        if kind == SET:
            return ",".join(label for index, label in enumerate(labels) if number >> index & 1)
        return labels[number - 1] if number else ""  # 0 is a value that was refused

    return _Stored(f"{size}s", 0, convert)


def _bit(bits: int) -> _Stored:
    def convert(data: bytes) -> str:
        value = int.from_bytes(data, "big")
        return ("t" if value else "f") if bits == 1 else f"{value:0{bits}b}"

    return _Stored(f"{(bits + 7) // 8}s", 0, convert)


def _moment(kind: int, meta: bytes) -> _Stored:
    """Return how a date, time or year is stored.

    Raises:
        ValueError: There is no such type.
    """
    if kind == _DATE:
        return _Stored("3s", 0, lambda data: date_text(int.from_bytes(data, "little")))
    if kind == YEAR:
        return _Stored("B", 0, lambda value: value + 1900 if value else 0)
    if kind not in (_TIMESTAMP, _DATE_TIME, _TIME):
        raise ValueError(f"a column of an unknown type {kind}")
    digits = meta[0]
    extra = (digits + 1) // 2
    scale = 100 ** (3 - extra)
    if kind == _TIME:
        return _time(digits, extra, scale)
    size = 4 if kind == _TIMESTAMP else 5

    def convert(data: bytes) -> str:
        whole = int.from_bytes(data[:size], "big")
        part = int.from_bytes(data[size:], "big") * scale
        if kind == _TIMESTAMP:
            return timestamp_text(whole, part, digits)
        return date_time_text(whole - _DATE_TIME_OFFSET, part, digits)

    return _Stored(f"{size + extra}s", 0, convert)


def _time(digits: int, extra: int, scale: int) -> _Stored:
    """Return how a TIME is stored: one number with its fraction, moved so that it is positive."""
    size = 3 + extra
    offset = 1 << (8 * size - 1)

    def convert(data: bytes) -> str:
        value = int.from_bytes(data, "big") - offset
        sign, value = (-1, -value) if value < 0 else (1, value)
        whole, part = value >> 8 * extra, (value & ((1 << 8 * extra) - 1)) * scale
        return time_text(sign * ((whole << 24) + part), digits)

    return _Stored(f"{size}s", 0, convert)
