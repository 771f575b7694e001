"""Finds the message of each value: Confluent's wire format has its indexes in the file before it.

They are a count and so many numbers, as varints with zigzag; a single byte 0 is short for the first message. Source:
Confluent's documentation of Schema Registry, "Wire format". Messages are counted as the file declares them: entries of
maps, which are messages on the wire, do not count.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.arrays import RowNumbers, text_buffers
from calve.serde.format import Fault
from calve.serde.protobuf.wire import ProtobufDecodeError, varint

__all__ = ["by_message"]

_MOST_INDEXES = 33
_MOST_BYTES = 10 * (_MOST_INDEXES + 1)
_MOST_COMPARED = 64
"""Distinct indexes that are searched in all values at once; values with others are read one by one."""
_Groups = dict[tuple[tuple[int, ...], int], RowNumbers]


def by_message(values: pa.Array, start: int, faults: list[Fault]) -> _Groups:
    """Return the positions of values by their indexes, and by the first byte of their messages.

    Args:
        values: Binary, without nulls.
        start: The first byte of each value's indexes.
        faults: Gets the values whose indexes are broken.
    """
    offsets, data = text_buffers(values)
    starts = offsets[:-1].astype(np.int64) + start
    ends = offsets[1:].astype(np.int64)
    content = np.frombuffer(data, np.uint8)
    waiting = np.arange(len(values))
    rows_by_message: dict[tuple[tuple[int, ...], int], list[RowNumbers]] = {}
    compared = 0
    while len(waiting):
        row = int(waiting[0])
        prefix = bytes(data[starts[row] : min(ends[row], starts[row] + _MOST_BYTES)])
        try:
            indexes, size = _indexes(prefix)
        except ProtobufDecodeError as error:
            faults.append(Fault(row, f"the indexes of its message are broken: {error}"))
            waiting = waiting[1:]
            continue
        compared += 1
        if compared > _MOST_COMPARED:
            same, waiting = waiting[:1], waiting[1:]
        else:
            is_same = _begin_with(content, prefix[:size], starts[waiting], ends[waiting])
            same, waiting = waiting[is_same], waiting[~is_same]
        rows_by_message.setdefault((indexes, start + size), []).append(same)
    return {key: np.sort(np.concatenate(rows)) if len(rows) > 1 else rows[0] for key, rows in rows_by_message.items()}


def _begin_with(
    content: npt.NDArray[np.uint8], prefix: bytes, starts: RowNumbers, ends: RowNumbers
) -> npt.NDArray[np.bool_]:
    matches = ends - starts >= len(prefix)
    last = len(content) - 1
    for number, byte in enumerate(prefix):
        matches &= content[np.minimum(starts + number, last)] == byte
    return matches


def _indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return indexes, and the number of their bytes."""
    count, at = _signed(data, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise ProtobufDecodeError(f"a list of {count} indexes")
    indexes = []
    for _ in range(count):
        index, at = _signed(data, at)
        indexes.append(index)
    return tuple(indexes), at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = varint(data, at)
    return (value >> 1) ^ -(value & 1), at
