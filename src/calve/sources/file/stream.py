"""Reads the bytes of a file or of a part, in blocks: plain, gzip, zstd. Of a cut file it yields the readable part."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa
import zstandard

__all__ = ["BLOCK_BYTES", "BlockStream", "FileLines", "Plain", "Unpacked", "compression_of", "head", "strip_suffix"]

BLOCK_BYTES = 16 << 20
_PACKED_BYTES = 64 << 10
_SEEK_BYTES = 64 << 10
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}


class BlockStream(Protocol):
    """Blocks of bytes; if they end early, `broken` is the reason, as the rest of a sentence about the file."""

    broken: str

    def __iter__(self) -> Iterator[bytes]:
        """Return the blocks, about `BLOCK_BYTES` long; the last one may be shorter."""
        ...


class Plain:
    """The first `end` bytes of a file, unchanged, even if it has grown since."""

    def __init__(self, file: pa.NativeFile, end: int) -> None:
        self.broken = ""
        self._file, self._end = file, end

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        bytes_left = self._end
        while bytes_left and (block := self._file.read(min(BLOCK_BYTES, bytes_left))):
            bytes_left -= len(block)
            yield block
        self.broken = _shrunk(self._end - bytes_left, self._end) if bytes_left else ""


class FileLines:
    """The lines of a file that begin in `[start, end)`: every line of a divided file is in exactly one part."""

    def __init__(self, file: pa.NativeFile, start: int, end: int, size: int, block_bytes: int = BLOCK_BYTES) -> None:
        self.broken = ""
        self._file, self._start, self._end, self._size = file, start, end, size
        self._block_bytes = block_bytes

    def __iter__(self) -> Iterator[bytes]:
        at = self._next_line(self._start)
        if at >= self._end:
            return
        stop = self._next_line(self._end)
        self._file.seek(at)
        while at < stop and (block := self._file.read(min(self._block_bytes, stop - at))):
            at += len(block)
            yield block
        self.broken = _shrunk(at, stop) if at < stop else ""

    def _next_line(self, at: int) -> int:
        """Return the position of the first line that begins at or after a position."""
        if at == 0 or at >= self._size:
            return min(at, self._size)
        at -= 1
        self._file.seek(at)
        while block := self._file.read(min(_SEEK_BYTES, self._size - at)):
            if (newline := block.find(b"\n")) >= 0:
                return int(at + newline + 1)
            at += len(block)
        return self._size


class Unpacked:
    """The unpacked content of a gzip or zstd file, with all members or frames, block by block."""

    def __init__(self, file: pa.NativeFile, compression: str) -> None:
        self.broken = ""
        self._file, self._compression = file, compression

    def __iter__(self) -> Iterator[bytes]:
        block = bytearray()
        for piece in self._pieces():
            block += piece
            if len(block) >= BLOCK_BYTES:
                yield bytes(block)
                block = bytearray()
        if block:
            yield bytes(block)

    def _pieces(self) -> Iterator[bytes]:
        self._file.seek(0)
        new = _DECOMPRESSORS[self._compression]
        engine, whole = new(), False
        while packed := self._file.read(_PACKED_BYTES):
            while packed:
                try:
                    yield engine.decompress(packed)
                except (zlib.error, zstandard.ZstdError):
                    self.broken = f"is not a valid {self._compression} file from about byte {self._file.tell()} on"
                    return
                whole, packed = engine.eof, engine.unused_data
                if whole:
                    engine, packed = new(), packed.lstrip(b"\0")  # zeros may pad the end (gzip's manual)
        if not whole:
            self.broken = f"ends in the middle of its {self._compression} data (cut off?)"


def head(file: pa.NativeFile, compression: str) -> bytes:
    """Return some of the first bytes of a file, unpacked; none if it is damaged."""
    data = bytes(file.read_at(_PACKED_BYTES, 0))
    if compression == "none":
        return data
    try:
        return bytes(_DECOMPRESSORS[compression]().decompress(data))
    except (zlib.error, zstandard.ZstdError):
        return b""


def compression_of(path: str, setting: str, magic: Callable[[], bytes]) -> str:
    """Return `none`, `gzip` or `zstd`: from the settings, the file name, or the first bytes."""
    if setting != "automatic":
        return setting
    for suffix, compression in _SUFFIXES.items():
        if path.lower().endswith(suffix):
            return compression
    first = magic()
    return next((compression for sign, compression in _MAGIC.items() if first.startswith(sign)), "none")


def strip_suffix(path: str) -> str:
    """Return a name without the extension of a compression."""
    return next((path[: -len(suffix)] for suffix in _SUFFIXES if path.lower().endswith(suffix)), path)


def _shrunk(end: int, expected: int) -> str:
    return f"ends at byte {end} where {expected} bytes were listed (cut or replaced while it was read?)"


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "zstd": lambda: zstandard.ZstdDecompressor().decompressobj(),
}
