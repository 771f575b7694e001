"""Small objects on an object store, with the conditions that make them safe for several writers.

The store is one of `store_client`. It must honour the conditions of a write: that the object does not exist
(`If-None-Match: *`, on Google Cloud Storage generation 0), and that it still is the one that was read (`If-Match` with
its ETag, on Google Cloud Storage its generation).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

from calve.errors import CalveError, SettingsError, SetupError, WriteError
from calve.store_client import CREDENTIALS, SET_CLOCK, blames_clock, connected

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["Found", "Listed", "StateFolder", "StoreFolder", "state_folder_at"]

_STEP = "ledger"
_LASTING = ("NoSuchBucket", "ContainerNotFound", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken")
_STATUS = re.compile(r"status code: (\d{3}[^:\n]*)")
_ANSWER = (re.compile(r"<Code>([^<]+)"), re.compile(r"<Message>([^<\n]+)"))
_OF_THE_SYSTEM = re.compile(r'\bOs \{[^}]*message: "([^"]+)"')
_CONFLICT = "status code: 409"
"""Another request for the same object is under way: unlike 412 it does not say that a condition does not hold."""
_EXISTS = "BlobAlreadyExists"
"""The code of Azure's 409 that does say it."""
_NO_KEYS = "169.254.169.254"
"""Without keys the library asks the machine of a cloud for them, at this address."""


class Found(NamedTuple):
    """An object: its content, and the tag that changes with each write."""

    content: bytes
    tag: str


class Listed(NamedTuple):
    """An object without its content."""

    name: str
    size_bytes: int
    changed_at: datetime


