"""Avro files (object container files): rows with the types of their schema.

https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import zstandard

from calve.serde.avro.format import AvroPlan
from calve.serde.avro.plan import compiled
from calve.serde.avro.schema import parse
from calve.serde.format import UnsupportedSchemaError
from calve.sources.file.rows import FileBatches, row_numbers
from calve.sources.file.stream import BlockStream

__all__ = ["read_avro"]

_MAGIC = b"Obj\x01"
_SYNC_BYTES, _CHECKSUM_BYTES = 16, 4
_LARGEST_BLOCK = 1 << 30
_BATCH_ROWS = 16_384


class _BrokenError(Exception):
    """The file ends early or is damaged; the message is the rest of a sentence about it."""


def _snappy(data: bytes) -> bytes:
    size, shift = 0, 0
    for byte in data[:5]:  # the length of the unpacked bytes comes first
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _LARGEST_BLOCK:
        raise ValueError("a block is too large")
    unpacked: bytes = pa.decompress(data[:-_CHECKSUM_BYTES], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(unpacked) != int.from_bytes(data[-_CHECKSUM_BYTES:], "big"):
        raise ValueError("a block has a wrong checksum")
    return unpacked


def _unpacked(packed: Any, data: bytes) -> bytes:
    unpacked: bytes = packed.decompress(data, _LARGEST_BLOCK)
    if not packed.eof:
        raise ValueError("a block ends early, or is too large")
    return unpacked


def _zstandard(data: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        unpacked = reader.read(_LARGEST_BLOCK)
        if reader.read(1):
            raise ValueError("a block is too large")
    return unpacked


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": lambda data: _unpacked(zlib.decompressobj(-zlib.MAX_WBITS), data),
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": lambda data: _unpacked(bz2.BZ2Decompressor(), data),
    "xz": lambda data: _unpacked(lzma.LZMADecompressor(), data),
}
_ERRORS = (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, pa.ArrowException)


def read_avro(stream: BlockStream, rows: FileBatches) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, then at most one row with the reason of an early end."""
    bytes_of, row = _Bytes(stream), 1
    try:
        plan, unpack, sync = _head(bytes_of)
        for block in _joined(_blocks(bytes_of, plan, unpack, sync)):
            numbers = row_numbers(row, len(block))
            yield from rows.typed(pa.RecordBatch.from_struct_array(block), numbers, plan.declaration)
            row += len(block)
    except _BrokenError as broken:
        yield from rows.broken(stream.broken or str(broken))


class _Bytes:
    """The bytes of a stream, taken in pieces of any size."""

    def __init__(self, stream: BlockStream) -> None:
        self._blocks = iter(stream)
        self._left = b""

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _LARGEST_BLOCK:
            raise _BrokenError(f"has a block of {size:,} bytes; at most {_LARGEST_BLOCK:,} can be read")
        parts, length = [self._left], len(self._left)
        while length < size:
            block = next(self._blocks, b"")
            if not block:
                raise _BrokenError("cannot be read as Avro: it ends early")
            parts.append(block)
            length += len(block)
        whole = b"".join(parts)
        self._left = whole[size:]
        return whole[:size]

    def has_more(self) -> bool:
        self._left = self._left or next(self._blocks, b"")
        return bool(self._left)

    def long(self) -> int:
        number = 0
        for shift in range(0, 64, 7):
            byte = self.read(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise _BrokenError("cannot be read as Avro: a number has more than 64 bits")


def _head(file: _Bytes) -> tuple[AvroPlan, Callable[[bytes], bytes], bytes]:
    """Read the head of a file: its schema, its codec, and the mark after each block."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise _BrokenError("is no Avro file: it does not begin with Obj1")
    metadata: dict[bytes, bytes] = {}
    while count := file.long():
        if count < 0:
            count = -count
            file.long()
        for _ in range(count):
            key = file.read(file.long())
            metadata[key] = file.read(file.long())
    codec = metadata.get(b"avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS:
        raise _BrokenError(f"has the unknown codec {codec[:40]!r}; {', '.join(_CODECS)} can be read")
    try:
        kind = parse(metadata.get(b"avro.schema", b"").decode(errors="replace"))
        plan = AvroPlan(compiled(kind, kind))
    except UnsupportedSchemaError as error:
        raise _BrokenError(f"has a schema that cannot be used: {error}") from None
    return plan, _CODECS[codec], file.read(_SYNC_BYTES)


def _blocks(file: _Bytes, plan: AvroPlan, unpack: Callable[[bytes], bytes], sync: bytes) -> Iterator[pa.Array]:
    row = 0
    while file.has_more():
        count = file.long()
        data = file.read(file.long())
        try:
            unpacked = unpack(data)
        except _ERRORS as error:
            raise _BrokenError(f"cannot be read after row {row}: {error}") from None
        rows, reason = plan.block(unpacked, max(count, 0))
        yield rows
        row += len(rows)
        if reason or file.read(_SYNC_BYTES) != sync:
            raise _BrokenError(f"cannot be read after row {row}: {reason or 'the mark after a block is missing'}")


def _joined(blocks: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """Join small blocks; what was read before an early end is not lost."""
    held: list[pa.Array] = []
    try:
        for block in blocks:
            held += [block] if len(block) else []
            if sum(map(len, held)) >= _BATCH_ROWS:
                yield pa.concat_arrays(held)
                held = []
    except _BrokenError:
        if held:
            yield pa.concat_arrays(held)
        raise
    if held:
        yield pa.concat_arrays(held)
