"""Small objects on an object store, with the conditions that make them safe for several writers.

The store is one of `clients`. It must honour the conditions of a write: that the object does not exist
(`If-None-Match: *`, on Google Cloud Storage generation 0), and that it still is the one that was read (`If-Match` with
its ETag, on Google Cloud Storage its generation).
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from calve.errors import CalveError, SettingsError, SetupError, WriteError
from calve.files.temporary import temporary_folder
from calve.state.clients import CREDENTIALS, SET_CLOCK, blames_clock, connected
from calve.state.folder import Listed, NewFile, TaggedContent
from calve.stop_point import stop_at

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["StoreFolder"]

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


@dataclass(frozen=True)
class StoreFolder:
    """Implements `StateFolder` by a prefix on an object store.

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
    def is_shared(self) -> bool:
        """See `StateFolder`."""
        return True

    @property
    def name(self) -> str:
        """See `StateFolder`."""
        return self.location.rpartition("/")[2]

    @property
    def parent(self) -> StoreFolder:
        """See `StateFolder`."""
        return StoreFolder(self.location.rpartition("/")[0])

    def absolute(self) -> StoreFolder:
        """See `StateFolder`."""
        return self

    def make(self) -> None:
        """See `StateFolder`."""

    def exists(self) -> bool:
        """See `StateFolder`."""
        return next(self._listed(), None) is not None

    def folders(self) -> list[str]:
        """See `StateFolder`."""
        return self.entries()[0]

    def names(self) -> list[str]:
        """See `StateFolder`."""
        return sorted(name for name in self._listed() if name and not name.endswith("/"))  # no marks of consoles

    def get(self, name: str) -> TaggedContent | None:
        """See `StateFolder`."""
        import obstore

        with self._errors():
            try:
                answer = obstore.get(self._store, self._path(name))
            except FileNotFoundError:
                return None
            return TaggedContent(bytes(answer.bytes()), str(answer.meta[self._tag]))

    def head(self, name: str) -> Listed | None:
        """Return what a listing says of an object; None if it does not exist."""
        import obstore

        with self._errors():
            try:
                meta = obstore.head(self._store, self._path(name))
            except FileNotFoundError:
                return None
            return Listed(name, meta["size"], meta["last_modified"])

    def entries(self) -> tuple[list[str], list[Listed]]:
        """Return the names of the folders and the objects directly in it."""
        import obstore

        prefix = self._path("")
        with self._errors():
            listing = obstore.list_with_delimiter(self._store, prefix)
            objects = [
                Listed(str(meta["path"])[len(prefix) :], meta["size"], meta["last_modified"])
                for meta in listing["objects"]
            ]
            return [str(path)[len(prefix) :].rstrip("/") for path in listing["common_prefixes"]], objects

    def get_range(self, name: str, start: int, size_bytes: int) -> bytes:
        """See `StateFolder`."""
        import obstore

        with self._errors():
            try:
                return bytes(obstore.get_range(self._store, self._path(name), start=start, length=size_bytes))
            except FileNotFoundError:
                pass
        raise FileNotFoundError(f"{self / name}")

    def put(self, name: str, content: bytes) -> None:
        """See `StateFolder`."""
        import obstore

        with self._errors():
            obstore.put(self._store, self._path(name), content)

    def create(self, name: str, content: bytes) -> str | None:
        """See `StateFolder`."""
        return self._put_if(name, content, "create")

    def swap(self, name: str, content: bytes, tag: str) -> str | None:
        """See `StateFolder`."""
        return self._put_if(name, content, {self._tag: tag})

    @contextlib.contextmanager
    def new_file(self, name: str) -> Iterator[NewFile]:
        """Open a new object of any size, which a local file holds until it is published."""
        with tempfile.NamedTemporaryFile(prefix="calve-new-") as file:

            def publish() -> None:
                file.flush()
                self.upload(name, Path(file.name))

            yield NewFile(file.write, publish)

    @contextlib.contextmanager
    def building(self, name: str, last: str) -> Iterator[Path]:
        """Yield the path of a new local folder, whose files are uploaded when the block ends; see `StateFolder`."""
        with temporary_folder("calve-spool-") as temporary:
            yield temporary / name
            for file in sorted((temporary / name).glob("[!._]*")):
                if file.name != last:
                    (self / name).upload(file.name, file)
            stop_at("spool.before-publish")
            (self / name).upload(last, temporary / name / last)

    def upload(self, name: str, file: Path | IO[bytes]) -> None:
        """Write an object of any size from a local file, whether or not it exists."""
        import obstore

        with self._errors():
            obstore.put(self._store, self._path(name), file)

    def remove(self, names: Iterable[str]) -> None:
        """See `StateFolder`."""
        import obstore

        with self._errors():
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(self._store, self._path(name))

    def clear(self) -> None:
        """See `StateFolder`."""
        self.remove(self.names())

    def remove_all(self, names: Sequence[str]) -> None:
        """See `StateFolder`."""
        import obstore

        if not names:
            return
        with self._errors():
            try:
                obstore.delete(self._store, [self._path(name) for name in names])
                return
            except FileNotFoundError:
                pass
        self.remove(names)

    def check_conditions(self) -> None:
        """See `StateFolder`."""
        name = f"_calve-probe-{os.urandom(8).hex()}"
        try:
            self.create(name, b"1")
            refuses = self.create(name, b"2") is None
            probe = self.get(name)
            swaps = probe is not None and self.swap(name, b"3", probe.tag) is not None
            refuses = refuses and probe is not None and self.swap(name, b"4", probe.tag) is None
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
                yield from (str(meta["path"])[len(prefix) :] for meta in chunk)

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


def _reason(error: Exception) -> str:
    """Return what the store or the operating system says, without the addresses, headers and retries around it."""
    text = str(error)
    if status := _STATUS.search(text):
        answer = (part[1] for pattern in _ANSWER if (part := pattern.search(text)))
        return ": ".join((status[1].strip(), *answer))
    if system := _OF_THE_SYSTEM.search(text):
        return system[1]
    if "TimedOut" in text:
        return "no answer in time"
    return text.strip().splitlines()[0][:300] if text.strip() else type(error).__name__
