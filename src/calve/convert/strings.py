"""Which raw texts of a string column may not be the JSON text any more, seen from their bytes.

DuckDB gives a string as itself and an integer as it was written, but a number with a fraction or exponent comes through
a double, `-0` loses its sign, and objects and arrays are written anew. It also reads NaN and infinities, which are no
JSON.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.convert.literals import column_bytes

__all__ = ["maybe_changed"]

_Rows = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_Bytes = npt.NDArray[np.uint8]


def _set(characters: bytes) -> npt.NDArray[np.bool_]:
    table = np.zeros(256, bool)
    table[list(characters)] = True
    return table


_ODD_FIRST, _CONTAINER_FIRST, _DIGIT = _set(b"{[-0123456789nNiI"), _set(b"{["), _set(b"0123456789")
_WORDS = (b"nan", b"inf", b"infinity")  # in any case and with a minus, DuckDB takes them for numbers
_LETTERS = np.uint64(0x4040404040404040)  # a bit that letters have, and digits, points and signs have not
_BLOCK = 32_768  # rows whose numbers stay in the processor's cache
_OTHER, _FRACTION = 1, 2
_CLASS = np.where(_set(b"+-0123456789"), 0, np.where(_set(b".eE"), _FRACTION, _OTHER)).astype(np.uint8)


def maybe_changed(column: pa.Array) -> _Rows:
    """Name the rows whose text may not be exact.

    It could be an object, an array, a number with a fraction, zero, or a word for a number that JSON does not have.
    """
    ends, read = column_bytes(column)
    found, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for start in range(0, len(column), _BLOCK):
        odd, digits = _odd(ends[start : start + _BLOCK + 1], read)
        found.append(start + odd)
        numbers.append(start + digits)
    rows = np.concatenate(numbers)
    return np.concatenate([*found, rows[_changes(column.take(pa.array(rows)))]])


def _odd(ends: _Rows, read: _Bytes) -> tuple[_Rows, _Rows]:
    """Name the rows that may be objects, arrays or words for numbers, and those that may be numbers."""
    last = np.searchsorted(ends, ends[-1])  # what follows is empty, and there is no byte to look at
    first = read[ends[:last]]
    rows = np.flatnonzero(_ODD_FIRST[first])
    rows = rows[ends[rows + 1] > ends[rows]]
    digit = _DIGIT[first[rows]]
    digits, others = _few_letters(rows[digit], ends, read), rows[~digit]
    nested = _CONTAINER_FIRST[first[others]]
    containers, others = others[nested], others[~nested]
    digit = _DIGIT[read[ends[others + 1] - 1]]
    found = np.concatenate([containers, _words(others[~digit], ends, read)])
    return found, np.concatenate([digits, others[digit]])


def _few_letters(rows: _Rows, ends: _Rows, read: _Bytes) -> _Rows:
    """Leave out texts with two letters or more among eight characters at an end; a number has one at most."""
    eight = np.ndarray(max(len(read) - 7, 0), "<u8", read, 0, (1,))
    for at in (ends[:-1], ends[1:] - 8):
        few = ends[rows + 1] - ends[rows] < 8
        long = np.flatnonzero(~few)
        few[long] = np.bitwise_count(eight[at[rows[long]]] & _LETTERS) < 2
        rows = rows[few]
    return rows


def _changes(texts: pa.Array) -> _Mask:
    """Say which texts are zero, or may be a number with a fraction or exponent; none is empty."""
    ends, read = column_bytes(texts)
    if not len(texts):
        return np.zeros(0, bool)
    zeros = (np.diff(ends) == 1) & (read[ends[:-1]] == ord("0"))
    found: _Mask = zeros | (np.bitwise_or.reduceat(_CLASS[read], ends[:-1]) == _FRACTION)
    return found


def _words(rows: _Rows, ends: _Rows, read: _Bytes) -> _Rows:
    """Keep the rows that may be words for numbers, by their length and first two letters."""
    start = ends[rows] + (read[ends[rows]] == ord("-"))
    size = ends[rows + 1] - start
    rows, start = rows[(size == 3) | (size == 8)], start[(size == 3) | (size == 8)]
    found = np.zeros(len(rows), bool)
    for word in _WORDS:
        found |= (read[start] | 32 == word[0]) & (read[start + 1] | 32 == word[1])
    return rows[found]
