"""Decodes rows of prepared statements.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from calve.compiled import mysql as core
from calve.sources.database.table import Column
from calve.sources.mysql.protocol.packed import fraction
from calve.sources.mysql.protocol.wire import ResultColumn, read_length
from calve.sources.mysql.rows.core_spec import core_columns, value_type

__all__ = ["columns_of"]

_DESCRIBED = struct.Struct("<BHIB")
_UNSIGNED = 0x20
_NUMBERS = {1: "b", 2: "h", 3: "i", 9: "i", 8: "q", 13: "h", 4: "f", 5: "d"}
"""The forms of integers with a sign, and of floats, by their types."""
_FLOATS = (4, 5)
_TIMESTAMP, _DATE, _TIME, _DATE_TIME, _BIT = 7, 10, 11, 12, 16
_MOMENTS = (_TIMESTAMP, _DATE, _DATE_TIME)
_MOMENT, _DURATION = struct.Struct("<HBBBBBI"), struct.Struct("<BIBBBI")


def columns_of(
    rows: pa.Array, described_columns: Sequence[ResultColumn], columns: tuple[Column, ...]
) -> list[pa.Array]:
    """Return rows (binary) as columns of texts, or of integers, floats or bytes.

    Args:
        rows: The packets.
        described_columns: The columns as the server describes them.
        columns: The same columns of the table.
    """
    core_step = core_columns(columns, False)
    described = b"".join(
        _DESCRIBED.pack(result_column.kind, result_column.flags, result_column.length, result_column.digits)
        for result_column in described_columns
    )
    if core_step and (values := core.results(rows, described, *core_step)) is not None:
        return values
    by_column = zip(*(_values(row, described_columns, columns) for row in rows.to_pylist()), strict=True)
    return [_array(column, values) for column, values in zip(columns, by_column, strict=True)]


def _array(column: Column, values: tuple[Any, ...]) -> pa.Array:
    """Return values, as texts if the table's column has another type by now."""
    try:
        return pa.array(values, value_type(column.kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _values(row: bytes, result_columns: Sequence[ResultColumn], columns: Sequence[Column]) -> Iterator[Any]:
    """Yield the values of a row."""
    at = 1 + (len(result_columns) + 9) // 8
    nulls = int.from_bytes(row[1:at], "little") >> 2
    for index, (result_column, column) in enumerate(zip(result_columns, columns, strict=True)):
        if nulls >> index & 1:
            yield None
        elif form := _NUMBERS.get(result_column.kind):
            form = f"<{form.upper() if result_column.flags & _UNSIGNED and result_column.kind not in _FLOATS else form}"
            value = struct.unpack_from(form, row, at)[0]
            at += struct.calcsize(form)
            yield str(value) if column.kind.startswith("decimal") else value
        else:
            size, at = read_length(row, at)
            yield _value(row[at : at + size], result_column, column)
            at += size


def _value(data: bytes, result_column: ResultColumn, column: Column) -> Any:
    if result_column.kind in _MOMENTS:
        return _moment(data, result_column)
    if result_column.kind == _TIME:
        return _duration(data, result_column.digits)
    if result_column.kind == _BIT:
        value = int.from_bytes(data, "big")
        return ("t" if value else "f") if result_column.length == 1 else f"{value:0{result_column.length}b}"
    return data if column.kind == "binary" else data.decode("utf-8", "replace")  # bytes, if the column has changed


def _moment(data: bytes, result_column: ResultColumn) -> str:
    """Return a date or time; what is not there is zero."""
    year, month, day, hour, minute, second, part = _MOMENT.unpack(data.ljust(_MOMENT.size, b"\0"))
    date = f"{year:04d}-{month:02d}-{day:02d}"
    if result_column.kind == _DATE:
        return date
    text = f"{date} {hour:02d}:{minute:02d}:{second:02d}{fraction(part, result_column.digits)}"
    return text + "+00" if result_column.kind == _TIMESTAMP else text


def _duration(data: bytes, digits: int) -> str:
    is_negative, days, hour, minute, second, part = _DURATION.unpack(data.ljust(_DURATION.size, b"\0"))
    sign = "-" if is_negative else ""
    return f"{sign}{days * 24 + hour:02d}:{minute:02d}:{second:02d}{fraction(part, digits)}"
