"""Small files that a source must remember, in a folder of the state: local (here) or on an object store."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from calve import durable, structs
from calve.errors import InvariantError
from calve.files.private import private
from calve.object_store import StateFolder, StoreFolder
from calve.sources.store_source_files import StoreFiles

__all__ = ["FilesAt", "LocalFiles", "SourceFiles", "encoded", "files_in", "posted_as", "read_as", "read_json"]

T = TypeVar("T")


class SourceFiles(Protocol):
    """The files of one source, by names that may have slashes. Any thread and any process may read.

    Only the driver that owns them may `write`, `append` and `remove`. Others may `post`, e.g. requests and what tasks
    found; the driver removes what was posted.

    Every method raises WriteError if they cannot be read or written, and those of the driver raise OvertakenError when
    another driver owns them.
    """

    def take(self) -> None:
        """Own the files from now on."""
        ...

    def check(self) -> None:
        """Check that no other driver owns the files by now; on a store this costs a write."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return a file; None: there is none."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """Return the names of all files, or of those in a folder, sorted."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one step; durable on return."""
        ...

    def append(self, name: str, content: bytes) -> None:
        """Write at the end of a file; durable on return. A crash may leave a part, on a local disk."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that do not exist count as removed."""
        ...

    def post(self, name: str, content: bytes) -> None:
        """Write a file of a name that only `post` uses; any process may, also more than once."""
        ...

    def posted(self, folder: str, now: bool = False) -> dict[str, bytes]:
        """Return what was posted to a folder, by name.

        Args:
            folder: The folder.
            now: Everything until now; otherwise what was posted in the last seconds may be missing.
        """
        ...

    def unpost(self, names: Iterable[str]) -> None:
        """Remove what was posted until now under some names."""
        ...


class LocalFiles:
    """Files in a local folder, which one driver owns by the lock of its ledger.

    Args:
        folder: `<state>/<pipeline>/<source>`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def take(self) -> None:
        """See `SourceFiles`."""
        durable.make_folder(self.folder)

    def check(self) -> None:
        """See `SourceFiles`."""

    def read(self, name: str) -> bytes | None:
        """See `SourceFiles`."""
        try:
            return (self.folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, folder: str = "") -> list[str]:
        """See `SourceFiles`; an empty folder names the files directly in it."""
        found = (self.folder / folder).glob("[!.]*")  # what a kill left unfinished begins with a point
        return sorted(str(path.relative_to(self.folder)) for path in found if path.is_file())

    def write(self, name: str, content: bytes) -> None:
        """See `SourceFiles`."""
        path = self.folder / name
        if not path.parent.exists():
            durable.make_folder(path.parent)
        durable.replace_bytes(path, content)

    def append(self, name: str, content: bytes) -> None:
        """See `SourceFiles`."""
        path = self.folder / name
        try:
            with open(path, "ab", opener=private) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            durable.sync(path.parent)
        except OSError as error:
            raise durable.refused(path, error) from error

    def remove(self, names: Iterable[str]) -> None:
        """See `SourceFiles`."""
        for name in names:
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def post(self, name: str, content: bytes) -> None:
        """See `SourceFiles`."""
        self.write(name, content)

    def posted(self, folder: str, now: bool = False) -> dict[str, bytes]:
        """See `SourceFiles`."""
        found: dict[str, bytes] = {}
        for name in self.names(folder):
            with contextlib.suppress(FileNotFoundError):
                found[name] = (self.folder / name).read_bytes()
        return found

    def unpost(self, names: Iterable[str]) -> None:
        """See `SourceFiles`."""
        self.remove(names)


FilesAt = StateFolder | SourceFiles
"""The files of a source, or its folder."""


def files_in(folder: FilesAt) -> SourceFiles:
    """Return the files in the folder of a source."""
    if isinstance(folder, StoreFolder):
        return StoreFiles(folder)
    return LocalFiles(folder) if isinstance(folder, Path) else folder


def encoded(value: Any) -> bytes:
    """Return a value as the content of a file."""
    return msgspec.json.encode(value)


def read_json(files: SourceFiles, name: str) -> Any | None:
    """Return the value in a file; None: there is none.

    Raises:
        InvariantError: It is damaged.
    """
    return read_as(files, name, Any)


def read_as(files: SourceFiles, name: str, kind: type[T]) -> T | None:
    """Return the value of a type in a file; None: there is none.

    Raises:
        InvariantError: It is damaged.
    """
    content = files.read(name)
    return None if content is None else _decoded(name, content, kind)


def posted_as(files: SourceFiles, folder: str, kind: type[T], now: bool = False) -> dict[str, T]:
    """Return what was posted to a folder as values of a type, by name.

    Raises:
        InvariantError: One is damaged.
    """
    return {name: _decoded(name, content, kind) for name, content in files.posted(folder, now).items()}


def _decoded(name: str, content: bytes, kind: type[T]) -> T:
    try:
        return structs.decoder(kind).decode(content)
    except ValueError as error:
        raise InvariantError(
            f"{name} of the source is damaged: {error}",
            step="read",
            target=name,
            hint="Bring it back from a backup; going on without it could lose or double events",
        ) from error
