"""The runs of a key index: new ones are added, and four of a size are merged, so each entry is written a few times."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from calve.commit.key_state import RunFile
from calve.compiled.key_runs import Bitmap, Bits, Numbers, OpenRun, find_keys, merge_runs, write_run
from calve.files.private import create_private
from calve.stop_point import stop_at

__all__ = ["RunLevels"]

_MERGED = 4
_SMALL_ROWS = 16_384
"""Runs of up to so many entries have the lowest level; a higher one has four times as many."""


class RunLevels:
    """Runs, the oldest first. Files of merged runs stay until `key_state.sweep`, so an older state can still be used.

    Args:
        folder: The folder of the index.
        files: Its runs.

    Raises:
        DamagedRunError: A run is damaged.
        OSError: A run cannot be read.
    """

    def __init__(self, folder: Path, files: Sequence[RunFile]) -> None:
        self._folder = folder
        self._runs = [(file, OpenRun(folder / file.name)) for file in files]

    def copy(self) -> RunLevels:
        """Return the same runs, to be changed on their own."""
        levels = RunLevels(self._folder, ())
        levels._runs = [*self._runs]
        return levels

    @property
    def files(self) -> tuple[RunFile, ...]:
        """The runs, the oldest first."""
        return tuple(file for file, _ in self._runs)

    @property
    def rows(self) -> int:
        """The number of entries."""
        return sum(file.rows for file in self.files)

    def find(self, keys: Bits, dead: Bitmap) -> Numbers:
        """Return the entries of keys as `find_keys` does.

        Raises:
            DamagedRunError: A block is damaged.
        """
        return find_keys([run for _, run in reversed(self._runs)], keys, dead)

    def add(self, keys: Bits, files: Numbers, positions: Numbers, dead: Bitmap) -> None:
        """Add entries as the newest run.

        Args:
            keys: The key of each.
            files: The number of its file, perhaps with a flag.
            positions: Its position there.
            dead: Files whose entries are no longer needed.

        Raises:
            DamagedRunError: A run is damaged.
            OSError: The disk refuses.
        """
        name = self._new_name()
        self._open(name, write_run(self._folder / name, keys, files, positions))
        stop_at("index.after-run")
        while (first := self._first_to_merge()) is not None:
            self.merge(first, dead)

    def merge(self, first: int, dead: Bitmap) -> None:
        """Merge all runs from this one on.

        Raises:
            DamagedRunError: A run is damaged.
            OSError: The disk refuses.
        """
        name, chosen = self._new_name(), [run for _, run in reversed(self._runs[first:])]
        rows = merge_runs(chosen, self._folder / name, dead, is_last=first == 0)
        stop_at("index.after-merge")
        del self._runs[first:]
        self._open(name, rows)

    def _open(self, name: str, rows: int) -> None:
        self._runs.append((RunFile(name, rows), OpenRun(self._folder / name)))

    def _new_name(self) -> str:
        """Create a file whose name no run ever had: in a folder that was restored in part none is taken for another."""
        name = f"run-{secrets.token_hex(8)}"
        create_private(self._folder / name)
        return name

    def _first_to_merge(self) -> int | None:
        """Return the first of the newest runs of which four have one level, and none a higher one."""
        levels = [_level(file.rows) for file in self.files]
        for level in sorted(set(levels)):
            first = len(levels)
            while first and levels[first - 1] <= level:
                first -= 1
            if levels[first:].count(level) >= _MERGED:
                return first
        return None


def _level(rows: int) -> int:
    level = 0
    while rows > _SMALL_ROWS:
        rows, level = rows // _MERGED, level + 1
    return level
