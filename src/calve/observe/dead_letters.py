"""Reads a pipeline's dead letters: NDJSON files of entries, streamed, whoever wrote what else into them."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import msgspec

from calve.errors import SourceError
from calve.observe.state_folder import Folder
from calve.observe.status_file import read_report

__all__ = ["DeadLetter", "Summary", "Unreadable", "folder_of", "read", "summarise"]

FOLDER = "dlq"
SUFFIX = ".ndjson"
TABLE = "table:"
NEWEST_FILES = 5


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One refused event: where it was going, why it could not, and what it was.

    Attributes:
        event: The original text; Base64 where `event_encoding` says so, because it was not UTF-8.
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

    def original(self) -> bytes:
        """Give the event byte for byte.

        Raises:
            ValueError: The entry says Base64 and is not.
        """
        text = self.event or ""
        if self.event_encoding != "base64":
            return text.encode()
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(f"the event is not Base64: {error}") from error

    def time(self) -> str:
        """Give the timestamp as text; a number is epoch milliseconds."""
        if isinstance(self.timestamp, str):
            return self.timestamp
        return datetime.fromtimestamp(self.timestamp / 1000, timezone.utc).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class Unreadable:
    """A line that is no entry: cut off, or somebody else's."""

    file: str
    line: int
    reason: str


@dataclass
class Summary:
    """The dead letters of one pipeline, counted by table and code."""

    pipeline: str
    folder: str
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: str = ""
    last: str = ""
    newest_files: list[str] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


def folder_of(state: str, pipeline: str) -> Folder:
    """Find where a pipeline's dead letters are: where its status says, else in the state folder.

    Raises:
        SourceError: They are in a table, or the status cannot be read.
    """
    report = read_report(state, pipeline)
    place = report.dlq if report else ""
    if place.startswith(TABLE):
        name = place.removeprefix(TABLE).strip()
        raise SourceError(
            f"the rejects of {pipeline} go into the table {name}",
            step="observe",
            target=name,
            hint=f"Look at them with a query engine: SELECT * FROM {name}",
        )
    return Folder.at(place) if place else Folder.at(state) / pipeline / FOLDER


def read(folder: Folder) -> Iterator[tuple[DeadLetter | Unreadable, bytes]]:
    """Yield every entry of a folder with its line, file by file in the order of their names.

    A file that vanishes while it is looked at was replayed: it is passed over.

    Raises:
        OSError: A file cannot be read.
    """
    for info in folder.file_infos():
        if info.base_name.endswith(SUFFIX):
            try:
                yield from _read_file(folder, info.base_name)
            except FileNotFoundError:
                continue


def summarise(pipeline: str, folder: Folder) -> Summary:
    """Count the entries of a folder.

    Raises:
        OSError: A file cannot be read.
    """
    summary = Summary(pipeline, folder.path)
    for entry, _ in read(folder):
        if isinstance(entry, Unreadable):
            summary.unreadable.append(entry)
            continue
        summary.counts[entry.table or "", entry.code] += 1
        time = entry.time()
        summary.first = min(summary.first or time, time)
        summary.last = max(summary.last, time)
    files = [info for info in folder.file_infos() if info.base_name.endswith(SUFFIX)]
    files.sort(key=lambda info: info.mtime_ns or 0, reverse=True)
    summary.newest_files = [info.base_name for info in files[:NEWEST_FILES]]
    return summary


def _read_file(folder: Folder, name: str) -> Iterator[tuple[DeadLetter | Unreadable, bytes]]:
    decoder = msgspec.json.Decoder(DeadLetter)
    for number, line in enumerate(folder.lines(name), 1):
        if not line.strip():
            continue
        try:
            yield decoder.decode(line), line
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            yield Unreadable(name, number, str(error)), line
