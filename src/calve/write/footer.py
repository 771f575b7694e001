"""Marks the variants in the footer of a Parquet file: pyarrow has no way to write their logical type.

A footer is Thrift in the compact protocol. Its schema is walked, seven bytes are put into each column that is a
variant, and everything else is left as it was (parquet-format, `FileMetaData`; Thrift, "Compact protocol encoding").
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
    """A sink that passes everything on, and from `hold` on keeps it until `release`; the footer is then marked.

    Args:
        sink: Where the file goes.
        field_ids: Those of the variants.
    """

    def __init__(self, sink: Any, field_ids: Collection[int]) -> None:
        self._sink = sink
        self._field_ids = field_ids
        self._held: bytearray | None = None
        self.closed = False

    def write(self, data: Any) -> int:
        """Take bytes."""
        if self._held is None:
            self._sink.write(data)
        else:
            self._held += data
        return len(data)

    def tell(self) -> int:
        """Return the position in the file."""
        return int(self._sink.tell()) + len(self._held or b"")

    def flush(self) -> None:
        """Do nothing: the sink is closed by who opened it."""

    def hold(self) -> None:
        """Keep what follows, which ends with the footer."""
        self._held = bytearray()

    def release(self) -> None:
        """Pass on what was kept, its footer marked."""
        end, self._held = bytes(self._held or b""), None
        self._sink.write(marked(end, self._field_ids))


def marked(end: bytes, field_ids: Collection[int]) -> bytes:
    """Return the end of a Parquet file with the logical type at the groups of these field ids.

    Args:
        end: The last bytes of a file, its whole footer among them.
        field_ids: Those of the variants.
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
    at = next(place for field, _, place in _fields(data, at) if field == _SCHEMA)
    count, at = _list_size(data, at)
    for _ in range(count):
        number, last = -1, 0
        for last, kind, place in _fields(data, at):
            at = _skip(data, place, kind)
            number = _zigzag(data, place) if last == _FIELD_ID else number
        if number in field_ids and last < _LOGICAL_TYPE:
            yield at, last
        at += 1


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Return number, type and place of each field of a struct."""
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
    """Return the place after a value of a schema element; there are no lists in it."""
    if kind in _FIXED_BYTES:
        return at + _FIXED_BYTES[kind]
    if kind == _STRUCT:
        for _, inner, place in _fields(data, at):
            at = _skip(data, place, inner)
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
