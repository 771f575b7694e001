"""What tasks get to know of a file sink, and how one writes the files of a batch. Runs on executors.

The names of files come from the batch, so a batch that comes again after a crash replaces its own files. Its manifest
is written last: it names the files that are complete.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
import pyarrow as pa
from pyiceberg.io import load_file_io

from calve.sinks.file.settings import FILES
from calve.sinks.job import Work
from calve.sinks.records.job import BatchJob
from calve.sinks.records.lines import lines
from calve.sinks.records.record import OutgoingRecord
from calve.sinks.records.writer import BatchWriter, Refusal
from calve.state.clients import file_io_at
from calve.state.durable import local_path, make_folder, refused, sync
from calve.stop_point import stop_at
from calve.write.parquet import storage_error

__all__ = ["FileJob", "FileWriter"]

MANIFESTS = "_manifests"
"""The folder of manifests; readers of data pass over names that begin with an underscore."""
_ENDINGS = {"none": "", "gzip": ".gz", "zstd": ".zst"}


@dataclass(frozen=True)
class FileJob(BatchJob):
    """A sink's part of a job, of which one task writes the files.

    Attributes:
        root: The folder that all files are in, at any depth.
        compression: How they are compressed.
    """

    root: str
    compression: Literal["none", "gzip", "zstd"]

    def writer(self, work: Work) -> FileWriter:
        """Make what writes files in a task."""
        return FileWriter(self, work)


class FileWriter(BatchWriter):
    """Writes the records of one batch: a file in each folder.

    Args:
        job: The sink's part of the job.
        work: The task.
    """

    def __init__(self, job: FileJob, work: Work) -> None:
        super().__init__(work, job.shape, job.fields, job.time_ms)
        self._job = job

    def send(self, targets: set[str], records: Callable[[], Iterator[OutgoingRecord]]) -> Refusal | None:
        """Write the files, then the manifest; nothing if there are no records."""
        job, files = self._job, list[dict[str, Any]]()
        contents: dict[str, list[bytes]] = {}
        for record, line in lines(records()):
            contents.setdefault(record.target, []).append(line)
        for folder, rows in contents.items():
            data = _compressed(b"".join(rows), job.compression)
            path = f"{folder}/{job.name}{FILES}{_ENDINGS[job.compression]}"
            _write(path, data)
            stop_at("task.after-file")
            files.append({"path": path[len(job.root) + 1 :], "rows": len(rows), "bytes": len(data)})
        if files:
            manifest = {"batch": job.name, "time_ms": job.time_ms, "files": files}
            _write(f"{job.root}/{MANIFESTS}/{job.name}.json", msgspec.json.encode(manifest))
        return None


def _compressed(data: bytes, compression: str) -> bytes:
    if compression == "gzip":
        return gzip.compress(data, 6, mtime=0)
    if compression == "zstd":
        compressed: bytes = pa.compress(data, codec="zstd", asbytes=True)
        return compressed
    return data


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
