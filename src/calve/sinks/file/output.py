"""Writes the files of a batch, each in one step, and the manifest that names them. Runs on executors.

The names of files come from the batch, so a batch that comes again after a crash replaces its own files. Its manifest
is written last: it names the files that are complete.
"""

from __future__ import annotations

import fcntl
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from pyiceberg.io import load_file_io

from calve.state.clients import file_io_at
from calve.state.durable import local_path, make_folder, refused, sync
from calve.stop_point import stop_at
from calve.write.parquet import storage_error

__all__ = ["BatchFiles"]

MANIFESTS = "_manifests"
"""The folder of manifests; readers of data pass over names that begin with an underscore."""


@dataclass
class BatchFiles:
    """The files of one batch.

    Attributes:
        root: The folder that all files are in, at any depth.
        name: That of the batch.
        endings: How names of files end.
        time_ms: The time of the batch, in milliseconds since the epoch.
    """

    root: str
    name: str
    endings: str
    time_ms: int
    _files: list[dict[str, Any]] = field(default_factory=list)

    def add(self, folder: str, data: bytes, rows: int) -> None:
        """Write the file of a folder.

        Raises:
            CalveError: It cannot be written.
        """
        path = f"{folder}/{self.name}{self.endings}"
        _write(path, data)
        stop_at("task.after-file")
        self._files.append({"path": path[len(self.root) + 1 :], "rows": rows, "bytes": len(data)})

    def finish(self) -> None:
        """Write the manifest; nothing if there are no files; `Raises` as above."""
        if self._files:
            manifest = {"batch": self.name, "time_ms": self.time_ms, "files": self._files}
            _write(f"{self.root}/{MANIFESTS}/{self.name}.json", msgspec.json.encode(manifest))


def _write(path: str, data: bytes) -> None:
    """Write a file in one step, in place of an older one; durable on return.

    Raises:
        CalveError: It cannot be written.
    """
    local = local_path(path)
    if local is not None:
        _write_local(local, data)
        return
    try:
        with load_file_io(file_io_at(path), path).new_output(path).create(overwrite=True) as file:
            file.write(data)
    except OSError as error:
        raise storage_error(path, error, "write") from error


def _write_local(file: Path, data: bytes) -> None:
    try:
        make_folder(file.parent, is_private=False)
        with _unpublished(file.with_name(f".{file.name}")) as handle:
            try:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
                Path(handle.name).replace(file)
            except BaseException:
                Path(handle.name).unlink()
                raise
        sync(file.parent)
    except OSError as error:
        raise refused(file, error) from error


def _unpublished(path: Path) -> BinaryIO:
    """Open an empty file for this task alone: one that a killed task has left, or a new one."""
    handle = path.open("ab")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle.fileno()), path.stat()):
            handle.truncate(0)
            return handle
    except (BlockingIOError, FileNotFoundError):  # another attempt of this task is writing it, or has published it
        pass
    except OSError:  # the file system has no locks
        path.unlink(missing_ok=True)
    handle.close()
    return path.with_name(f"{path.name}.{os.getpid()}.{threading.get_native_id()}").open("wb")
