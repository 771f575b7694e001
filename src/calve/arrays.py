"""Row-number arrays and masks (NumPy), Arrow string buffers, storage types of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Mask", "RowNumbers", "pack_texts", "storage_type", "text_buffers", "with_extensions"]

RowNumbers = npt.NDArray[np.int64]
"""Positions of rows."""
Mask = npt.NDArray[np.bool_]
"""For each row whether it is one of them."""


def text_buffers(texts: pa.Array) -> tuple[npt.NDArray[Any], memoryview]:
    """Return where each text of an array (string or binary, also large) begins and the last one ends, and all bytes.

    Both are views; the bytes are those of the whole buffer, also before the first text.
    """
    is_large = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets or bytes(8), np.int64 if is_large else np.int32)
    return ends[texts.offset : texts.offset + len(texts) + 1], memoryview(data or b"")


def pack_texts(offsets: npt.NDArray[np.int32], data: bytes) -> pa.BinaryArray:
    """Return the texts that begin at each offset but the last one, where the last of them ends."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that `pa.array` can build for a type: for extension types their storage type."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([kind.field(i).with_type(storage_type(kind.field(i).type)) for i in range(kind.num_fields)])
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(storage_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(storage_type(kind.key_type)),
            kind.item_field.with_type(storage_type(kind.item_type)),
        )
    return kind


def with_extensions(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a new array of `storage_type(kind)`, no slice of one, as an array of `kind`.

    Arrow's own cast cuts lists of nulls that are beside the extension type.
    """
    if values.type == kind:
        return values
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, values)
    if pa.types.is_struct(kind):
        children = [with_extensions(values.field(number), field.type) for number, field in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())
    if pa.types.is_map(kind):
        keys, items = with_extensions(values.keys, kind.key_type), with_extensions(values.items, kind.item_type)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=kind, mask=values.is_null())
    elements = with_extensions(values.values, kind.value_type)
    return pa.LargeListArray.from_arrays(values.offsets, elements, type=kind, mask=values.is_null())
