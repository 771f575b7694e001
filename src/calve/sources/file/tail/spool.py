"""The bytes of batches that are not committed yet: a file that is followed may be cut or removed at any time.

<folder>/tail/<batch>-<token>.lines   all pieces of one batch, one behind the other
<folder>/tail/begun.json              with `start_position: end`, how far the files were written at the first start
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from calve.state import durable, values
from calve.state.folder import NewFile, StateFolder

__all__ = ["Spool"]

_SUFFIX = ".lines"
_BEGUN = "begun.json"


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
    def writing(self, name: str) -> Iterator[NewFile]:
        """Open a new file.

        Raises:
            WriteError: The disk is full, or the store does not answer.
        """
        try:
            with self.folder.new_file(name) as file:
                yield file
        except OSError as error:
            raise durable.refused(Path(self.folder.location), error) from error

    def read(self, name: str, start: int, size_bytes: int) -> pa.Buffer:
        """Return the bytes of a piece.

        Raises:
            FileNotFoundError: The file is gone.
            WriteError: The store does not answer.
        """
        return pa.py_buffer(self.folder.get_range(name, start, size_bytes))

    def remove(self, names: Collection[str]) -> None:
        """Remove files of committed batches; may be repeated."""
        self.folder.remove(names)

    def keep_only(self, names: Collection[str]) -> None:
        """Remove the files of a killed run."""
        self.remove([name for name in self.folder.names() if name.endswith(_SUFFIX) and name not in names])

    def begun(self, entries: Callable[[], list[Any]]) -> list[Any]:
        """Return the entries of the first start; the first call writes down those that it is given."""
        if self.folder.get(_BEGUN) is None:
            self.folder.create(_BEGUN, values.encoded(entries()))
        return list(values.read(self.folder, _BEGUN) or ())
