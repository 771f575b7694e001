"""The 128 bits that stand for a key in an index: equal for equal values, also of a column whose type was widened."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import RowNumbers, text_buffers
from calve.compiled.key_runs import Bits, hash_values, permute_values

__all__ = ["KeyBits", "bits_of", "kind_of"]

_PERMUTED_BYTES = 16


class KeyBits(NamedTuple):
    """The keys of rows without a null in their key: bits, and the numbers of these rows."""

    bits: Bits
    rows: RowNumbers


def kind_of(kind: pa.DataType) -> str:
    """Return what must stay the same of a key column's type so that its bits do: widths and precisions need not."""
    if pa.types.is_integer(kind):
        return "integer"
    return f"decimal({kind.scale})" if pa.types.is_decimal(kind) else str(kind)


def bits_of(columns: pa.Table, secret: Bits) -> KeyBits:
    """Return the bits of keys.

    Args:
        columns: The columns of the key alone, in the types of `KeySearch`.
        secret: Two numbers.
    """
    arrays = [column.combine_chunks() for column in columns.columns]
    rows = np.arange(len(columns))
    if any(array.null_count for array in arrays):
        is_whole = pc.is_valid(arrays[0])
        for array in arrays[1:]:
            is_whole = pc.and_(is_whole, pc.is_valid(array))
        rows = np.flatnonzero(is_whole.to_numpy(zero_copy_only=False))
        arrays = [array.take(pa.array(rows)) for array in arrays]
    numbers = _numbers(arrays[0])
    if len(arrays) == 1 and numbers is not None and _width(numbers) <= _PERMUTED_BYTES:
        return KeyBits(permute_values(numbers, secret), rows)
    bits: Bits | None = None
    for array in arrays:
        bits = hash_values(*_texts(array), secret, bits)
    assert bits is not None
    return KeyBits(bits, rows)


def _texts(array: pa.Array) -> tuple[npt.NDArray[np.int64], bytes | memoryview]:
    """Return where the bytes of each value end, and all bytes."""
    numbers = _numbers(array)
    if numbers is None:
        return text_buffers(array.cast(pa.large_binary()))
    return np.arange(len(array) + 1, dtype=np.int64) * _width(numbers), numbers.tobytes()


def _width(numbers: npt.NDArray[Any]) -> int:
    return numbers.itemsize * (numbers.shape[1] if numbers.ndim == 2 else 1)


def _numbers(array: pa.Array) -> npt.NDArray[Any] | None:
    """Return values of a fixed width as integers of 64 bits or as rows of bytes; None: they have no fixed width."""
    kind = array.type
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_decimal128(kind):
        width = kind.byte_width
        content = np.frombuffer(array.buffers()[1] or b"", np.uint8)[array.offset * width :][: len(array) * width]
        return np.ascontiguousarray(content).reshape(len(array), width)
    if pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        return np.ascontiguousarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False))
    return None
