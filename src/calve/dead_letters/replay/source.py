"""The driver's side of a replay: which dead letters wait, and which have been replayed."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import pyarrow as pa

from calve.dead_letters.reader import DeadLetter, DeadLetterEntry, LetterStore, entries, names, stores_at
from calve.dead_letters.replay.reader import RejectsReader, ReplayPart, table_of
from calve.dead_letters.replay.replayed import ReplayedEntries, Span, Spans
from calve.dead_letters.replay.selection import ReplaySelection
from calve.dead_letters.table import LetterTable
from calve.dead_letters.topic import KEPT, LetterTopic
from calve.errors import PositionLostError
from calve.observe.log import Log
from calve.observe.state_folder import Folder
from calve.sources.bounds import first_up_to
from calve.sources.source import Backlog, Planned, Position, Split
from calve.state.folder import StateFolder

__all__ = ["PART_BYTES", "RejectsSource"]

PART_BYTES = 8 << 20
"""The approximate bytes of entries in one split."""


class _Waiting(NamedTuple):
    """A split, and the number of events before it and in it."""

    before: int
    entries: int
    split: Split


@dataclass
class _Open:
    """A part that grows while a file is read."""

    store: LetterStore
    file: str
    sink: int | None
    ranges: list[list[int]] = field(default_factory=list)
    size: int = 0
    entries: int = 0

    def fits(self, file: str, sink: int | None) -> bool:
        return (self.file, self.sink) == (file, sink) and self.size < PART_BYTES

    def add(self, entry: DeadLetterEntry) -> None:
        events = entry.content.count if isinstance(entry.content, DeadLetter) else 1
        if self.ranges and self.ranges[-1][1] == entry.start:
            self.ranges[-1][1], self.ranges[-1][3] = entry.end, self.ranges[-1][3] + events
        else:
            self.ranges.append([entry.start, entry.end, entry.line, events])
        self.size += entry.size_bytes * events
        self.entries += events

    def split(self) -> Split:
        storage = {} if isinstance(self.store, Folder) else self.store.open_storage
        offsets = self.store.offsets(self.file) if isinstance(self.store, LetterTopic) else []
        part = ReplayPart(self.store.location, self.file, self.ranges, self.sink, storage, offsets)
        return Split(asdict(part), self.size)


class RejectsSource:
    """Plans dead letters file by file in the order of their names, each entry once.

    Replayed entries are in two lists: those of uncommitted batches in the ledger, those of acknowledged batches in
    `ReplayedEntries`. The replay reads only the files that `find_files` found: the next one reads its own rejects.

    Args:
        folder: `<state>/<pipeline>/replay`.
        locations: Folders and prefixes with dead letters, and with notes about tables of dead letters.
        selection: Which of them to replay.
        metadata: The metadata attributes of the pipeline's own source, with their types.
        own: The prefix of the files that replays of this pipeline write.
        topics: The topics of dead letters of the pipeline's sinks.
    """

    def __init__(
        self,
        folder: StateFolder,
        locations: Sequence[str],
        selection: ReplaySelection,
        metadata: Mapping[str, pa.DataType],
        own: str,
        topics: Sequence[LetterTopic] = (),
    ) -> None:
        clients = {table_of(topic.location): dict(topic.client) for topic in topics}
        self.reader = RejectsReader(dict(metadata), clients)
        self._topics = topics
        self._replayed = ReplayedEntries(folder)
        self._folder, self._own_prefix = folder, own
        self._locations = locations
        self._selection = selection
        self._files: dict[str, LetterStore] = {}
        self._tables: dict[str, LetterTable] = {}
        self._waiting: list[_Waiting] = []
        self._log = Log(selection.pipeline)

    def know(self, tables: Collection[LetterTable]) -> None:
        """Use these tables of dead letters, with the storage properties of their catalogs."""
        self._tables |= {table.path: table for table in tables}
        for table in tables:
            self.reader.storage[table_of(table.location)] = dict(table.storage)

    def find_files(self) -> None:
        """Find the files to read: all that exist now.

        If the last replay was interrupted, this one continues it: the rejects of both wait for the next replay.

        Raises:
            SourceError: A folder cannot be read.
        """
        started_with = self._replayed.call()
        for file, store in self._listed().items():
            if started_with is None or file in started_with or not file.startswith(self._own_prefix):
                self._files[file] = store

    def rejected_again(self) -> list[str]:
        """Return the files of rejects that were written after `find_files`.

        Raises:
            SourceError: A folder cannot be read.
        """
        listed = self._listed()
        return [_named(listed[file], file) for file in sorted(set(listed) - set(self._files)) if self._is_own(file)]

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Read the files for entries that have not been replayed.

        Raises:
            SourceError: A file cannot be read, or an entry's sink no longer exists.
            PositionLostError: Entries have been replayed, but the list of them is lost.
        """
        uncommitted = [span for planned in pending for span in _spans(planned)]
        replayed = Spans([*self._replayed.load(), *uncommitted])
        before = _count(position)
        if before > replayed.entries:
            raise PositionLostError(
                f"{before} dead letters were replayed, but the list of them in {self._folder} is missing or old",
                step="read",
                target=self._selection.pipeline,
                hint="Restore the folder; or remove it, and move the replayed dead letters away",
            )
        self._waiting = []
        for part in self._parts(replayed):
            self._waiting.append(_Waiting(before, part.entries, part.split()))
            before += part.entries
        if self._waiting and self._replayed.call() is None:
            self._replayed.begin_call(file for file in self._files if self._is_own(file))

    def backlog(self, position: Position | None) -> Backlog:
        """Return the number and size of the waiting entries."""
        waiting = self._after(position)
        return Backlog(sum(part.entries for part in waiting), sum(part.split.size_bytes for part in waiting))

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Plan entries up to `max_bytes`, at least a part of a file; the same position has the same plan."""
        chosen = first_up_to(max_bytes, self._after(position), lambda part: part.split.size_bytes)
        if not chosen:
            return None
        return Planned([part.split for part in chosen], {"entries": chosen[-1].before + chosen[-1].entries})

    def acknowledge(self, planned: Planned) -> None:
        """Record the entries of a committed batch as replayed; may be repeated.

        Raises:
            WriteError: The disk refused.
        """
        self._replayed.add(_spans(planned))

    def finish(self) -> None:
        """End the replay: all entries of its files are replayed, and the next replay may send their new rejects.

        Rejects of earlier replays that are all replayed are removed: each of their events is a row, or a newer reject
        of this replay. The first reject of an event stays. May be repeated.

        Raises:
            WriteError: The disk refused.
        """
        self._replayed.end_call()
        replayed = Spans(self._replayed.load())
        for file, store in self._files.items():
            if self._is_own(file) and isinstance(store, Folder) and _is_replayed(store, file, replayed):
                with contextlib.suppress(OSError):  # it is tried again at the end of the next replay
                    store.remove(file)

    def _after(self, position: Position | None) -> list[_Waiting]:
        return [part for part in self._waiting if part.before >= _count(position)]

    def _listed(self) -> dict[str, LetterStore]:
        """Return the store of each file; the first one if two stores have the same name.

        What is still to be sent to a topic waits for that.
        """
        files: dict[str, LetterStore] = {}
        stores = stores_at(self._locations, self._tables.get, self._topics)
        outboxes = {store.outbox for store in stores if isinstance(store, LetterTopic)}
        for store in stores:
            for file in names(store):
                if store.path not in outboxes or file.startswith(KEPT):
                    files.setdefault(file, store)
        return files

    def _is_own(self, file: str) -> bool:
        return file.startswith(self._own_prefix)

    def _parts(self, replayed: Spans) -> Iterator[_Open]:
        part: _Open | None = None
        for file, store in sorted(self._files.items()):
            for entry, sink in self._entries(file, store, replayed):
                if part is None or not part.fits(file, sink):
                    yield from [part] if part else []
                    part = _Open(store, file, sink)
                part.add(entry)
        yield from [part] if part else []

    def _entries(self, file: str, store: LetterStore, replayed: Spans) -> Iterator[tuple[DeadLetterEntry, int | None]]:
        for entry in entries(store, file):
            where = f"{_named(store, file)}:{entry.line}"
            if not isinstance(entry.content, DeadLetter):
                self._log.warning(f"skipped {where}, which is not a dead letter: {entry.content.reason}")
            elif self._selection.matches(entry.content) and not replayed.has(file, entry.start):
                yield entry, self._selection.sink(entry.content, where)


def _is_replayed(store: Folder, file: str, replayed: Spans) -> bool:
    return all(replayed.has(file, entry.start) for entry in entries(store, file))


def _named(store: LetterStore, file: str) -> str:
    return f"the table {store.path}, task {file}" if isinstance(store, LetterTable) else f"{store.location}/{file}"


def _count(position: Position | None) -> int:
    return int((position or {}).get("entries", 0))


def _spans(planned: Planned) -> Iterator[Span]:
    for split in planned.splits:
        part = ReplayPart(**split.body)
        for start, end, _, count in part.ranges:
            yield Span(part.file, start, end, count)
