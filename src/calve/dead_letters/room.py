"""Stops reading before dead letters fill their disk: whoever sends bad events must not stop good ones for ever."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from calve.durable import local_path
from calve.errors import WriteError
from calve.observe.humanize import size
from calve.observe.state_folder import Folder

__all__ = ["MAX_BYTES", "MIN_FREE_BYTES", "Room", "RoomLimits"]

MAX_BYTES = 16 << 30
MIN_FREE_BYTES = 256 << 20
_SHARE_OF_DISK = 20
"""Of a small disk a twentieth is enough free space."""
_LOOK_SECONDS = 5.0


class RoomLimits(NamedTuple):
    """The most bytes of dead letters in a local folder, and the least free space on its disk."""

    max_bytes: int = MAX_BYTES
    min_free_bytes: int = MIN_FREE_BYTES


class Room:
    """Looks now and then how much room for dead letters is left.

    Args:
        limits: By location; an object store has no disk that fills, and is not looked at.
        clock: Monotonic seconds.
    """

    def __init__(self, limits: Mapping[str, RoomLimits], clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = {location: each for location, each in limits.items() if local_path(location) is not None}
        self._clock = clock
        self._next_look = dict.fromkeys(self._limits, float("-inf"))
        self._sizes: dict[str, int] = {}

    def check(self, record: Callable[[int, bool], None]) -> None:
        """Check that there is room for the dead letters of another batch.

        Args:
            record: Gets the size of all dead letters, and whether there is no room for more.

        Raises:
            WriteError: There is none; once some are replayed and removed, there is again.
        """
        for location, limits in self._limits.items():
            if self._clock() >= self._next_look[location]:
                self._sizes[location] = _size(location)
                self._next_look[location] = self._clock() + _LOOK_SECONDS
            reason, hint = self._full(location, limits)
            record(sum(self._sizes.values()), bool(reason))
            if reason:
                raise WriteError(f"Nothing more is read: {reason}", step="reject", target=location, hint=hint)

    def _full(self, location: str, limits: RoomLimits) -> tuple[str, str]:
        taken = self._sizes[location]
        if taken >= limits.max_bytes:
            return (
                f"the dead letters in {location} have {size(taken)}, and `dlq: {{max_bytes}}` is "
                f"{size(limits.max_bytes)}",
                "Look at them (`calve dlq list`), replay them, and move old files away; or raise max_bytes",
            )
        disk = shutil.disk_usage(_existing(local_path(location) or Path(location)))
        if disk.free < min(limits.min_free_bytes, disk.total // _SHARE_OF_DISK):
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
