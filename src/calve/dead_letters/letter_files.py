"""Dead letters in NDJSON files, which may have foreign lines; without what reading tables and topics takes."""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow.fs as pafs

from calve import structs
from calve.errors import SourceError
from calve.observe.state_folder import Folder

__all__ = [
    "FOLDER",
    "DeadLetter",
    "DeadLetterEntry",
    "Unreadable",
    "entries",
    "infos",
    "names",
    "parsed",
    "read_errors",
]

FOLDER = "dlq"
SUFFIX = ".ndjson"


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One rejected event: its target, the reason, and the event.

    Attributes:
        event: The original text; Base64 if `event_encoding` says so, because it is not UTF-8.
        count: How often this very event was rejected for this reason.
    """

    code: str
    pipeline: str = ""
    sink: str | None = None
    table: str | None = None
    timestamp: str | int | float = ""
    reason: str | None = None
    field: str | None = None
    event: str | None = None
    event_encoding: str = "utf-8"
    metadata: dict[str, Any] | None = None
    count: int = 1

    def original(self) -> bytes:
        """Return the event byte for byte.

        Raises:
            ValueError: It should be Base64 but is not.
        """
        text = self.event or ""
        if self.event_encoding != "base64":
            return text.encode()
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(f"the event is not Base64: {error}") from error

    def is_of(self, pipeline: str) -> bool:
        """Return whether a pipeline wrote it; an entry without a pipeline belongs to every pipeline."""
        return self.pipeline in ("", pipeline)

    def time(self) -> str:
        """Return the timestamp as text; a number is epoch milliseconds."""
        if isinstance(self.timestamp, str):
            return self.timestamp
        return datetime.fromtimestamp(self.timestamp / 1000, UTC).isoformat(timespec="milliseconds")


_DECODER = structs.decoder(DeadLetter)


@dataclass(frozen=True)
class Unreadable:
    """A line that is not an entry: cut off, or from another program."""

    file: str
    line: int
    reason: str


class DeadLetterEntry(NamedTuple):
    """An entry of a file or of a task.

    Attributes:
        line: Its number.
        start: Its first byte; in a table its number.
        end: The start of the next entry.
        size_bytes: Its size; in a table an estimate.
        content: The dead letter; from a table or a topic without event and metadata.
    """

    line: int
    start: int
    end: int
    size_bytes: int
    content: DeadLetter | Unreadable


def names(folder: Folder) -> list[str]:
    """Return the published files, sorted.

    Raises:
        SourceError: The folder cannot be read.
    """
    with read_errors(folder):
        return [str(info.base_name) for info in infos(folder)]


def entries(folder: Folder, name: str) -> Iterator[DeadLetterEntry]:
    """Yield the entries of one file; none if it was removed.

    Raises:
        SourceError: The folder cannot be read.
    """
    with read_errors(folder), contextlib.suppress(FileNotFoundError):
        start = 0
        for number, line in enumerate(folder.lines(name), 1):
            end = start + len(line) + 1
            if line.strip():
                yield DeadLetterEntry(number, start, end, end - start, parsed(line, f"{folder.path}/{name}", number))
            start = end


@contextlib.contextmanager
def read_errors(folder: Folder) -> Iterator[None]:
    """Raise the errors of a folder as SourceError."""
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"the dead letters in {folder.path} cannot be read: {error.strerror or error}",
            step="observe",
            target=folder.path,
            hint="Check your permissions; for object storage set the credentials of the environment (AWS_…, GOOGLE_…, "
            "AZURE_…)",
        ) from error


def infos(folder: Folder) -> list[pafs.FileInfo]:
    """Return the published files."""
    return [info for info in folder.file_infos() if info.base_name.endswith(SUFFIX)]


def parsed(line: bytes, file: str, number: int) -> DeadLetter | Unreadable:
    """Read the line with a number of a file."""
    try:
        content = _DECODER.decode(line)
        content.original()
        return content
    except (msgspec.DecodeError, ValueError) as error:
        return Unreadable(file, number, str(error))
