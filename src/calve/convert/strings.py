"""Which raw texts of a string column may not be the JSON text any more, seen from their bytes.

DuckDB gives a string as itself and an integer as it was written, but a number with a fraction or exponent comes through
a double, `-0` loses its sign, and objects and arrays are written anew.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["maybe_changed"]

_Rows = npt.NDArray[np.int64]


def _set(characters: bytes) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[list(characters)] = True
    return table


_NUMBER_FIRST, _CONTAINER_FIRST = _set(b"-0123456789"), _set(b"{[")
_NOT_NUMBER = ~_set(b"0123456789+-.eE")
_DIGIT = _set(b"0123456789")


def maybe_changed(column: pa.Array) -> _Rows:
    """Name the rows whose text may not be exact: it could be an object, an array, a number with a fraction, or zero."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.zeros(0, np.int64)
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    rows = np.flatnonzero(ends[1:] > ends[:-1])
    read = np.frombuffer(data, np.uint8)
    first = read[ends[rows]]
    containers = rows[_CONTAINER_FIRST[first]]
    numbers = rows[_NUMBER_FIRST[first]]
    numbers = numbers[_DIGIT[read[ends[numbers + 1] - 1]]]
    if not len(numbers):
        return containers
    base = int(ends[0])
    used = read[base : int(ends[-1])]
    other = np.concatenate([[0], np.cumsum(_NOT_NUMBER[used], dtype=np.int64)])
    numbers = numbers[other[ends[numbers + 1] - base] == other[ends[numbers] - base]]
    if not len(numbers):
        return containers
    digits = np.concatenate([[0], np.cumsum(_DIGIT[used], dtype=np.int64)])
    start, end = ends[numbers] - base, ends[numbers + 1] - base
    zero = (end - start == 1) & (used[start] == 48)
    signed = used[start] == 45
    whole = digits[end] - digits[start] == end - start - signed
    return np.concatenate([containers, numbers[zero | ~whole]])
