"""Reads a pipeline's dead letters from tables, and streams them from NDJSON files, which may have foreign lines."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from calve.dead_letters import letter_files
from calve.dead_letters.letter_files import FOLDER, DeadLetter, DeadLetterEntry, Unreadable
from calve.dead_letters.table import LetterTable, LoadLetters, tables_in
from calve.dead_letters.topic import LetterTopic, topics_in
from calve.observe.state_folder import Folder
from calve.observe.status_file import read_report

__all__ = [
    "DeadLetter",
    "DeadLetterEntry",
    "LetterStore",
    "Skips",
    "Summary",
    "Unreadable",
    "entries",
    "locations_of",
    "names",
    "read",
    "stores_at",
    "summarise",
]

NEWEST_FILES = 5

LetterStore = Folder | LetterTable | LetterTopic
"""A folder, a table or a topic of dead letters. In a table, the task is an entry's file, and its number the line."""


Skips = Callable[[str, int], bool]
"""Whether the entry at a byte of a file is of no interest."""


def _nothing(file: str, start: int) -> bool:
    return False


@dataclass
class Summary:
    """The dead letters of one pipeline, counted by table and code."""

    pipeline: str
    folders: list[str]
    tables: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: str = ""
    last: str = ""
    files: set[str] = field(default_factory=set)
    newest_files: list[str] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


def locations_of(state: str, pipeline: str) -> list[str]:
    """Find the locations of a pipeline's dead letters: from its status, else in the state folder.

    Raises:
        SourceError: The status cannot be read.
    """
    report = read_report(state, pipeline)
    locations = report.dlq if report else []
    return locations or [f"{state.rstrip('/')}/{pipeline}/{FOLDER}"]


def stores_at(
    locations: Iterable[str],
    load: LoadLetters | None = None,
    topics: Sequence[LetterTopic] = (),
    client: Mapping[str, Any] | None = None,
) -> list[LetterStore]:
    """Open stores of dead letters: folders, and the tables and topics of their notes.

    Args:
        locations: The folders.
        load: Loads a table, if it has it.
        topics: Topics whose clients are known.
        client: More properties of the clients of other topics.

    Raises:
        SourceError: A folder cannot be read.
    """
    stores: list[LetterStore] = []
    for folder in map(Folder.at, locations):
        with letter_files.read_errors(folder):
            stores += [*topics_in(folder, topics, client or {}), folder, *tables_in(folder, load)]
    return list({store.path: store for store in stores}.values())


def names(store: LetterStore) -> list[str]:
    """Return the published files of a folder, or the tasks of a table, sorted.

    Raises:
        SourceError: The store cannot be read.
    """
    if isinstance(store, LetterTopic):
        return store.files()
    if isinstance(store, LetterTable):
        return store.tasks()
    return letter_files.names(store)


def entries(store: LetterStore, name: str) -> Iterator[DeadLetterEntry]:
    """Yield the entries of one file or task; none if the file was removed.

    Raises:
        SourceError: The store cannot be read.
    """
    if isinstance(store, LetterTable):
        for entry in store.chosen(name):
            number = entry["number"]
            content = letter_files.parsed(msgspec.json.encode(entry), f"{store.path}/{name}", number)
            yield DeadLetterEntry(number, number, number + 1, store.entry_bytes, content)
        return
    if isinstance(store, LetterTopic):
        for place, size_bytes, entry in store.chosen(name):
            content = letter_files.parsed(msgspec.json.encode(entry), f"{store.path}/{name}", place.line)
            yield DeadLetterEntry(place.line, place.start, place.end, size_bytes, content)
        return
    yield from letter_files.entries(store, name)


def read(store: LetterStore, skips: Skips = _nothing) -> Iterator[tuple[DeadLetter | Unreadable, bytes]]:
    """Yield the entries of a store with their lines, file by file in the order of their names.

    A file that is removed meanwhile is skipped.

    Args:
        store: The store.
        skips: Whether to skip the entry at a byte of a file; in a table at a number of a task.

    Raises:
        SourceError: The folder, a file or the table cannot be read.
    """
    if isinstance(store, LetterTable):
        for entry in store.entries():
            task, number = entry.get("task", ""), entry.get("number", 0)
            if not skips(task, number):
                line = msgspec.json.encode(entry)
                yield letter_files.parsed(line, f"{store.path}/{task}", number), line
        return
    if isinstance(store, LetterTopic):
        for place, entry in store.entries():
            if not skips(place.file, place.start):
                line = msgspec.json.encode(entry)
                yield letter_files.parsed(line, f"{store.path}/{place.file}", place.line), line
        return
    with letter_files.read_errors(store):
        for name in [info.base_name for info in letter_files.infos(store)]:
            with contextlib.suppress(FileNotFoundError):
                yield from _read_file(store, name, skips)


def summarise(pipeline: str, stores: Sequence[LetterStore], skips: Skips = _nothing) -> Summary:
    """Count the entries of a pipeline in its stores, which other pipelines may share.

    Args:
        pipeline: Its name.
        stores: Folders and tables.
        skips: As in `read`.

    Raises:
        SourceError: A store or a file cannot be read.
    """
    folders = [store for store in stores if isinstance(store, Folder)]
    tables = [store for store in stores if isinstance(store, LetterTable)]
    topics = [store for store in stores if isinstance(store, LetterTopic)]
    summary = Summary(pipeline, [folder.path for folder in folders], [table.path for table in tables])
    summary.topics = [topic.path for topic in topics]
    for entry in itertools.chain.from_iterable(_contents(store, skips) for store in stores):
        if isinstance(entry, Unreadable):
            summary.unreadable.append(entry)
            continue
        if not entry.is_of(pipeline):
            continue
        summary.counts[entry.table or "", entry.code] += entry.count
        time = entry.time()
        summary.first = min(summary.first or time, time)
        summary.last = max(summary.last, time)
    files = [info for folder in folders for info in letter_files.infos(folder)]
    tasks = {name for store in stores if not isinstance(store, Folder) for name in names(store)}
    summary.files = {info.base_name for info in files} | tasks
    newest = sorted(files, key=lambda info: -(info.mtime_ns or 0))
    summary.newest_files = [str(info.path) for info in newest[:NEWEST_FILES]]
    return summary


def _contents(store: LetterStore, skips: Skips) -> Iterator[DeadLetter | Unreadable]:
    """Yield the contents of entries; from a table or a topic without the events."""
    if not isinstance(store, Folder):
        numbered = ((name, entry) for name in names(store) for entry in entries(store, name))
        return (entry.content for name, entry in numbered if not skips(name, entry.start))
    return (content for content, _ in read(store, skips))


def _read_file(folder: Folder, name: str, skips: Skips) -> Iterator[tuple[DeadLetter | Unreadable, bytes]]:
    start = 0
    for number, line in enumerate(folder.lines(name), 1):
        if line.strip() and not skips(name, start):
            yield letter_files.parsed(line, f"{folder.path}/{name}", number), line
        start += len(line) + 1
