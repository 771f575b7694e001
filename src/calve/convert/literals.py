"""Integers, doubles and booleans from their raw texts, all rows of a column at once.

Takes only the usual forms; whatever else a row holds is not proven here, and not wrong: `12.0` is an integer too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Events", "column_bytes", "read_booleans", "read_doubles", "read_integers"]

_Bytes = npt.NDArray[np.uint8]
_Rows = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
Events = Callable[[_Rows], pa.Array]
_WHOLE = 2**53  # a double keeps every whole number below
_SURE = 18  # so many characters never overflow 64 bits


def read_integers(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, _Mask]:
    """Read large strings, digits with or without a minus, as integers; say which rows are proven: nulls are."""
    ends, read = column_bytes(column)
    proven = _nulls(column) | (np.diff(ends) > 0)
    proven[_odd(read, ends)] = False
    try:
        values = _cast(column, proven, pa.int64())
    except pa.ArrowInvalid:  # a number is too large
        proven &= np.diff(ends) <= _SURE
        values = _cast(column, proven, pa.int64())
    if kind == pa.int32():
        whole, values = values, values.cast(kind, safe=False)
        proven &= pc.equal(values.cast(pa.int64()), whole).fill_null(True).to_numpy(zero_copy_only=False)
    return values, proven


def read_doubles(column: pa.Array, kind: pa.DataType, events: Events) -> tuple[pa.Array, _Mask]:
    """Read JSON texts, numbers only, as floats of 32 or 64 bits; say which rows are proven: nulls are.

    DuckDB makes `0` of `-0`: a zero is proven where the event, which `events` gives, has no `-0`.
    """
    ends, read = column_bytes(column)
    proven, filled = _nulls(column), np.diff(ends) > 0
    first = read[ends[:-1][filled]]
    proven[filled] = (first - np.uint8(48) < 10) | (first == ord("-"))
    try:
        values = _cast(column, proven, pa.float64())
    except pa.ArrowInvalid:  # a number is too large
        proven &= pc.match_substring_regex(column, "[eE]").fill_null(False).to_numpy(zero_copy_only=False) == 0
        values = _cast(column, proven, pa.float64())
    proven &= np.abs(values.fill_null(0).to_numpy()) < _WHOLE  # beyond it a whole number may lose digits
    values = values.cast(kind, safe=False)
    numbers = values.fill_null(1).to_numpy()
    proven &= np.isfinite(numbers)
    zeros = np.flatnonzero((numbers == 0) & (np.diff(ends) == 1))
    proven[zeros] &= ~pc.match_substring(events(zeros), "-0").to_numpy(zero_copy_only=False)
    return values, proven


def read_booleans(column: pa.Array) -> tuple[pa.Array, _Mask]:
    """Read large strings, `true` and `false`; say which rows are proven: nulls are."""
    values = pc.equal(column, "true")
    proven = pc.or_(values, pc.equal(column, "false")).fill_null(True)
    return values, proven.to_numpy(zero_copy_only=False)


def column_bytes(column: pa.Array) -> tuple[_Rows, _Bytes]:
    """Give where the texts of a column begin, and the last one ends, in its bytes."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return ends - ends[0], np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]


def _nulls(column: pa.Array) -> _Mask:
    nulls: _Mask = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _cast(column: pa.Array, proven: _Mask, kind: pa.DataType) -> pa.Array:
    sure = column if proven.all() else pc.if_else(pa.array(proven), column, pa.scalar(None, column.type))
    return sure.cast(kind)


def _odd(read: _Bytes, ends: _Rows) -> _Rows:
    """Name the rows with other characters than digits and one minus before them."""
    others = np.flatnonzero(read - np.uint8(48) > 9)
    rows = np.searchsorted(ends, others, side="right") - 1
    minus = (read[others] == ord("-")) & (others == ends[rows]) & (ends[rows + 1] - ends[rows] > 1)
    odd: _Rows = rows[~minus]
    return odd
