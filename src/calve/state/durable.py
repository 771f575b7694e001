"""Files that are either there and whole or not there at all, also after the power failed."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from calve.errors import CalveError, SetupError, WriteError
from calve.files.private import make_private, private

__all__ = [
    "append",
    "is_lasting",
    "local_path",
    "make_folder",
    "publish",
    "refused",
    "remove",
    "replace",
    "sync",
    "try_folder",
]

_TRYING = threading.Lock()
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_LASTING = frozenset(
    (
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENAMETOOLONG,
        errno.ELOOP,
    )
)
"""Why a path cannot be written and will not be later either: unlike a full disk, somebody must change something."""


def make_folder(folder: Path, is_private: bool = True) -> None:
    """Create a folder and those above it; durable on return.

    Args:
        folder: The folder.
        is_private: Whether they are for this user only (`private_files`), else as the process creates folders.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        if is_private:
            make_private(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            sync(path.parent)
    except OSError as error:
        raise refused(folder, error) from error


def publish(file: Path, content: bytes) -> bool:
    """Write a file unless it exists; durable on return. False: it was there, and stays as it is."""
    return _write(file, content, _link)


def replace(file: Path, content: bytes) -> None:
    """Write a file in place of an older one, in one step; durable on return."""
    _write(file, content, _rename)


def append(file: Path, content: bytes) -> None:
    """Write at the end of a file; durable on return. A crash may leave a part of the content."""
    try:
        with open(file, "ab", opener=private) as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        sync(file.parent)
    except OSError as error:
        raise refused(file, error) from error


def remove(file: Path) -> None:
    """Remove a file that nobody needs any more; it may come back after a power failure."""
    file.unlink(missing_ok=True)


def _write(file: Path, content: bytes, put: Callable[[Path, Path], bool]) -> bool:
    """Write beside the file, for this user only, force to disk, then let it appear under its name."""
    unpublished = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_native_id()}")
    try:
        with open(unpublished, "wb", opener=private) as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        is_new = put(unpublished, file)
        sync(file.parent)
        return is_new
    except OSError as error:
        raise refused(file, error) from error
    finally:
        with contextlib.suppress(OSError):  # on a read-only disk not even a missing file can be removed
            unpublished.unlink(missing_ok=True)


def _link(unpublished: Path, file: Path) -> bool:
    try:
        os.link(unpublished, file)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return not file.exists() and _rename(unpublished, file)  # nobody else writes here: the driver's lock is held
    return True


def _rename(unpublished: Path, file: Path) -> bool:
    unpublished.replace(file)
    return True


def sync(path: Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def try_folder(folder: Path) -> None:
    """See whether files can be written in a folder, which is made for this if it is missing; nothing is left of it.

    Raises:
        SetupError: They cannot.
        WriteError: They cannot now, e.g. because the disk is full.
    """
    with _TRYING:  # a folder that one thread made for this would be there already for the next, which then leaves it
        _try_alone(folder.absolute())


def _try_alone(folder: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    probe = folder / f".calve-probe.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"calve")
    except OSError as error:
        raise refused(folder, error) from error
    finally:
        with contextlib.suppress(OSError):  # another process may use the folder by now, or there was none to make
            probe.unlink(missing_ok=True)
            for path in missing:
                path.rmdir()


def local_path(location: str) -> Path | None:
    """Return the path of a local location, or None for an object store's.

    A `%` stands for itself, as it does for Hadoop and PyIceberg: partitions have escapes in their names.
    """
    if location.startswith("/"):
        return Path(location)
    scheme = urlsplit(location).scheme
    if scheme == "":
        return Path(location)
    return Path(re.sub(r"^file:(//[^/]*)?", "", location)) if scheme == "file" else None


def is_lasting(error: OSError) -> bool:
    """Whether what the operating system refuses stays refused until somebody changes something."""
    return error.errno in _LASTING


def refused(path: Path, error: OSError) -> CalveError:
    """Return the error for a file or folder that the operating system does not let us write."""
    number = errno.ENOTDIR if error.errno == errno.EEXIST else error.errno or 0
    message = f"{path} cannot be written: {os.strerror(number)}"
    if is_lasting(error):
        hint = "Change its permissions, or choose another folder"
        return SetupError(message, step="ledger", target=str(path), hint=hint)
    wish = "Make room there" if number in (errno.ENOSPC, errno.EDQUOT) else "Check the disk"
    hint = f"{wish}; Calve tries again, and nothing is lost meanwhile"
    return WriteError(message, step="ledger", target=str(path), hint=hint)
