"""The state folder as its readers see it: local, or on an object store; one folder per pipeline in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs

from calve.errors import SettingsError

__all__ = ["Folder"]

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Folder:
    """A folder of a local disk or an object store.

    Attributes:
        files: The file system it is on.
        path: Its path there.
        location: Its absolute path or URI, by which it is found again.
    """

    files: pafs.FileSystem
    path: str
    location: str

    @staticmethod
    def at(location: str) -> Folder:
        """Find a folder by path or URI; it need not exist.

        Raises:
            SettingsError: The location cannot be understood.
        """
        if "://" not in location:
            path = os.fspath(Path(location).expanduser().absolute())
            return Folder(pafs.LocalFileSystem(), path, path)
        try:
            files, path = pafs.FileSystem.from_uri(location)
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
        """Say whether something is there."""
        return bool(self.files.get_file_info(self.path).type != pafs.FileType.NotFound)

    def folders(self) -> list[str]:
        """Name the published folders in it, sorted."""
        return [info.base_name for info in self._entries() if info.type == pafs.FileType.Directory]

    def file_infos(self) -> list[pafs.FileInfo]:
        """Give the published files in it, sorted by name."""
        return [info for info in self._entries() if info.type == pafs.FileType.File]

    def read(self, name: str) -> bytes:
        """Give a small file whole.

        Raises:
            OSError: It cannot be read; FileNotFoundError: it is not there.
        """
        with self.files.open_input_stream(f"{self.path}/{name}", compression=None) as stream:
            return bytes(stream.read())

    def lines(self, name: str) -> Iterator[bytes]:
        """Stream the lines of a file, without their ends, whatever its size; the last one may have no end.

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
        """Replace a small file in one step: a reader finds the old one or the new one, never a part.

        One writer at a time.

        Raises:
            OSError: It cannot be written.
        """
        self.files.create_dir(self.path, recursive=True)
        local = isinstance(self.files, pafs.LocalFileSystem)
        unpublished = f"{self.path}/_{name}" if local else f"{self.path}/{name}"
        with self.files.open_output_stream(unpublished, compression=None) as stream:
            stream.write(data)
        if local:
            Path(unpublished).replace(Path(self.path) / name)

    def _entries(self) -> list[pafs.FileInfo]:
        found = self.files.get_file_info(pafs.FileSelector(self.path, allow_not_found=True))
        shown = [info for info in found if not info.base_name.startswith(("_", "."))]
        return sorted(shown, key=lambda info: str(info.base_name))
