"""Reads many rows of `pgoutput` at once, as columns of texts: without a Python object for each value.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html (TupleData)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

__all__ = ["texts"]

_NULL, _TEXT = ord("n"), ord("t")
_COUNT_BYTES, _LENGTH_BYTES = 2, 4


def texts(rows: Sequence[bytes], count: int) -> list[pa.Array]:
    """Return the columns of rows.

    Args:
        rows: As the stream has them: the number of columns, and for each its kind, and the length and text of a text.
        count: How many columns they have.

    Raises:
        ValueError: A row has another number of columns, or a value of an unknown kind.
    """
    data = b"".join([*rows, bytes(_LENGTH_BYTES)])
    numbers = np.frombuffer(data, np.uint8)
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    at = np.cumsum(sizes) - sizes
    if (_integer(numbers, at, _COUNT_BYTES) != count).any():
        raise ValueError(f"a row that does not have {count} columns")
    at += _COUNT_BYTES
    columns = []
    for _ in range(count):
        kinds = numbers[at]
        is_text = kinds == _TEXT
        if not (is_text | (kinds == _NULL)).all():
            raise ValueError("a value of an unknown kind")
        start = at + np.where(is_text, 1 + _LENGTH_BYTES, 1)
        at = start + np.where(is_text, _integer(numbers, at + 1, _LENGTH_BYTES), 0)
        columns.append(_column(data, start, at, is_text))
    return columns


def _integer(numbers: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    value = np.zeros(len(at), np.int64)
    for number in range(size):
        value = value << 8 | numbers[at + number]
    return value


def _column(data: bytes, start: np.ndarray, end: np.ndarray, is_text: np.ndarray) -> pa.Array:
    """Return the texts between positions; what lies between two of them is a value, too, which is not taken."""
    offsets = np.stack([start, end], axis=1).astype(np.int32).ravel()
    with_others = pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    own = pa.array(np.arange(0, len(offsets), 2), mask=~is_text)
    return with_others.take(own).cast(pa.string())
