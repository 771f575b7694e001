"""A folder of the state on a local disk."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from calve.files.private import make_private, private
from calve.state import durable
from calve.state.folder import NewFile, TaggedContent
from calve.stop_point import stop_at

__all__ = ["LocalFolder"]


@dataclass(frozen=True)
class LocalFolder:
    """Implements `StateFolder`. Folders that do not exist are created by the first write, for this user only."""

    path: Path

    @property
    def location(self) -> str:
        """See `StateFolder`."""
        return str(self.path)

    @property
    def is_shared(self) -> bool:
        """See `StateFolder`."""
        return False

    @property
    def name(self) -> str:
        """See `StateFolder`."""
        return self.path.name

    @property
    def parent(self) -> LocalFolder:
        """See `StateFolder`."""
        return LocalFolder(self.path.parent)

    def __truediv__(self, name: str) -> LocalFolder:
        return LocalFolder(self.path / name)

    def __str__(self) -> str:
        return str(self.path)

    def absolute(self) -> LocalFolder:
        """See `StateFolder`."""
        return LocalFolder(self.path.absolute())

    def make(self) -> None:
        """See `StateFolder`."""
        make_private(self.path)

    def exists(self) -> bool:
        """See `StateFolder`."""
        return self.path.exists()

    def folders(self) -> list[str]:
        """See `StateFolder`."""
        return sorted(entry.name for entry in self.path.iterdir() if entry.is_dir()) if self.path.exists() else []

    def names(self) -> list[str]:
        """See `StateFolder`."""
        files = (file for file in self.path.rglob("[!.]*") if file.is_file())
        return sorted(str(file.relative_to(self.path)) for file in files)

    def get(self, name: str) -> TaggedContent | None:
        """See `StateFolder`."""
        try:
            content = (self.path / name).read_bytes()
        except FileNotFoundError:
            return None
        return TaggedContent(content, _tag(content))

    def get_range(self, name: str, start: int, size_bytes: int) -> bytes:
        """See `StateFolder`."""
        with (self.path / name).open("rb") as file:
            return os.pread(file.fileno(), size_bytes, start)

    def put(self, name: str, content: bytes) -> None:
        """See `StateFolder`."""
        durable.replace(self._writable(name), content)

    def create(self, name: str, content: bytes) -> str | None:
        """See `StateFolder`."""
        return _tag(content) if durable.publish(self._writable(name), content) else None

    def swap(self, name: str, content: bytes, tag: str) -> str | None:
        """See `StateFolder`; of several processes one swaps at a time."""
        file = self.path / name
        if not file.exists():
            return None
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            current = self.get(name)
            if current is None or current.tag != tag:
                return None
            durable.replace(file, content)
            return _tag(content)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def new_file(self, name: str) -> Iterator[NewFile]:
        """See `StateFolder`."""
        published = self._writable(name)
        unfinished = published.with_name(f".{published.name}")
        try:
            with open(unfinished, "wb", opener=private) as file:
                yield NewFile(file.write, functools.partial(_publish, file, unfinished, published))
        finally:
            unfinished.unlink(missing_ok=True)

    @contextlib.contextmanager
    def building(self, name: str, last: str) -> Iterator[Path]:
        """See `StateFolder`."""
        unfinished = self.path / f"{name}.unfinished"
        if not self.path.exists():
            durable.make_folder(self.path)
        try:
            yield unfinished
            for file in unfinished.glob("[!._]*"):
                durable.sync(file)
            durable.sync(unfinished)
            stop_at("spool.before-publish")
            unfinished.rename(self.path / name)
            durable.sync(self.path)
        except OSError as error:
            raise durable.refused(unfinished, error) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def remove(self, names: Iterable[str]) -> None:
        """See `StateFolder`. A file may come back after a power failure."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def remove_all(self, names: Sequence[str]) -> None:
        """See `StateFolder`."""
        self.remove(names)

    def clear(self) -> None:
        """See `StateFolder`; the folder goes, too."""
        shutil.rmtree(self.path, ignore_errors=True)

    def check_conditions(self) -> None:
        """Do nothing: a disk honours them."""

    def _writable(self, name: str) -> Path:
        """Return the path of a file whose folder exists."""
        file = self.path / name
        if not file.parent.exists():
            durable.make_folder(file.parent)
        return file


def _tag(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _publish(file: BinaryIO, unfinished: Path, published: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    unfinished.rename(published)
    durable.sync(published.parent)
