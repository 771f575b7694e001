"""The protocol of a folder of the state, and what its methods return; `location.state_folder_at` chooses a back end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ["Listed", "NewFile", "StateFolder", "TaggedContent"]


class TaggedContent(NamedTuple):
    """The content of a file or an object, and the tag that changes with its content."""

    content: bytes
    tag: str


class Listed(NamedTuple):
    """An object without its content."""

    name: str
    size_bytes: int
    changed_at: datetime


class NewFile(NamedTuple):
    """A file that exists only after `publish`, and is durable then."""

    write: Callable[[bytes], object]
    publish: Callable[[], None]


class StateFolder(Protocol):
    """A folder of a pipeline's state, used like a path: `folder / "name"`. A name may have slashes.

    Files are small unless a method says otherwise; each is there whole or not at all. What a kill left unfinished is
    not listed. Every method raises WriteError if the disk or the store refuses now, and SetupError if somebody must
    change something first.
    """

    @property
    def location(self) -> str:
        """Its path or URI."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether it is on an object store: the driver of another machine can take it over."""
        ...

    @property
    def name(self) -> str:
        """The last part of its location."""
        ...

    @property
    def parent(self) -> StateFolder:
        """The folder above it."""
        ...

    def __truediv__(self, name: str) -> StateFolder:
        """Return a folder below it."""
        ...

    def absolute(self) -> StateFolder:
        """Return the same folder by its absolute location."""
        ...

    def make(self) -> None:
        """Create it for this user only, where a folder must exist before its files.

        Raises:
            OSError: It cannot be created.
        """
        ...

    def exists(self) -> bool:
        """Return whether it exists; on an object store, whether any object is below it."""
        ...

    def folders(self) -> list[str]:
        """Return the names of the folders directly in it."""
        ...

    def names(self) -> list[str]:
        """Return the names of all files below it, relative to it, sorted."""
        ...

    def get(self, name: str) -> TaggedContent | None:
        """Return a file; None if it does not exist."""
        ...

    def get_range(self, name: str, start: int, size_bytes: int) -> bytes:
        """Return a part of a file of any size.

        Raises:
            FileNotFoundError: It does not exist.
        """
        ...

    def put(self, name: str, content: bytes) -> None:
        """Write a file in one step, whether or not it exists; durable on return."""
        ...

    def create(self, name: str, content: bytes) -> str | None:
        """Write a file unless it exists; return its tag, or None if it exists.

        After a lost answer the file may be there although this call failed.
        """
        ...

    def swap(self, name: str, content: bytes, tag: str) -> str | None:
        """Write a file if its tag is still this one; return its new tag, or None if it has changed or is gone.

        After a lost answer the file may be written although this call failed or returned None.
        """
        ...

    def new_file(self, name: str) -> AbstractContextManager[NewFile]:
        """Open a new file of any size.

        Raises:
            OSError: The local disk refuses.
        """
        ...

    def building(self, name: str, last: str) -> AbstractContextManager[Path]:
        """Yield the path of a new local folder, whose files become a folder below this one when the block ends.

        Args:
            name: The name of the folder.
            last: The file without which the folder counts as missing: it appears last. Files whose names begin with
                a point or a line are no part of the folder.
        """
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that do not exist count as removed."""
        ...

    def remove_all(self, names: Sequence[str]) -> None:
        """Remove many files, with few requests to a store that can."""
        ...

    def clear(self) -> None:
        """Remove all files below it."""
        ...

    def check_conditions(self) -> None:
        """Check that `create` and `swap` keep two drivers apart.

        Raises:
            SetupError: The store ignores the conditions of writes: two drivers could both believe that they own the
                state.
        """
        ...
