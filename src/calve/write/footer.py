"""Marks the variants in the footer of a Parquet file, because pyarrow cannot write their logical type.

A footer is Thrift in the compact protocol. This module inserts seven bytes into the schema element of each variant, and
copies all other bytes (parquet-format, `FileMetaData`; Thrift, "Compact protocol encoding").
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

__all__ = ["Marking", "marked"]

_TAIL = 8  # the footer's length in four bytes, and `PAR1`
_STOP, _BYTE, _BINARY, _STRUCT = 0, 3, 8, 12
_FIXED_BYTES = {1: 0, 2: 0, _BYTE: 1, 7: 8}  # true, false, byte, double
_SCHEMA = 2  # FileMetaData.schema
_FIELD_ID, _LOGICAL_TYPE = 9, 10  # of SchemaElement
_VARIANT = bytes([_STRUCT, 16 << 1, 1 << 4 | _BYTE, 1, _STOP, _STOP])
"""LogicalType: field 16, VARIANT; in it field 1, the version of its specification, 1."""


class Marking:
    """A file that writes to another one. Bytes after `hold` wait until `release`, which marks the footer.

    Args:
        sink: The file to write to.
        field_ids: The field ids of the variants.
    """

    def __init__(self, sink: Any, field_ids: Collection[int]) -> None:
        self._sink = sink
        self._field_ids = field_ids
        self._kept_end: bytearray | None = None
        self.closed = False

    def write(self, data: Any) -> int:
        """Write or keep bytes."""
        if self._kept_end is None:
            self._sink.write(data)
        else:
            self._kept_end += data
        return len(data)

    def tell(self) -> int:
        """Return the position in the file."""
        return int(self._sink.tell()) + len(self._kept_end or b"")

    def flush(self) -> None:
        """Do nothing: whoever opened the file flushes it."""

    def hold(self) -> None:
        """Keep the following bytes, which end with the footer."""
        self._kept_end = bytearray()

    def release(self) -> None:
        """Write the kept bytes with a marked footer."""
        end, self._kept_end = bytes(self._kept_end or b""), None
        self._sink.write(marked(end, self._field_ids))


def marked(end: bytes, field_ids: Collection[int]) -> bytes:
    """Return the end of a Parquet file, with the logical type added to the groups of these field ids.

    Args:
        end: The last bytes of a file, with its complete footer.
        field_ids: The field ids of the variants.
    """
    start = len(end) - _TAIL - int.from_bytes(end[-_TAIL:-4], "little")
    pieces, done = [end[:start]], start
    for at, last_field in _groups(end, start, field_ids):
        pieces += [end[done:at], bytes([(_LOGICAL_TYPE - last_field) << 4 | _STRUCT]), _VARIANT]
        done = at
    pieces.append(end[done:-_TAIL])
    size = sum(map(len, pieces)) - start
    return b"".join([*pieces, size.to_bytes(4, "little"), end[-4:]])


def _groups(data: bytes, at: int, field_ids: Collection[int]) -> Iterator[tuple[int, int]]:
    """Return the end of each schema element of these ids, and its last field."""
    at = next(start for field, _, start in _fields(data, at) if field == _SCHEMA)
    count, at = _list_size(data, at)
    for _ in range(count):
        number, last = -1, 0
        for last, kind, start in _fields(data, at):
            at = _skip(data, start, kind)
            number = _zigzag(data, start) if last == _FIELD_ID else number
        if number in field_ids and last < _LOGICAL_TYPE:
            yield at, last
        at += 1


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, type and offset of each field of a struct."""
    number = 0
    while data[at] != _STOP:
        delta, kind = data[at] >> 4, data[at] & 15
        at += 1
        if delta:
            number += delta
        else:
            number, at = _zigzag(data, at), _varint(data, at)[1]
        yield number, kind, at
        at = _skip(data, at, kind)


def _skip(data: bytes, at: int, kind: int) -> int:
    """Return the offset after a value of a schema element; it contains no lists."""
    if kind in _FIXED_BYTES:
        return at + _FIXED_BYTES[kind]
    if kind == _STRUCT:
        for _, inner, start in _fields(data, at):
            at = _skip(data, start, inner)
        return at + 1
    size, at = _varint(data, at)
    return at + size if kind == _BINARY else at


def _list_size(data: bytes, at: int) -> tuple[int, int]:
    size = data[at] >> 4
    return (size, at + 1) if size < 15 else _varint(data, at + 1)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] & 128:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _zigzag(data: bytes, at: int) -> int:
    value = _varint(data, at)[0]
    return value >> 1 ^ -(value & 1)
