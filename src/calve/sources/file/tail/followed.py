"""One file that is followed: which file it is, how far it is read, and whether its content is still the same."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calve.sources.file.paths import local_path, real_path
from calve.sources.file.stream import compression_of
from calve.sources.file.tail.cut import Cutter

__all__ = ["PIECE_BYTES", "FollowedFile", "Read", "TailPiece"]

PIECE_BYTES = 16 << 20
"""About how much of a file one task reads."""
_MARK_BYTES = 1024


@dataclass(frozen=True)
class Read:
    """How far a file has been read.

    Attributes:
        offset: The next byte.
        lines: The lines before it; -1: unknown.
        head: The first bytes that were read.
        tail: The last bytes before the offset. Both show whether the file still has the content that was read.
    """

    offset: int = 0
    lines: int = 0
    head: bytes = b""
    tail: bytes = b""

    @property
    def mark(self) -> str:
        """A fingerprint of head and tail."""
        return hashlib.blake2b(self.head + self.tail, digest_size=8).hexdigest()

    @staticmethod
    def of(file: int, offset: int, lines: int) -> Read:
        """Return the state at an offset of an open file, which may be shorter."""
        size = min(offset, _MARK_BYTES)
        return Read(offset, lines, os.pread(file, size, 0), os.pread(file, size, offset - size))

    def after(self, text: bytes, lines: int) -> Read:
        """Return the state behind some more bytes, that complete so many lines."""
        head = self.head + text[: _MARK_BYTES - len(self.head)] if len(self.head) < _MARK_BYTES else self.head
        line_count = self.lines + lines if self.lines >= 0 else -1
        return Read(self.offset + len(text), line_count, head, (self.tail + text[-_MARK_BYTES:])[-_MARK_BYTES:])

    def holds(self, file: int) -> bool:
        """Return whether an open file still has the bytes that were read."""
        at = self.offset - len(self.tail)
        return os.pread(file, len(self.head), 0) == self.head and os.pread(file, len(self.tail), at) == self.tail


@dataclass(frozen=True)
class TailPiece:
    """Some complete events of a file, after so many of its lines."""

    path: str
    size_bytes: int
    lines: int


@dataclass
class FollowedFile:
    """A file, identified by its device and inode and by what was read of it.

    Attributes:
        path: The path under which it was found first, for metadata and messages.
        device: The number of its device.
        inode: Its number there.
        read: How far it has been read.
        now: Its path now; empty if it has none.
        real: The same without symbolic links.
        known: Offset, lines and mark of an earlier run, until the file has been compared with them.
        is_matched: Whether its path now matches a pattern.
        is_gone: Whether it has no path any more, and is read to its end.
        is_compressed: Whether it cannot be followed because it is compressed.
        limit: Where reading ends (`--once`).
    """

    path: str
    device: int
    inode: int
    read: Read = field(default_factory=Read)
    now: str = ""
    real: str = ""
    known: tuple[int, int, str] | None = None
    is_matched: bool = True
    is_gone: bool = False
    is_compressed: bool = False
    limit: int | None = None
    _file: int = -1
    _status: os.stat_result | None = None
    _written: float = -math.inf
    _checked: tuple[int, int] = (-1, -1)
    _waits: Cutter | None = None

    @staticmethod
    def of(entry: list[Any]) -> FollowedFile:
        """Return a file of a position; it is compared with its content when it is opened."""
        path, device, inode, offset, lines, mark, is_gone = entry
        return FollowedFile(path, device, inode, real=real_path(path), known=(offset, lines, mark), is_gone=is_gone)

    @property
    def entry(self) -> list[Any]:
        """What a position has about it."""
        reached = self.known or (self.read.offset, self.read.lines, self.read.mark)
        return [self.path, self.device, self.inode, *reached, self.is_gone]

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        return self.device, self.inode

    @property
    def is_open(self) -> bool:
        """Whether a descriptor keeps the file from disappearing."""
        return self._file >= 0

    @property
    def size(self) -> int:
        """Its size when it was looked at."""
        return self._status.st_size if self._status else 0

    @property
    def modified(self) -> int:
        """When it was written last, in nanoseconds since 1970."""
        return self._status.st_mtime_ns if self._status else 0

    @property
    def unread(self) -> int:
        """The bytes that have not been read."""
        end = self.size if self.limit is None else min(self.size, self.limit)
        return end - self.read.offset

    def idle_for(self, seconds: float) -> bool:
        """Return whether nothing was written for this time; a change of the machine's clock does not count."""
        return time.monotonic() - self._written >= seconds

    def refresh(self) -> None:
        """Look at its size and time.

        Raises:
            OSError: It is gone, or its path has another file now.
        """
        status = os.fstat(self._file) if self.is_open else Path(local_path(self.now)).stat()
        if (status.st_dev, status.st_ino) != self.identity:
            raise FileNotFoundError(self.now)
        self._set(status)

    def _set(self, status: os.stat_result) -> None:
        """Note its size and time. Only when these change is the machine's clock asked how long ago that was."""
        if self._status is None or (status.st_size, status.st_mtime_ns) != (self.size, self.modified):
            self._written = time.monotonic() - max(time.time() - status.st_mtime, 0.0)
        self._status = status

    @property
    def is_changed(self) -> bool:
        """Whether its content may have changed since it was compared with what was read."""
        return (self.size, self.modified) != self._checked

    def open(self) -> None:
        """Open it.

        Raises:
            OSError: It cannot be read, or its path has another file now.
        """
        if self.is_open:
            return
        file = os.open(local_path(self.now), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(file)
        if (status.st_dev, status.st_ino) != self.identity:
            os.close(file)
            raise FileNotFoundError(self.now)
        self._set(status)
        self._file, self._checked = file, (-1, -1)

    def close(self) -> None:
        """Let it go."""
        if self.is_open:
            os.close(self._file)
            self._file = -1

    def check(self, compression: str) -> int | None:
        """Compare it with what was read, and begin again at its start if it has other content now.

        Args:
            compression: The setting, to see whether the file is compressed.

        Returns:
            How many bytes had been seen and not read of content that was replaced; None: it is the same.
        """
        lost, before = None, self._checked[0]
        if self.known:
            offset, lines, mark = self.known
            self.read, self.known = Read.of(self._file, offset, lines), None
            is_same = self.read.mark == mark and len(self.read.tail) == min(offset, _MARK_BYTES)
        else:
            is_same = self.size >= self.read.offset and self.read.holds(self._file)
        if not is_same:
            lost = max(before - self.read.offset, 0)
            self.read, self.limit = Read(), None if self.limit is None else 0
        if self.read.offset == 0:
            self.is_compressed = compression_of(self.path, compression, lambda: os.pread(self._file, 4, 0)) != "none"
            self.read = Read.of(self._file, self._hole(), 0)
        self._checked = (self.size, self.modified)
        self._waits = None
        return lost

    def skip_to_end(self) -> None:
        """Count all complete lines as read."""
        self.read = Read.of(self._file, Cutter().end(self._file, 0, self.size, self.size), -1)

    def skip_to(self, offset: int) -> None:
        """Count so many bytes as read; none if it has fewer now, because its content was replaced."""
        if self.size >= offset:
            self.read = Read.of(self._file, offset, -1)

    def write_next(self, cutter: Cutter, most: int, write: Callable[[bytes], object]) -> tuple[list[TailPiece], Read]:
        """Write the next complete events, about `most` bytes; return where they are, and the state after them.

        Of a file that is cut meanwhile it writes what was still there. `self.read` does not change.

        Args:
            cutter: Finds the ends of events.
            most: More is left for the next batch; one event is taken even so.
            write: Gets the bytes of each piece.

        Raises:
            OSError: The file cannot be read.
        """
        pieces: list[TailPiece] = []
        read = self.read
        limit, until = read.offset + self.unread, read.offset + most
        while read.offset < limit and (read.offset < until or not pieces):
            end = cutter.end(self._file, read.offset, limit, min(until, read.offset + PIECE_BYTES))
            text = self._bytes(read.offset, end)
            if text is None or not self._still_holds():
                break
            write(text)
            pieces.append(TailPiece(self.path, len(text), read.lines))
            read = read.after(text, text.count(b"\n"))
            if not text:
                break
        return [piece for piece in pieces if piece.size_bytes], read

    def is_ready(self, cutter: Cutter) -> bool:
        """Return whether events may be complete."""
        is_known = self.is_open and self.known is None and not self.is_compressed
        return is_known and self.unread > 0 and self._waits != cutter

    def waits(self, cutter: Cutter) -> None:
        """Remember that no event is complete until the file changes, or until its last event may end."""
        self._waits = cutter

    def _still_holds(self) -> bool:
        """Return whether bytes that were just read follow on those that were read before: nobody replaced these."""
        return os.fstat(self._file).st_size < self.read.offset or self.read.holds(self._file)

    def _bytes(self, start: int, end: int) -> bytes | None:
        blocks = []
        while start < end:
            block = os.pread(self._file, end - start, start)
            if not block:
                return None
            blocks.append(block)
            start += len(block)
        return b"".join(blocks)

    def _hole(self) -> int:
        """Return where text begins: a writer that does not append leaves zeros behind when its file is cut."""
        if os.pread(self._file, 1, 0) != b"\0":
            return 0
        at = os.lseek(self._file, 0, os.SEEK_DATA)
        while block := os.pread(self._file, _MARK_BYTES, at):
            rest = block.lstrip(b"\0")
            at += len(block) - len(rest)
            if rest:
                break
        return at
