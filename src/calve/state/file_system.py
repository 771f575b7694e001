"""The objects of stores as files, for what reads and writes files with pyarrow; S3 has pyarrow's own file system.

The connections are those of `store_folder`, on the driver and on executors, with the credentials of the environment.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from calve.errors import CalveError
from calve.files.ranges import RangeReader
from calve.state.folder import Listed
from calve.state.store_folder import StoreFolder

__all__ = ["file_system", "files_of"]

_SCHEMES = ("gs", "az", "memory")
_IN_MEMORY_BYTES = 4 << 20


def files_of(location: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a URI, and the path in it.

    Raises:
        ValueError: The URI cannot be understood.
        OSError: The file system cannot be opened.
    """
    scheme, _, path = location.partition("://")
    if scheme in _SCHEMES:
        return file_system(scheme), path
    files, path = pafs.FileSystem.from_uri(location)
    return files, path


@functools.cache
def file_system(scheme: str) -> pafs.FileSystem:
    """Return the file system of all stores of a kind; a path in it begins with the bucket."""
    return pafs.PyFileSystem(_Files(scheme))


class _Files(pafs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """The operations of a file system on an object store, which has no folders but those of its objects' names."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme

    def get_type_name(self) -> str:
        return self._scheme

    def normalize_path(self, path: str) -> str:
        return path.strip("/")

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        with _as_os_error():
            return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        base = selector.base_dir.strip("/")
        with _as_os_error():
            return list(self._below(base, selector.recursive))

    def create_dir(self, path: str, recursive: bool) -> None:
        """Do nothing: objects need no folder."""

    def delete_dir(self, path: str) -> None:
        with _as_os_error():
            folder = self._folder(path)
            folder.remove(folder.names())

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.delete_dir(path)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError("all buckets are not removed at once")

    def delete_file(self, path: str) -> None:
        with _as_os_error():
            folder, name = self._object(path)
            folder.remove([name])

    def move(self, src: str, dest: str) -> None:
        self.copy_file(src, dest)
        self.delete_file(src)

    def copy_file(self, src: str, dest: str) -> None:
        with self.open_input_stream(src) as source, self.open_output_stream(dest, None) as target:
            while block := source.read(_IN_MEMORY_BYTES):
                target.write(block)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        with _as_os_error():
            folder, name = self._object(path)
            listed = folder.head(name)
        if listed is None:
            raise FileNotFoundError(f"{folder / name}")
        read_range = functools.partial(_read_range, folder, listed.name)
        return pa.PythonFile(RangeReader(listed.size_bytes, read_range), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        return pa.PythonFile(_Writer(*self._object(path)), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise NotImplementedError("an object cannot be appended to")

    def _folder(self, path: str) -> StoreFolder:
        return StoreFolder(f"{self._scheme}://{path.strip('/')}")

    def _object(self, path: str) -> tuple[StoreFolder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name

    def _info(self, path: str) -> pafs.FileInfo:
        folder, name = self._object(path)
        if listed := folder.head(name) if folder.location.rstrip("/") != f"{self._scheme}:" else None:
            return _file(path, listed)
        is_folder = self._folder(path).exists()
        return pafs.FileInfo(path, pafs.FileType.Directory if is_folder else pafs.FileType.NotFound)

    def _below(self, base: str, recursive: bool) -> Iterator[pafs.FileInfo]:
        folders, objects = self._folder(base).entries()
        yield from (_file(f"{base}/{listed.name}", listed) for listed in objects)
        for name in folders:
            yield pafs.FileInfo(f"{base}/{name}", pafs.FileType.Directory)
            if recursive:
                yield from self._below(f"{base}/{name}", recursive)


def _read_range(folder: StoreFolder, name: str, start: int, size: int) -> bytes:
    with _as_os_error():
        return folder.get_range(name, start, size)


class _Writer:
    """Collects an object, and writes it when it is closed: it appears whole, or not at all."""

    def __init__(self, folder: StoreFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._spool: Any = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115
        self.closed = False

    def write(self, content: bytes) -> int:
        return int(self._spool.write(content))

    def tell(self) -> int:
        return int(self._spool.tell())

    def flush(self) -> None:
        """Do nothing: an object has no parts that could be seen."""

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        with self._spool, _as_os_error():
            self._spool.seek(0)
            self._folder.upload(self._name, self._spool)


def _file(path: str, listed: Listed) -> pafs.FileInfo:
    return pafs.FileInfo(path, pafs.FileType.File, mtime=listed.changed_at, size=listed.size_bytes)


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """Re-raise store errors as OSError, for callers that expect a file system."""
    try:
        yield
    except CalveError as error:
        raise OSError(error.message) from error
