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


_ODD_FIRST, _CONTAINER_FIRST, _DIGIT = _set(b"{[-0123456789"), _set(b"{["), _set(b"0123456789")
_OTHER, _FRACTION = 1, 2
_CLASS = np.where(_set(b"+-0123456789"), 0, np.where(_set(b".eE"), _FRACTION, _OTHER)).astype(np.uint8)


def maybe_changed(column: pa.Array) -> _Rows:
    """Name the rows whose text may not be exact: it could be an object, an array, a number with a fraction, or zero."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.zeros(0, np.int64)
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    read = np.frombuffer(data, np.uint8)
    last = np.searchsorted(ends, ends[-1])  # what follows is empty, and there is no byte to look at
    rows = np.flatnonzero(_ODD_FIRST[read[ends[:last]]])
    rows = rows[ends[rows + 1] > ends[rows]]
    nested = _CONTAINER_FIRST[read[ends[rows]]]
    containers, numbers = rows[nested], rows[~nested]
    numbers = numbers[_DIGIT[read[ends[numbers + 1] - 1]]]
    for distance in (1, 2, 3):  # a few bytes tell most strings from numbers
        at = np.minimum(ends[numbers] + distance, ends[numbers + 1] - 1)
        numbers = numbers[_CLASS[read[at]] != _OTHER]
    if not len(numbers):
        return containers
    start, end = ends[numbers], ends[numbers + 1]
    bounds = np.stack([start, end], 1).ravel() - start[0]
    classes = np.append(_CLASS[read[start[0] : end[-1]]], np.uint8(0))
    fractions = np.bitwise_or.reduceat(classes, bounds)[::2] == _FRACTION
    zeros = (end - start == 1) & (read[start] == ord("0"))
    return np.concatenate([containers, numbers[fractions | zeros]])
