"""Access to the state folder, local or on an object store; it has one folder per pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs

from calve.errors import SettingsError
from calve.files.private import make_private, private
from calve.state.file_system import files_of

__all__ = ["Folder"]

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Folder:
    """A folder of a local disk or an object store.

    Attributes:
        files: Its file system.
        path: Its path in the file system.
        location: Its absolute path or URI.
    """

    files: pafs.FileSystem
    path: str
    location: str

    @staticmethod
    def at(location: str) -> Folder:
        """Return the folder at a path or URI; it need not exist.

        Raises:
            SettingsError: The location cannot be understood.
        """
        if "://" not in location:
            path = os.fspath(Path(location).expanduser().absolute())
            return Folder(pafs.LocalFileSystem(), path, path)
        try:
            files, path = files_of(location)
        except (ValueError, OSError) as error:
            raise SettingsError(
                f"the folder {location} cannot be opened: {error}",
                step="observe",
                target=location,
                hint="Give a local path, or a URI such as s3://bucket/prefix or hdfs://host/path",
            ) from error
        return Folder(files, path.rstrip("/"), location.rstrip("/"))

    def __truediv__(self, name: str) -> Folder:
        return Folder(self.files, f"{self.path}/{name}", f"{self.location}/{name}")

    def exists(self) -> bool:
        """Return whether the folder exists."""
        return bool(self.files.get_file_info(self.path).type != pafs.FileType.NotFound)

    def folders(self) -> list[str]:
        """Return the names of its published folders, sorted."""
        return [info.base_name for info in self._entries() if info.type == pafs.FileType.Directory]

    def file_infos(self) -> list[pafs.FileInfo]:
        """Return its published files, sorted by name."""
        return [info for info in self._entries() if info.type == pafs.FileType.File]

    def read(self, name: str) -> bytes:
        """Return the content of a small file.

        Raises:
            OSError: It cannot be read; FileNotFoundError: it does not exist.
        """
        with self.files.open_input_stream(f"{self.path}/{name}", compression=None) as stream:
            return bytes(stream.read())

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a file of any size, without line ends; the last line may have none.

        Raises:
            OSError: It cannot be read.
        """
        rest = b""
        with closing(self.files.open_input_stream(f"{self.path}/{name}", compression=None)) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
        if rest:
            yield rest

    def write(self, name: str, data: bytes) -> None:
        """Replace a small file atomically: a reader sees the old or the new content, never a part.

        Only one writer at a time is allowed.

        Raises:
            OSError: It cannot be written.
        """
        local = isinstance(self.files, pafs.LocalFileSystem)
        if not local:
            with self.files.open_output_stream(f"{self.path}/{name}", compression=None) as stream:
                stream.write(data)
            return
        unpublished = Path(self.path) / f"_{name}"
        make_private(unpublished.parent)
        with open(unpublished, "wb", opener=private) as file:
            file.write(data)
        unpublished.replace(Path(self.path) / name)

    def has(self, name: str) -> bool:
        """Return whether a file exists.

        Raises:
            OSError: The folder cannot be read.
        """
        return bool(self.files.get_file_info(f"{self.path}/{name}").type == pafs.FileType.File)

    def remove(self, name: str) -> None:
        """Remove a file unless it is gone already.

        Raises:
            OSError: It cannot be removed.
        """
        if self.has(name):
            self.files.delete_file(f"{self.path}/{name}")

    def _entries(self) -> list[pafs.FileInfo]:
        infos = self.files.get_file_info(pafs.FileSelector(self.path, allow_not_found=True))
        visible = [info for info in infos if not info.base_name.startswith(("_", "."))]
        return sorted(visible, key=lambda info: str(info.base_name))
