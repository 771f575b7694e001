"""The bytes of batches that are not committed yet: a file that is followed may be cut or removed at any time.

<folder>/tail/<batch>-<token>.lines   all pieces of one batch, one behind the other
<folder>/tail/begun.json              with `start_position: end`, how far the files were written at the first start
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from calve import durable
from calve.files.private import private
from calve.object_store import StateFolder, StoreFolder

__all__ = ["Spool"]

_SUFFIX = ".lines"
_BEGUN = "begun.json"
_Opened = tuple[Callable[[bytes], object], Callable[[], None]]


@dataclass(frozen=True)
class Spool:
    """The spool of one source; has only its folder, so it pickles. Tasks read, the driver writes.

    Attributes:
        folder: `<state>/<pipeline>/file/tail`, local or on an object store.
    """

    folder: StateFolder

    def new_name(self, batch: int) -> str:
        """Return a name that no other driver chooses."""
        return f"{batch}-{os.urandom(4).hex()}{_SUFFIX}"

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[_Opened]:
        """Open a new file; it exists only after the second function has been called, and is durable then.

        Yields:
            Writes bytes, and publishes all of them.

        Raises:
            WriteError: The disk is full, or the store does not answer.
        """
        try:
            with self._object(name) if isinstance(self.folder, StoreFolder) else self._file(name) as opened:
                yield opened
        except OSError as error:
            raise durable.refused(Path(str(self.folder)), error) from error

    def read(self, name: str, start: int, size_bytes: int) -> pa.Buffer:
        """Return the bytes of a piece.

        Raises:
            FileNotFoundError: The file is gone.
            WriteError: The store does not answer.
        """
        if isinstance(self.folder, StoreFolder):
            return pa.py_buffer(self.folder.get_range(name, start, size_bytes))
        with (self.folder / name).open("rb") as file:
            return pa.py_buffer(os.pread(file.fileno(), size_bytes, start))

    def remove(self, names: Collection[str]) -> None:
        """Remove files of committed batches; may be repeated."""
        if isinstance(self.folder, StoreFolder):
            self.folder.remove(names)
            return
        for name in names:
            durable.remove(self.folder / name)

    def keep_only(self, names: Collection[str]) -> None:
        """Remove the files of a killed run."""
        if isinstance(self.folder, StoreFolder):
            found = self.folder.names()
        else:
            found = [file.name for file in self.folder.iterdir()] if self.folder.exists() else []
        self.remove([name for name in found if name.endswith(_SUFFIX) and name not in names])

    def begun(self, entries: Callable[[], list[Any]]) -> list[Any]:
        """Return the entries of the first start; the first call writes down those that it is given."""
        if isinstance(self.folder, StoreFolder):
            if self.folder.get(_BEGUN) is None:
                self.folder.create(_BEGUN, msgspec.json.encode(entries()))
            found = self.folder.get(_BEGUN)
            return list(msgspec.json.decode(found.content)) if found else []
        durable.make_folder(self.folder)
        if durable.read(self.folder / _BEGUN) is None:
            durable.publish(self.folder / _BEGUN, entries())
        return list(durable.read(self.folder / _BEGUN) or ())

    @contextlib.contextmanager
    def _file(self, name: str) -> Iterator[_Opened]:
        assert isinstance(self.folder, Path)
        durable.make_folder(self.folder)
        unfinished = self.folder / f".{name}"
        try:
            with open(unfinished, "wb", opener=private) as file:
                yield file.write, functools.partial(_publish, file, unfinished, self.folder / name)
        finally:
            unfinished.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _object(self, name: str) -> Iterator[_Opened]:
        with tempfile.NamedTemporaryFile(prefix="calve-tail-") as temporary:
            yield temporary.write, functools.partial(self._upload, name, temporary)

    def _upload(self, name: str, file: Any) -> None:
        assert isinstance(self.folder, StoreFolder)
        file.flush()
        self.folder.upload(name, Path(file.name))


def _publish(file: BinaryIO, unfinished: Path, published: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    unfinished.rename(published)
    durable.sync(published.parent)
