"""When the files of the binary log were begun: after a reset there are others with the same names."""

from __future__ import annotations

from pathlib import Path

from calve import durable

__all__ = ["LogFiles"]

_KEPT = 3
"""Older files are not read again."""


class LogFiles:
    """The last files that were read; kept in the state.

    Args:
        folder: The source's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "files.json"
        self._begun: dict[str, int] = durable.read(self._path) or {}

    def is_same(self, number: int, seconds: int) -> bool:
        """Return whether a file is the one that was read under its number, or is new; then it is remembered.

        Args:
            number: Its number.
            seconds: When it was begun, as its first event has it.
        """
        name = str(number)
        if name not in self._begun:
            kept = sorted(self._begun, key=int)[1 - _KEPT :]
            self._begun = {**{each: self._begun[each] for each in kept}, name: seconds}
            durable.replace(self._path, self._begun)
        return self._begun[name] == seconds
