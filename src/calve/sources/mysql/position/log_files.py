"""When the files of the binary log were begun: after a reset there are others with the same names."""

from __future__ import annotations

from calve.sources.source_files import FilesAt, encoded, files_in, read_json

__all__ = ["LogFiles"]

_FILE = "files.json"
_KEPT = 3
"""Older files are not read again."""


class LogFiles:
    """The last files that were read; kept in the state.

    Args:
        folder: The source's files.
    """

    def __init__(self, folder: FilesAt) -> None:
        self._files = files_in(folder)
        self._begun: dict[str, int] = read_json(self._files, _FILE) or {}

    def is_same(self, number: int, seconds: int) -> bool:
        """Return whether a file is the one that was read under its number, or is new; then it is remembered.

        Args:
            number: Its number.
            seconds: When it was begun, as its first event has it.
        """
        name = str(number)
        if name not in self._begun:
            kept = sorted(self._begun, key=int)[1 - _KEPT :]
            self._begun = {**{file: self._begun[file] for file in kept}, name: seconds}
            self._files.write(_FILE, encoded(self._begun))
        return self._begun[name] == seconds
