"""The memory of idempotency keys: of the log's segments, and of deleted segments.

Keys of deleted segments are in `keys-*.txt`, one `<epoch milliseconds> <key>` per line. A file is forgotten completely,
when its newest key is older than the window or there are more keys than the limit.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePath

from calve.errors import SourceError
from calve.object_store import StateFolder
from calve.sources.source_files import SourceFiles, files_in

__all__ = ["KeyStore"]

_GENERATIONS = 16
"""The number of files: at most one part in 16 is forgotten at a time."""


@dataclass
class _Generation:
    name: str
    newest_ms: int = 0
    keys: list[bytes] = field(default_factory=list)

    def add(self, time_ms: int, key: bytes) -> None:
        self.newest_ms = max(self.newest_ms, time_ms)
        self.keys.append(key)


class KeyStore:
    """Answers whether a key was seen; used by the log's thread only."""

    def __init__(self, folder: StateFolder, window: timedelta, limit: int) -> None:
        self._files = files_in(folder)
        self._window_ms = window // timedelta(milliseconds=1)
        self._generation_keys = max(1, limit // _GENERATIONS)
        self._seen: set[bytes] = set()
        self._generations: list[_Generation] = []

    def __contains__(self, key: bytes) -> bool:
        return key in self._seen

    def load(self) -> None:
        """Read the keys of earlier runs, and own them from now on.

        Raises:
            SourceError: A file is damaged.
            WriteError: The object store does not answer; may be repeated.
        """
        self._files.take()
        self._generations = []
        for name in self._files.names():
            if PurePath(name).match("keys-*.txt"):
                self._generations.append(_read(self._files, name))
                self._seen.update(self._generations[-1].keys)
        self._forget()

    def add(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """Add the keys of records that are still in the log."""
        self._seen.update(key for _, key in keys)

    def keep(self, keys: list[tuple[int, bytes]]) -> None:
        """Make the keys of a segment durable before it is deleted; may be repeated.

        Raises:
            CalveError: They are not durable; the segment must stay.
        """
        if not keys:
            return
        if not self._generations or len(self._generations[-1].keys) >= self._generation_keys:
            number = int(PurePath(self._generations[-1].name).stem[5:]) + 1 if self._generations else 1
            self._generations.append(_Generation(f"keys-{number:09d}.txt"))
        generation = self._generations[-1]
        self._files.append(generation.name, b"".join(b"%d %s\n" % line for line in keys))
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
            self._files.remove([generation.name])


def _read(files: SourceFiles, name: str) -> _Generation:
    data = files.read(name) or b""
    whole = data.rfind(b"\n") + 1
    if whole != len(data):  # a crash cut the last line; its segment still exists
        files.write(name, data[:whole])
    generation = _Generation(name)
    for line in data[:whole].splitlines():
        time_ms, _, key = line.partition(b" ")
        if not (time_ms.isdigit() and key):
            raise SourceError(
                f"the list of idempotency keys {name} is damaged",
                step="start",
                target=name,
                hint="Restore it from a copy; without it repeated requests become duplicates",
            )
        generation.add(int(time_ms), key)
    return generation
