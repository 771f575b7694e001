"""Objects of a store as files that are read in ranges."""

from __future__ import annotations

import io
from collections.abc import Callable

__all__ = ["RangeReader"]


class RangeReader(io.RawIOBase):
    """A file of a known size, of which parts are read as they are asked for.

    Args:
        size_bytes: Its size.
        read_range: Returns the bytes from a position, so many of them; both are inside of the file.
        ahead_bytes: The least bytes of one request, if the file has so many: the next ones are probably asked for.
    """

    def __init__(self, size_bytes: int, read_range: Callable[[int, int], bytes], ahead_bytes: int = 0) -> None:
        self._size_bytes, self._read_range, self._ahead_bytes = size_bytes, read_range, ahead_bytes
        self._at, self._ahead, self._ahead_at = 0, b"", 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def size(self) -> int:
        """Return the size of the file."""
        return self._size_bytes

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size_bytes}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Read the next bytes."""
        bytes_left = max(0, self._size_bytes - self._at)
        size = bytes_left if size is None or size < 0 else min(size, bytes_left)
        if not size:
            return b""
        start = self._at - self._ahead_at
        if not 0 <= start <= start + size <= len(self._ahead):
            self._ahead = self._read_range(self._at, min(bytes_left, max(size, self._ahead_bytes)))
            self._ahead_at, start = self._at, 0
        data = self._ahead[start : start + size]
        self._at += len(data)
        return data
