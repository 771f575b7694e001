"""Temporary folders that do not stay for ever when their process is killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["private_folder", "temporary_folder"]

_LOCK = ".lock"
_YOUNG_SECONDS = 60.0
"""A new folder is not locked at once."""


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Give a folder that is removed at the end; folders of killed processes with this prefix are removed first.

    A folder in use has a locked file: the operating system frees it with its process, in other containers as well.
    """
    root = Path(tempfile.gettempdir())
    for old in root.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            about = old.lstat()
            mine = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
            if mine and time.time() - about.st_mtime > _YOUNG_SECONDS:
                _remove_unused(old)
    with tempfile.TemporaryDirectory(prefix=prefix) as name, (Path(name) / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(name)


def private_folder(name: str) -> Path | None:
    """Return the user's own folder of this name, which stays; None if another user made it or can write into it.

    In the temporary folder everybody may make a name or a link that a process will use.
    """
    folder = Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)
    about = folder.lstat()
    is_mine = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
    return folder if is_mine and not about.st_mode & 0o077 else None


def _remove_unused(folder: Path) -> None:
    """Remove a folder whose file nobody has locked.

    Raises:
        OSError: Somebody has, or it cannot be read.
    """
    with (folder / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
