"""Which raw texts of a string column may not be the JSON text any more, seen from their bytes.

DuckDB gives a string as itself and an integer as it was written, but a number with a fraction or exponent comes through
a double, `-0` loses its sign, and objects and arrays are written anew. It also reads NaN and infinities, which are no
JSON.
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


_ODD_FIRST, _CONTAINER_FIRST, _DIGIT = _set(b"{[-0123456789nNiI"), _set(b"{["), _set(b"0123456789")
_WORDS = (b"nan", b"inf", b"infinity")  # in any case and with a minus, DuckDB takes them for numbers
_BLOCK = 16_384  # rows whose numbers stay in the processor's cache
_OTHER, _FRACTION = 1, 2
_CLASS = np.where(_set(b"+-0123456789"), 0, np.where(_set(b".eE"), _FRACTION, _OTHER)).astype(np.uint8)


def maybe_changed(column: pa.Array) -> _Rows:
    """Name the rows whose text may not be exact.

    It could be an object, an array, a number with a fraction, zero, or a word for a number that JSON does not have.
    """
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.zeros(0, np.int64)
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    read = np.frombuffer(data, np.uint8)
    found = [start + _changed(ends[start : start + _BLOCK + 1], read) for start in range(0, len(column), _BLOCK)]
    return np.concatenate(found)


def _changed(ends: _Rows, read: npt.NDArray[np.uint8]) -> _Rows:
    last = np.searchsorted(ends, ends[-1])  # what follows is empty, and there is no byte to look at
    rows = np.flatnonzero(_ODD_FIRST[read[ends[:last]]])
    rows = rows[ends[rows + 1] > ends[rows]]
    first = read[ends[rows]]
    nested = _CONTAINER_FIRST[first]
    containers, others = rows[nested], rows[~nested]
    digit = _DIGIT[read[ends[others + 1] - 1]]
    numbers, words = others[digit], _words(others[~digit], ends, read)
    for distance in range(1, 9):  # a few bytes tell most strings from numbers
        at = np.minimum(ends[numbers] + distance, ends[numbers + 1] - 1)
        numbers = numbers[_CLASS[read[at]] != _OTHER]
    if len(numbers):
        start, end = ends[numbers], ends[numbers + 1]
        bounds = np.stack([start, end], 1).ravel() - start[0]
        classes = np.append(_CLASS[read[start[0] : end[-1]]], np.uint8(0))
        fractions = np.bitwise_or.reduceat(classes, bounds)[::2] == _FRACTION
        zeros = (end - start == 1) & (read[start] == ord("0"))
        numbers = numbers[fractions | zeros]
    return np.concatenate([containers, numbers, words])


def _words(rows: _Rows, ends: _Rows, read: npt.NDArray[np.uint8]) -> _Rows:
    """Keep the rows that may be words for numbers, by their length and first two letters."""
    start = ends[rows] + (read[ends[rows]] == ord("-"))
    size = ends[rows + 1] - start
    rows, start = rows[(size == 3) | (size == 8)], start[(size == 3) | (size == 8)]
    found = np.zeros(len(rows), bool)
    for word in _WORDS:
        found |= (read[start] | 32 == word[0]) & (read[start + 1] | 32 == word[1])
    return rows[found]
