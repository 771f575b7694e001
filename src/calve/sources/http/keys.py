"""The memory of idempotency keys: of the log's segments, and of deleted segments.

Keys of deleted segments are in `keys-*.txt`, one `<epoch milliseconds> <key>` per line. A file is forgotten completely,
when its newest key is older than the window or there are more keys than the limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from calve.durable import sync
from calve.errors import SourceError

__all__ = ["KeyStore"]

_GENERATIONS = 16
"""The number of files: at most one part in 16 is forgotten at a time."""


@dataclass
class _Generation:
    path: Path
    newest_ms: int = 0
    keys: list[bytes] = field(default_factory=list)

    def add(self, time_ms: int, key: bytes) -> None:
        self.newest_ms = max(self.newest_ms, time_ms)
        self.keys.append(key)


class KeyStore:
    """Answers whether a key was seen; used by the log's thread only."""

    def __init__(self, folder: Path, window: timedelta, limit: int) -> None:
        self._folder = folder
        self._window_ms = window // timedelta(milliseconds=1)
        self._generation_keys = max(1, limit // _GENERATIONS)
        self._seen: set[bytes] = set()
        self._generations: list[_Generation] = []

    def __contains__(self, key: bytes) -> bool:
        return key in self._seen

    def load(self) -> None:
        """Read the keys of earlier runs.

        Raises:
            SourceError: A file is damaged.
        """
        for path in sorted(self._folder.glob("keys-*.txt")):
            self._generations.append(_read(path))
            self._seen.update(self._generations[-1].keys)
        self._forget()

    def add(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """Add the keys of records that are still in the log."""
        self._seen.update(key for _, key in keys)

    def keep(self, keys: list[tuple[int, bytes]]) -> None:
        """Make the keys of a segment durable before it is deleted; may be repeated.

        Raises:
            OSError: They are not durable; the segment must stay.
        """
        if not keys:
            return
        if not self._generations or len(self._generations[-1].keys) >= self._generation_keys:
            number = int(self._generations[-1].path.stem[5:]) + 1 if self._generations else 1
            self._generations.append(_Generation(self._folder / f"keys-{number:09d}.txt"))
        generation = self._generations[-1]
        with generation.path.open("ab") as file:
            file.write(b"".join(b"%d %s\n" % line for line in keys))
            file.flush()
            os.fsync(file.fileno())
        sync(self._folder)
        for time_ms, key in keys:
            generation.add(time_ms, key)
        self.add(keys)
        self._forget()

    def _forget(self) -> None:
        oldest_ms = time.time_ns() // 1_000_000 - self._window_ms
        while self._generations and (
            len(self._generations) > _GENERATIONS or self._generations[0].newest_ms < oldest_ms
        ):
            generation = self._generations.pop(0)
            self._seen.difference_update(generation.keys)
            generation.path.unlink(missing_ok=True)


def _read(path: Path) -> _Generation:
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):  # a crash cut the last line; its segment still exists
        os.truncate(path, whole)
    generation = _Generation(path)
    for line in data[:whole].splitlines():
        time_ms, _, key = line.partition(b" ")
        if not (time_ms.isdigit() and key):
            raise SourceError(
                f"the list of idempotency keys {path} is damaged",
                step="start",
                target=str(path),
                hint="Restore it from a copy; without it repeated requests become duplicates",
            )
        generation.add(int(time_ms), key)
    return generation
