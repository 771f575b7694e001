"""The memory of idempotency keys: of the log's segments, and of deleted segments.

Keys of deleted segments are in `keys-*.txt`, one `<epoch milliseconds> <key>` per line. A file is forgotten completely,
when its newest key is older than the window or there are more keys than the limit. The machine's clock says how old
keys of earlier runs are; from then on monotonic time counts: a clock that is set forward must not make keys old.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import PurePath

from calve.errors import SourceError
from calve.sources.source_files import SourceFiles, files_in
from calve.state.folder import StateFolder

__all__ = ["KeyStore"]

_GENERATIONS = 16
"""The number of files: at most one part in 16 is forgotten at a time."""


@dataclass
class _Generation:
    """The keys of one file; `kept_at`: when the newest of them was kept, in monotonic seconds."""

    name: str
    kept_at: float = -math.inf
    keys: list[bytes] = field(default_factory=list)


class KeyStore:
    """Answers whether a key was seen; used by the log's thread only.

    Args:
        folder: Where the files are.
        window: How long keys are remembered.
        limit: How many of them.
        clock: Monotonic seconds.
    """

    def __init__(
        self, folder: StateFolder, window: timedelta, limit: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._files = files_in(folder)
        self._window_seconds = window.total_seconds()
        self._clock = clock
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
        self._files.acquire()
        self._generations = []
        for name in self._files.names():
            if PurePath(name).match("keys-*.txt"):
                keys, age_seconds = _read(self._files, name)
                self._generations.append(_Generation(name, self._clock() - age_seconds, keys))
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
        generation.keys += [key for _, key in keys]
        generation.kept_at = self._clock()
        self.add(keys)
        self._forget()

    def _forget(self) -> None:
        oldest = self._clock() - self._window_seconds
        while self._generations and (len(self._generations) > _GENERATIONS or self._generations[0].kept_at < oldest):
            generation = self._generations.pop(0)
            self._seen.difference_update(generation.keys)
            self._files.remove([generation.name])


def _read(files: SourceFiles, name: str) -> tuple[list[bytes], float]:
    """Return the keys of a file, and the age of the newest one in seconds."""
    data = files.read(name) or b""
    whole = data.rfind(b"\n") + 1
    if whole != len(data):  # a crash cut the last line; its segment still exists
        files.write(name, data[:whole])
    keys, newest_ms = list[bytes](), 0
    for line in data[:whole].splitlines():
        time_ms, _, key = line.partition(b" ")
        if not (time_ms.isdigit() and key):
            raise SourceError(
                f"the list of idempotency keys {name} is damaged",
                step="start",
                target=name,
                hint="Restore it from a copy; without it repeated requests become duplicates",
            )
        keys.append(key)
        newest_ms = max(newest_ms, int(time_ms))
    return keys, max(time.time() - newest_ms / 1000, 0.0)