@dataclass(frozen=True)
class StoreFolder:
    """A prefix on an object store, used like a folder: `folder / "name"`.

    Every method raises WriteError if the store does not answer, and SetupError if it refuses the keys or the bucket.

    Attributes:
        location: Its URI, without a slash at the end; `memory://…` is a store within this process, for tests.
    """

    location: str

    @staticmethod
    def at(location: str) -> StoreFolder:
        """Return the folder of a URI.

        Raises:
            SettingsError: It is not `s3://`, `gs://` or `az://` with a bucket or container, and an optional prefix.
        """
        scheme, _, rest = location.partition("://")
        if scheme not in CREDENTIALS or not rest.split("/", maxsplit=1)[0]:
            needed = "HDFS has no conditional writes, which keep two drivers apart. " if scheme == "hdfs" else ""
            raise SettingsError(
                f"The state cannot be kept at {location}",
                step="start",
                target=location,
                hint=f"{needed}Set --state to a local path, or to s3://bucket/prefix, gs://bucket/prefix or "
                "az://container/prefix",
            )
        return StoreFolder(f"{scheme}://{rest.strip('/')}")

    def __truediv__(self, name: str) -> StoreFolder:
        return StoreFolder(f"{self.location}/{name}")

    def __str__(self) -> str:
        return self.location

    @property
    def name(self) -> str:
        """The last part of the URI."""
        return self.location.rpartition("/")[2]

    @property
    def parent(self) -> StoreFolder:
        """The folder above it."""
        return StoreFolder(self.location.rpartition("/")[0])

    def absolute(self) -> StoreFolder:
        """Return itself: a URI is always absolute."""
        return self

    def exists(self) -> bool:
        """Return whether any object is below it."""
        return next(self._listed(), None) is not None

    def names(self) -> list[str]:
        """Return the names of all objects below it, relative to it, sorted."""
        return sorted(self._listed())

    def get(self, name: str) -> Found | None:
        """Return an object; None if it does not exist."""
        import obstore

        with self._errors():
            try:
                found = obstore.get(self._store, self._path(name))
            except FileNotFoundError:
                return None
            return Found(bytes(found.bytes()), str(found.meta[self._tag]))

    def look(self, name: str) -> Listed | None:
        """Return what a listing says of an object; None if it does not exist."""
        import obstore

        with self._errors():
            try:
                found = obstore.head(self._store, self._path(name))
            except FileNotFoundError:
                return None
            return Listed(name, found["size"], found["last_modified"])

    def entries(self) -> tuple[list[str], list[Listed]]:
        """Return the names of the folders and the objects directly in it."""
        import obstore

        prefix = self._path("")
        with self._errors():
            found = obstore.list_with_delimiter(self._store, prefix)
            objects = [
                Listed(str(one["path"])[len(prefix) :], one["size"], one["last_modified"]) for one in found["objects"]
            ]
            return [str(one)[len(prefix) :].rstrip("/") for one in found["common_prefixes"]], objects

    def get_range(self, name: str, start: int, size_bytes: int) -> bytes:
        """Return a part of an object.

        Raises:
            FileNotFoundError: It does not exist.
        """
        import obstore

        with self._errors():
            try:
                return bytes(obstore.get_range(self._store, self._path(name), start=start, length=size_bytes))
            except FileNotFoundError:
                pass
        raise FileNotFoundError(f"{self / name}")

    def put(self, name: str, content: bytes) -> None:
        """Write an object, whether or not it exists."""
        import obstore

        with self._errors():
            obstore.put(self._store, self._path(name), content)

    def create(self, name: str, content: bytes) -> str | None:
        """Write an object unless it exists; return its tag, or None if it exists.

        After a lost answer the object may be there although this call failed.
        """
        return self._put_if(name, content, "create")

    def swap(self, name: str, content: bytes, tag: str) -> str | None:
        """Write an object if its tag is still this one; return its new tag, or None if it has changed or is gone.

        After a lost answer the object may be written although this call failed or returned None.
        """
        return self._put_if(name, content, {self._tag: tag})

    def upload(self, name: str, file: Path | IO[bytes]) -> None:
        """Write an object of any size from a local file, whether or not it exists."""
        import obstore

        with self._errors():
            obstore.put(self._store, self._path(name), file)

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that do not exist count as removed."""
        import obstore

        with self._errors():
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._store, self._path(name))

    def remove_all(self, names: Sequence[str]) -> None:
        """Remove many objects with few requests, where the store can; those that do not exist count as removed."""
        import obstore

        with self._errors():
            try:
                obstore.delete(self._store, [self._path(name) for name in names])
                return
            except FileNotFoundError:
                pass
        self.remove(names)

    def check_conditions(self) -> None:
        """Check that the store refuses writes whose condition does not hold.

        Raises:
            SetupError: It does not: two drivers could both believe that they own the state.
        """
        name = f"_calve-probe-{os.urandom(8).hex()}"
        try:
            self.create(name, b"1")
            refuses = self.create(name, b"2") is None
            found = self.get(name)
            swaps = found is not None and self.swap(name, b"3", found.tag) is not None
            refuses = refuses and found is not None and self.swap(name, b"4", found.tag) is None
        finally:
            self.remove([name])
        if not (refuses and swaps):
            raise SetupError(
                f"The object store of {self.location} ignores the conditions of writes (If-Match, If-None-Match)",
                step="start",
                target=self.location,
                hint="Use a store that supports conditional writes, such as those of Amazon, Google and Azure, or a "
                "local --state",
            )

    def _put_if(self, name: str, content: bytes, mode: Any) -> str | None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        with self._errors():
            try:
                result = obstore.put(self._store, self._path(name), content, mode=mode)
            except (AlreadyExistsError, PreconditionError) as error:
                if _CONFLICT in str(error) and _EXISTS not in str(error):
                    raise BaseError(str(error)) from error
                return None
            except FileNotFoundError:
                if mode == "create":
                    raise  # there is no such bucket
                return None
            return str(result[self._tag])

    def _listed(self) -> Iterator[str]:
        import obstore

        prefix = self._path("")
        with self._errors():
            for chunk in obstore.list(self._store, prefix):
                yield from (str(one["path"])[len(prefix) :] for one in chunk)

    @property
    def _store(self) -> ObjectStore:
        from obstore.exceptions import BaseError

        try:
            return connected(self._scheme, self.location.split("/", maxsplit=3)[2])
        except (BaseError, ValueError) as error:
            raise self._refused(error) from error

    @property
    def _scheme(self) -> str:
        return self.location.partition("://")[0]

    @property
    def _tag(self) -> Literal["e_tag", "version"]:
        """What identifies a version in conditions: on Google Cloud Storage its generation."""
        return "version" if self._scheme == "gs" else "e_tag"

    def _path(self, name: str) -> str:
        parts = self.location.split("/", maxsplit=3)
        return "/".join((*parts[3:], name))

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (BaseError, OSError) as error:
            if blames_clock(str(error)):
                raise self._unanswered(error, SET_CLOCK) from error
            if isinstance(error, UnauthenticatedError | PermissionDeniedError | FileNotFoundError):
                raise self._refused(error) from error
            if _NO_KEYS in str(error):
                raise self._refused(WriteError("no keys were found")) from error
            if any(code in str(error) for code in _LASTING):
                raise self._refused(error) from error
            raise self._unanswered(error, "Calve tries again, and nothing is lost meanwhile") from error

    def _unanswered(self, error: Exception, hint: str) -> CalveError:
        text = f"The object store of {self.location} does not answer: {_reason(error)}"
        return WriteError(text, step=_STEP, target=self.location, hint=hint)

    def _refused(self, error: Exception) -> CalveError:
        return SetupError(
            f"The object store refuses {self.location}: {_reason(error)}",
            step=_STEP,
            target=self.location,
            hint="Check the bucket, and the keys and permissions of the environment "
            f"({CREDENTIALS.get(self._scheme, '')})",
        )


StateFolder = Path | StoreFolder
"""A folder of the state: on a local disk, or on an object store."""


def state_folder_at(location: str) -> StateFolder:
    """Return a folder of the state, by its path or URI.

    Raises:
        SettingsError: It is on a store that cannot keep a state.
    """
    return StoreFolder.at(location) if "://" in location else Path(location)


def _reason(error: Exception) -> str:
    """Return what the store or the operating system says, without the addresses, headers and retries around it."""
    text = str(error)
    if status := _STATUS.search(text):
        said = (found[1] for pattern in _ANSWER if (found := pattern.search(text)))
        return ": ".join((status[1].strip(), *said))
    if system := _OF_THE_SYSTEM.search(text):
        return system[1]
    if "TimedOut" in text:
        return "no answer in time"
    return text.strip().splitlines()[0][:300] if text.strip() else type(error).__name__
