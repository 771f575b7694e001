"""Small files that a source must remember, in a folder of the state: local (here) or on an object store."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from calve import structs
from calve.errors import InvariantError
from calve.sources.store_source_files import StoreFiles
from calve.state import durable
from calve.state.folder import StateFolder

__all__ = ["FilesAt", "LocalFiles", "SourceFiles", "encoded", "files_in", "posted_as", "read_as", "read_json"]

T = TypeVar("T")


class LocalFiles:
    """The files of one source in a local folder, by names that may have slashes. Any thread and any process may read.

    Only the driver that owns them, by the lock of its ledger, may `write`, `append` and `remove`. Others may `post`,
    e.g. requests and what tasks found; the driver removes what was posted. Every method raises WriteError if they
    cannot be read or written.

    Args:
        folder: `<state>/<pipeline>/<source>`.
    """

    def __init__(self, folder: StateFolder) -> None:
        self.folder = folder

    def acquire(self) -> None:
        """Own the files from now on."""
        durable.make_folder(Path(self.folder.location))

    def check(self) -> None:
        """Check that no other driver owns the files by now."""

    def read(self, name: str) -> bytes | None:
        """Return a file; None: there is none."""
        stored = self.folder.get(name)
        return stored.content if stored else None

    def names(self, folder: str = "") -> list[str]:
        """Return the names of the files directly in a folder, sorted."""
        prefix = f"{folder}/" if folder else ""
        return [f"{prefix}{name}" for name in (self.folder / folder).names() if "/" not in name]

    def write(self, name: str, content: bytes) -> None:
        """Write a file in one step; durable on return."""
        self.folder.put(name, content)

    def append(self, name: str, content: bytes) -> None:
        """Write at the end of a file; durable on return. A crash may leave a part."""
        durable.append(Path(self.folder.location, name), content)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that do not exist count as removed."""
        self.folder.remove(names)

    def post(self, name: str, content: bytes) -> None:
        """Write a file of a name that only `post` uses; any process may, also more than once."""
        self.folder.put(name, content)

    def posted(self, folder: str, now: bool = False) -> dict[str, bytes]:
        """Return what was posted to a folder, by name; on a store, unless `now`, the last seconds may be missing."""
        files = {name: self.read(name) for name in self.names(folder)}
        return {name: content for name, content in files.items() if content is not None}

    def unpost(self, names: Iterable[str]) -> None:
        """Remove what was posted until now under some names."""
        self.folder.remove(names)


SourceFiles = LocalFiles | StoreFiles
FilesAt = StateFolder | SourceFiles
"""The files of a source, or its folder."""


def files_in(folder: FilesAt) -> SourceFiles:
    """Return the files in the folder of a source."""
    if isinstance(folder, LocalFiles | StoreFiles):
        return folder
    return StoreFiles(folder) if folder.is_shared else LocalFiles(folder)


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
