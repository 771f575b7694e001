"""Creates the files and folders of a state, of dead letters and of logs, which have whole events, for this user only.

A folder that a group shall read has the setgid bit and no rights for others (`chgrp ops state; chmod 2750 state`):
what is created in it has the folder's rights of the group, too.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["create_private", "make_private", "private"]

_OWNER, _GROUP, _OTHERS = 0o700, 0o070, 0o007
_FILE = 0o666
"""Files are not executable."""


def private(path: str, flags: int) -> int:
    """Open a file for `open(…, opener=private)`; one that is created is private.

    Raises:
        OSError: It cannot be opened.
    """
    return os.open(path, flags, _FILE & _rights(Path(path).parent))


def create_private(file: Path) -> None:
    """Create an empty file unless it exists, for libraries that would create it for everybody.

    Raises:
        OSError: It cannot be created.
    """
    os.close(private(str(file), os.O_CREAT | os.O_WRONLY))


def make_private(folder: Path) -> None:
    """Create a folder and those above it, unless they exist.

    Raises:
        OSError: One cannot be created.
    """
    for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        path.mkdir(_rights(path.parent), exist_ok=True)
    folder.mkdir(exist_ok=True)  # an error if it is a file


def _rights(folder: Path) -> int:
    mode = folder.stat().st_mode
    is_shared = mode & stat.S_ISGID and not mode & _OTHERS
    return _OWNER | (mode & _GROUP if is_shared else 0)
