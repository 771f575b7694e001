"""The folder of a key index: `<state>/<pipeline>/keys/<table's UUID>@<branch>`, for one process at a time.

It is always on a local disk. If the state is on an object store, it is in the cache folder of the machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from calve.commit.key_state import FILE, LOCK
from calve.engine.jvm.cache import cache_folder
from calve.files.private import make_private
from calve.state.folder import StateFolder

__all__ = ["KEYS", "FolderInUseError", "IndexFolder"]

KEYS = "keys"
"""The folder of all indexes in the state of a pipeline."""
_UNUSED_DAYS = 30
"""An index that nobody has used for so long is removed: of a table that was dropped, for example."""


class FolderInUseError(Exception):
    """Another process uses the folder."""


class IndexFolder:
    """The folder of one index.

    Args:
        state: The state of the pipeline.
        uuid: The table's UUID.
        branch: The branch.
    """

    def __init__(self, state: StateFolder, uuid: str, branch: str) -> None:
        self._state = state
        self.name = f"{uuid}@{quote(branch, safe='')}"
        self._lock: int | None = None

    def __str__(self) -> str:
        return str(self._path)

    @property
    def _path(self) -> Path:
        """The folder.

        Raises:
            EngineError: There is no cache folder.
        """
        if not self._state.is_shared:
            return Path(self._state.absolute().location) / KEYS / self.name
        digest = hashlib.sha256(self._state.location.encode()).hexdigest()[:16]
        return cache_folder() / KEYS / digest / self.name

    def has_index(self) -> bool:
        """Return whether an index is there."""
        return (self._path / FILE).exists()

    def locked(self) -> Path:
        """Return the folder, which no other process uses until this one ends.

        Raises:
            FolderInUseError: Another process does.
            OSError: The disk refuses.
        """
        folder = self._path
        if self._lock is None or not (folder / LOCK).exists():
            make_private(folder)
            lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                _refuse(folder)
            self.unlock()
            self._lock = lock
            self._clean(folder.parent)
        return folder

    def _clean(self, folder: Path) -> None:
        """Remove indexes that were not used for long."""
        oldest = time.time() - _UNUSED_DAYS * 86_400
        for other in folder.iterdir():
            with suppress(OSError):
                if other.name != self.name and (other / FILE).stat().st_mtime < oldest:
                    shutil.rmtree(other)

    def unlock(self) -> None:
        """Let another process use it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _refuse(folder: Path) -> NoReturn:
    raise FolderInUseError(f"another process uses {folder}")
