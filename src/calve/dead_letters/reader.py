"""Reads a pipeline's dead letters: NDJSON files of entries, streamed, whoever wrote what else into them; and tables."""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow.fs as pafs

from calve.dead_letters.table import LetterTable, Look, tables_in
from calve.errors import SourceError
from calve.observe.state_folder import Folder
from calve.observe.status_file import read_report

__all__ = [
    "DeadLetter",
    "Entry",
    "Place",
    "Summary",
    "Unreadable",
    "entries",
    "found_at",
    "names",
    "places_of",
    "read",
    "summarise",
]

FOLDER = "dlq"
SUFFIX = ".ndjson"
NEWEST_FILES = 5

Place = Folder | LetterTable
"""Where dead letters are. An entry's file in a table is the task that wrote it, and its line its number there."""


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
        """Return the event byte for byte.

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

    def is_of(self, pipeline: str) -> bool:
        """Return whether a pipeline wrote it; an entry that names none is anybody's."""
        return self.pipeline in ("", pipeline)

    def time(self) -> str:
        """Return the timestamp as text; a number is epoch milliseconds."""
        if isinstance(self.timestamp, str):
            return self.timestamp
        return datetime.fromtimestamp(self.timestamp / 1000, UTC).isoformat(timespec="milliseconds")


_DECODER = msgspec.json.Decoder(DeadLetter)


@dataclass(frozen=True)
class Unreadable:
    """A line that is no entry: cut off, or somebody else's."""

    file: str
    line: int
    reason: str


class Entry(NamedTuple):
    """An entry of a file or of a task.

    Attributes:
        line: Its number.
        start: In a file its first byte, in a table its number.
        end: Where the next one would start.
        size_bytes: Its size; in a table about.
        content: What it says; in a table without event and metadata.
    """

    line: int
    start: int
    end: int
    size_bytes: int
    content: DeadLetter | Unreadable


@dataclass
class Summary:
    """The dead letters of one pipeline, counted by table and code."""

    pipeline: str
    folders: list[str]
    tables: list[str] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: str = ""
    last: str = ""
    files: set[str] = field(default_factory=set)
    newest_files: list[str] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


def places_of(state: str, pipeline: str) -> list[str]:
    """Find where a pipeline's dead letters are: where its status says, else in the state folder.

    Raises:
        SourceError: The status cannot be read.
    """
    report = read_report(state, pipeline)
    places = report.dlq if report else []
    return places or [f"{state.rstrip('/')}/{pipeline}/{FOLDER}"]


def found_at(locations: Iterable[str], look: Look | None = None) -> list[Place]:
    """Open places of dead letters: folders, and the tables that notes in them speak of, which `look` may know better.

    Raises:
        SourceError: A folder cannot be read.
    """
    places: list[Place] = []
    for folder in map(Folder.at, locations):
        with _told(folder):
            places += [folder, *tables_in(folder, look)]
    return list({place.path: place for place in places}.values())


def names(place: Place) -> list[str]:
    """Name the published files of a folder, or the tasks of a table, sorted.

    Raises:
        SourceError: The place cannot be read.
    """
    if isinstance(place, LetterTable):
        return place.tasks()
    with _told(place):
        return [str(info.base_name) for info in _files(place)]


def entries(place: Place, name: str) -> Iterator[Entry]:
    """Yield the entries of one file or task; none of a file that has vanished.

    Raises:
        SourceError: The place cannot be read.
    """
    if isinstance(place, LetterTable):
        for entry in place.chosen(name):
            number = entry["number"]
            content = _parsed(msgspec.json.encode(entry), f"{place.path}/{name}", number)
            yield Entry(number, number, number + 1, place.entry_bytes, content)
        return
    with _told(place), contextlib.suppress(FileNotFoundError):
        start = 0
        for number, line in enumerate(place.lines(name), 1):
            end = start + len(line) + 1
            if line.strip():
                yield Entry(number, start, end, end - start, _parsed(line, f"{place.path}/{name}", number))
            start = end


def read(place: Place) -> Iterator[tuple[DeadLetter | Unreadable, bytes]]:
    """Yield every entry of a place with its line, file by file in the order of their names.

    A file that vanishes while it is looked at was moved away: it is passed over.

    Raises:
        SourceError: The folder, a file or the table cannot be read.
    """
    if isinstance(place, LetterTable):
        for entry in place.entries():
            line = msgspec.json.encode(entry)
            yield _parsed(line, f"{place.path}/{entry.get('task', '')}", entry.get("number", 0)), line
        return
    with _told(place):
        for name in [info.base_name for info in _files(place)]:
            with contextlib.suppress(FileNotFoundError):
                yield from _read_file(place, name)


def summarise(pipeline: str, places: Sequence[Place]) -> Summary:
    """Count the entries of a pipeline in its places, which others may share.

    Raises:
        SourceError: A place or a file cannot be read.
    """
    folders = [place for place in places if isinstance(place, Folder)]
    tables = [place for place in places if isinstance(place, LetterTable)]
    summary = Summary(pipeline, [folder.path for folder in folders], [table.path for table in tables])
    for entry in itertools.chain.from_iterable(map(_contents, places)):
        if isinstance(entry, Unreadable):
            summary.unreadable.append(entry)
            continue
        if not entry.is_of(pipeline):
            continue
        summary.counts[entry.table or "", entry.code] += 1
        time = entry.time()
        summary.first = min(summary.first or time, time)
        summary.last = max(summary.last, time)
    files = [info for folder in folders for info in _files(folder)]
    summary.files = {info.base_name for info in files} | {task for table in tables for task in table.tasks()}
    newest = sorted(files, key=lambda info: -(info.mtime_ns or 0))
    summary.newest_files = [str(info.path) for info in newest[:NEWEST_FILES]]
    return summary


def _contents(place: Place) -> Iterator[DeadLetter | Unreadable]:
    """Yield what entries say; of a table without the events."""
    if isinstance(place, LetterTable):
        return (entry.content for name in names(place) for entry in entries(place, name))
    return (content for content, _ in read(place))


@contextlib.contextmanager
def _told(folder: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(
            f"the dead letters in {folder.path} cannot be read: {error.strerror or error}",
            step="observe",
            target=folder.path,
            hint="Check your permissions; object storage is asked with the credentials of the environment (AWS_…)",
        ) from error


def _files(folder: Folder) -> list[pafs.FileInfo]:
    return [info for info in folder.file_infos() if info.base_name.endswith(SUFFIX)]


def _read_file(folder: Folder, name: str) -> Iterator[tuple[DeadLetter | Unreadable, bytes]]:
    for number, line in enumerate(folder.lines(name), 1):
        if line.strip():
            yield _parsed(line, f"{folder.path}/{name}", number), line


def _parsed(line: bytes, file: str, number: int) -> DeadLetter | Unreadable:
    try:
        found = _DECODER.decode(line)
        found.original()
        return found
    except (msgspec.DecodeError, ValueError) as error:
        return Unreadable(file, number, str(error))
