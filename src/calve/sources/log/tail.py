"""The end of the log: the only file that is written."""

from __future__ import annotations

import os
from pathlib import Path

from calve.errors import CalveError
from calve.sources.log import segment
from calve.sources.log.segment import Segment

__all__ = ["Tail"]

_sync = getattr(os, "fdatasync", os.fsync)


class Tail:
    """Writes complete records to the open segment, or nothing.

    After a failed write the file may have unacknowledged bytes: it is *broken* until they are cut off, and
    nothing is written before that.
    """

    overtaken: CalveError | None = None
    """See `StoreTail`: only one process has a local log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1
        self._broken = False
        self.segment: Segment

    def open(self, last: Segment | None) -> None:
        """Continue after the last segment's durable end, or start a new log.

        Raises:
            OSError: The file can be neither created nor repaired.
        """
        if last is None:
            self._descriptor = segment.create(self._folder, 1, 0)
            self.segment = Segment(1, 0)
            return
        self.segment = last
        self._descriptor = os.open(self._folder / segment.name(last.number), os.O_RDWR | os.O_CLOEXEC)
        self._broken = True
        self.repair()

    def write(self, data: bytes) -> None:
        """Append complete records, and wait until they are on disk.

        Raises:
            OSError: They are not; call `repair` before the next write.
        """
        self._broken = True
        view, at = memoryview(data), self.segment.end
        while view:
            written = os.pwrite(self._descriptor, view, at)
            view, at = view[written:], at + written
        _sync(self._descriptor)
        self._broken = False

    def repair(self) -> None:
        """Cut off the remains of a failed write.

        Raises:
            OSError: They are still there.
        """
        if self._broken:
            os.ftruncate(self._descriptor, self.segment.end)
            os.fsync(self._descriptor)
            self._broken = False

    def roll(self) -> Segment:
        """Close the segment, and return a new one, which is now open.

        Raises:
            OSError: The old one stays open.
        """
        self.repair()
        number, end = self.segment.number + 1, self.segment.end
        descriptor = segment.create(self._folder, number, end)
        self.close()
        self._descriptor, self.segment = descriptor, Segment(number, end)
        return self.segment

    def delete(self, old: Segment) -> None:
        """Delete a closed segment.

        Raises:
            OSError: It is still there.
        """
        (self._folder / segment.name(old.number)).unlink(missing_ok=True)

    def free_bytes(self) -> int:
        """Return the free space on the disk."""
        status = os.statvfs(self._folder)
        return status.f_bavail * status.f_frsize

    def hurry(self) -> None:
        """See `StoreTail`: a disk answers by itself."""

    def close(self) -> Segment | None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        return None
