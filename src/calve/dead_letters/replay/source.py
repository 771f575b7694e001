"""The driver's side of a replay: which dead letters wait, and which have been sent again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from calve.dead_letters.reader import DeadLetter, Entry, Place, entries, found_at, names
from calve.dead_letters.replay.reader import Part, RejectsReader, table_of
from calve.dead_letters.replay.replayed import Span, Spans, Taken
from calve.dead_letters.replay.selection import Selection
from calve.dead_letters.table import LetterTable
from calve.errors import PositionLostError
from calve.observe.log import Log
from calve.sources.source import Backlog, Planned, Position, Split

__all__ = ["PART_BYTES", "RejectsSource"]

PART_BYTES = 8 << 20
"""Bytes of entries that one task reads at a time, about."""


class _Waiting(NamedTuple):
    """A split, and how many entries are before it and in it."""

    before: int
    entries: int
    split: Split


@dataclass
class _Open:
    """A part that grows while a file is looked through."""

    place: Place
    file: str
    sink: int | None
    ranges: list[list[int]] = field(default_factory=list)
    size: int = 0
    entries: int = 0

    def fits(self, file: str, sink: int | None) -> bool:
        return (self.file, self.sink) == (file, sink) and self.size < PART_BYTES

    def add(self, entry: Entry) -> None:
        if self.ranges and self.ranges[-1][1] == entry.start:
            self.ranges[-1][1], self.ranges[-1][3] = entry.end, self.ranges[-1][3] + 1
        else:
            self.ranges.append([entry.start, entry.end, entry.line, 1])
        self.size += entry.size_bytes
        self.entries += 1

    def split(self) -> Split:
        storage = self.place.open_storage if isinstance(self.place, LetterTable) else {}
        return Split(asdict(Part(self.place.location, self.file, self.ranges, self.sink, storage)), self.size)


class RejectsSource:
    """Plans dead letters file by file in the order of their names, each entry once.

    What has been sent again is known twice: the splits of batches under way are in the ledger, those that are
    acknowledged in `Taken`. The files are those that `look` found: what the replay itself rejects is left for another.

    Args:
        folder: `<state>/<pipeline>/replay`.
        places: Folders and prefixes with dead letters, and with notes about tables of them.
        selection: Which of them are sent.
        metadata: The attributes that the pipeline's own source gives, with their types.
        own: How the names of files begin that replays of this pipeline write.
    """

    def __init__(
        self, folder: Path, places: Sequence[str], selection: Selection, metadata: Mapping[str, pa.DataType], own: str
    ) -> None:
        self.reader = RejectsReader(dict(metadata))
        self._taken = Taken(folder)
        self._folder, self._own = folder, own
        self._places = places
        self._selection = selection
        self._files: dict[str, Place] = {}
        self._tables: dict[str, LetterTable] = {}
        self._waiting: list[_Waiting] = []
        self._log = Log(selection.pipeline)

    def know(self, tables: Collection[LetterTable]) -> None:
        """Read these tables of dead letters as they are, with what their catalogs know of their storage."""
        self._tables |= {table.path: table for table in tables}
        for table in tables:
            self.reader.storage[table_of(table.location)] = dict(table.storage)

    def look(self) -> None:
        """Fix the files to read: all that are there now.

        When the last replay was interrupted, this one goes on with it: what that one rejected waits for the next.

        Raises:
            SourceError: A folder cannot be read.
        """
        known = self._taken.call()
        for file, place in self._listed().items():
            if known is None or file in known or not file.startswith(self._own):
                self._files[file] = place

    def rejected_again(self) -> list[str]:
        """Return the files of rejects that are there since `look`.

        Raises:
            SourceError: A folder cannot be read.
        """
        listed = self._listed()
        return [_named(listed[file], file) for file in sorted(set(listed) - set(self._files)) if self._is_own(file)]

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Look through the files for entries that have not been sent again.

        Raises:
            SourceError: A file cannot be read, or an entry's sink is gone.
            PositionLostError: Entries have been sent again, and the list of them is gone.
        """
        under_way = [span for planned in pending for span in _spans(planned)]
        taken = Spans([*self._taken.load(), *under_way])
        before = _count(position)
        if before > taken.entries:
            raise PositionLostError(
                f"{before} dead letters were sent again, but the list of them in {self._folder} is gone or older",
                step="read",
                target=self._selection.pipeline,
                hint="Put the folder back, or remove it and move away the dead letters that were sent again",
            )
        self._waiting = []
        for part in self._parts(taken):
            self._waiting.append(_Waiting(before, part.entries, part.split()))
            before += part.entries
        if self._waiting and self._taken.call() is None:
            self._taken.begin_call(file for file in self._files if self._is_own(file))

    def backlog(self, position: Position | None) -> Backlog:
        """Return how many entries wait."""
        left = self._left(position)
        return Backlog(sum(one.entries for one in left), sum(one.split.size_bytes for one in left))

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return entries up to `max_bytes`, at least a part of a file; planning again gives the same."""
        chosen: list[_Waiting] = []
        left = max_bytes
        for one in self._left(position):
            left -= one.split.size_bytes
            if chosen and left < 0:
                break
            chosen.append(one)
        if not chosen:
            return None
        return Planned([one.split for one in chosen], {"entries": chosen[-1].before + chosen[-1].entries})

    def acknowledge(self, planned: Planned) -> None:
        """Remember the entries of a committed batch for good; may be repeated.

        Raises:
            WriteError: The disk refuses.
        """
        self._taken.add(_spans(planned))

    def finish(self) -> None:
        """Say that all that `look` found is sent: the next replay may send what this one rejected.

        Raises:
            WriteError: The disk refuses.
        """
        self._taken.end_call()

    def stop(self) -> None:
        """Nothing is open."""

    def _left(self, position: Position | None) -> list[_Waiting]:
        return [one for one in self._waiting if one.before >= _count(position)]

    def _listed(self) -> dict[str, Place]:
        """Return the place of each file; of one name that is in two places, the first."""
        found: dict[str, Place] = {}
        for place in found_at(self._places, self._tables.get):
            for file in names(place):
                found.setdefault(file, place)
        return found

    def _is_own(self, file: str) -> bool:
        return file.startswith(self._own)

    def _parts(self, taken: Spans) -> Iterator[_Open]:
        part: _Open | None = None
        for file, place in sorted(self._files.items()):
            for entry, sink in self._entries(file, place, taken):
                if part is None or not part.fits(file, sink):
                    yield from [part] if part else []
                    part = _Open(place, file, sink)
                part.add(entry)
        yield from [part] if part else []

    def _entries(self, file: str, place: Place, taken: Spans) -> Iterator[tuple[Entry, int | None]]:
        for entry in entries(place, file):
            where = f"{_named(place, file)}:{entry.line}"
            if not isinstance(entry.content, DeadLetter):
                self._log.warning(f"passed over {where}, no dead letter: {entry.content.reason}")
            elif self._selection.takes(entry.content) and not taken.has(file, entry.start):
                yield entry, self._selection.sink(entry.content, where)


def _named(place: Place, file: str) -> str:
    return f"the table {place.path}, task {file}" if isinstance(place, LetterTable) else f"{place.location}/{file}"


def _count(position: Position | None) -> int:
    return int((position or {}).get("entries", 0))


def _spans(planned: Planned) -> Iterator[Span]:
    for split in planned.splits:
        part = Part(**split.body)
        for start, end, _, count in part.ranges:
            yield Span(part.file, start, end, count)
