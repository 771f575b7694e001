"""Stops reading before dead letters fill their disk: whoever sends bad events must not stop good ones for ever."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from calve.errors import WriteError
from calve.observe.humanize import size
from calve.observe.state_folder import Folder
from calve.state.durable import local_path

__all__ = ["MAX_BYTES", "MIN_FREE_BYTES", "Room", "RoomLimits", "check_batch"]

MAX_BYTES = 16 << 30
MIN_FREE_BYTES = 256 << 20
_SHARE_OF_DISK = 20
"""Of a small disk a twentieth is enough free space."""
_CHECK_SECONDS = 5.0


class RoomLimits(NamedTuple):
    """The most bytes of dead letters in a local folder, and the least free space on its disk."""

    max_bytes: int = MAX_BYTES
    min_free_bytes: int = MIN_FREE_BYTES


class Room:
    """Checks from time to time how much room is left for dead letters.

    Args:
        limits: By location; an object store has no disk that fills, and is not checked.
        clock: Monotonic seconds.
    """

    def __init__(self, limits: Mapping[str, RoomLimits], clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = {location: limit for location, limit in limits.items() if local_path(location) is not None}
        self._clock = clock
        self._next_check = dict.fromkeys(self._limits, float("-inf"))
        self._sizes: dict[str, int] = {}

    def check(self, record: Callable[[int, bool], None]) -> None:
        """Check that there is room for the dead letters of another batch.

        Args:
            record: Gets the size of all dead letters, and whether there is no room for more.

        Raises:
            WriteError: There is none; once some are replayed and removed, there is again.
        """
        for location, limits in self._limits.items():
            if self._clock() >= self._next_check[location]:
                self._sizes[location] = _size(location)
                self._next_check[location] = self._clock() + _CHECK_SECONDS
            reason, hint = _full(location, limits, self._sizes[location])
            record(sum(self._sizes.values()), bool(reason))
            if reason:
                raise WriteError(f"Nothing more is read: {reason}", step="reject", target=location, hint=hint)


def check_batch(location: str, limits: RoomLimits, more_bytes: int) -> None:
    """Check that there is room for the dead letters that a task has collected, beside those in their folder.

    Raises:
        WriteError: There is none: the batch is not written, and is tried again.
    """
    if local_path(location) is None:
        return
    reason, hint = _full(location, limits, _size(location) + more_bytes, more_bytes)
    if reason:
        raise WriteError(f"A batch has too many dead letters: {reason}", step="reject", target=location, hint=hint)


def _full(location: str, limits: RoomLimits, taken_bytes: int, more_bytes: int = 0) -> tuple[str, str]:
    """Return why there is no room, and what helps; empty: there is."""
    if taken_bytes >= limits.max_bytes:
        those = f"with {size(more_bytes)} of this batch " if more_bytes else ""
        return (
            f"{those}the dead letters in {location} have {size(taken_bytes)}, and `dlq: {{max_bytes}}` is "
            f"{size(limits.max_bytes)}",
            "Look at them (`calve dlq list`), replay them, and move old files away; or raise max_bytes",
        )
    disk = shutil.disk_usage(_existing(local_path(location) or Path(location)))
    if disk.free - more_bytes < min(limits.min_free_bytes, disk.total // _SHARE_OF_DISK):
        return (
            f"the disk of the dead letters in {location} has only {size(disk.free)} of free space",
            "Free disk space there, or set another folder as `dlq` of the sink",
        )
    return "", ""


def _size(location: str) -> int:
    try:
        return sum(info.size or 0 for info in Folder.at(location).file_infos())
    except OSError:  # a folder that cannot be read is reported where dead letters are written
        return 0


def _existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.parents) if parent.exists())
