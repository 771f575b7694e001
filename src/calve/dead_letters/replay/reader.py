"""The executors' side of a replay: converts dead letters back to events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from calve import structs
from calve.dead_letters.reader import DeadLetter
from calve.dead_letters.table import LetterTable
from calve.dead_letters.topic import LetterTopic
from calve.errors import SourceError, SourceUnavailableError
from calve.event.columns import EVENT, MASKED, SINK
from calve.observe.state_folder import Folder
from calve.sources.source import READ_BYTES, READ_ROWS, Split

__all__ = ["REPLAYED_FROM", "REPLAYS", "RejectsReader", "ReplayPart", "table_of"]

REPLAYED_FROM = "replayed_from"
"""Metadata of a replayed event: its dead letter, as file and line."""
REPLAYS = "replays"
"""Metadata of a replayed event: how often it has been sent again."""
"""Metadata of a replayed event: file and line of its dead letter, so that a new dead letter refers to the old one."""


@dataclass(frozen=True)
class ReplayPart:
    """Entries of one file, in the form of a split's body.

    Attributes:
        location: The folder or the object store's prefix; for a table the location of its metadata; for a topic a URI.
        file: The file's name in it; for a table the task; for a topic the file that its entries were in.
        ranges: First byte, end, line of the first entry and number of events, for each run of entries; for a table
            numbers instead of bytes.
        sink: The number of the only sink that gets them; None: every sink.
        storage: The properties to read a table's files, beside the credentials of the environment; a topic's client.
        offsets: Of a topic: partition, first offset and end of the records of the file.
    """

    location: str
    file: str
    ranges: list[list[int]]
    sink: int | None = None
    storage: dict[str, str] = field(default_factory=dict)
    offsets: list[list[int]] = field(default_factory=list)


@dataclass(frozen=True)
class RejectsReader:
    """Reads parts of dead-letter files, with the metadata of their events.

    Attributes:
        metadata: The attributes, with their types in the pipeline's source.
        storage: By the folder of a table (`table_of`), or the brokers of a topic, the properties to read it, with
            secrets, which splits lack.
    """

    metadata: dict[str, pa.DataType]
    storage: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the events of a part in order; masked ones, which are decoded already, in batches of their own.

        Raises:
            SourceError: The file no longer exists.
            SourceUnavailableError: The storage does not answer.
        """
        part = ReplayPart(**split.body)
        part = replace(part, storage=self.storage.get(table_of(part.location), part.storage))
        letters: list[tuple[str, DeadLetter]] = []
        size = 0
        for where, line in _lines(part):
            letter = structs.decode(line, DeadLetter)
            if letters and _masked_names(letters[-1][1]) != _masked_names(letter):
                yield self._batch(letters, part.sink)
                letters, size = [], 0
            for _ in range(letter.count):
                letters.append((where, letter))
                size += len(line)
                if len(letters) >= READ_ROWS or size >= READ_BYTES:
                    yield self._batch(letters, part.sink)
                    letters, size = [], 0
        if letters:
            yield self._batch(letters, part.sink)

    def _batch(self, letters: Sequence[tuple[str, DeadLetter]], sink: int | None) -> pa.RecordBatch:
        events = [None if entry.event is None else entry.original() for _, entry in letters]
        metadata = [entry.metadata or {} for _, entry in letters]
        columns = {EVENT: pa.array(events, pa.binary())}
        columns |= {
            name: _column([attributes.get(name) for attributes in metadata], kind)
            for name, kind in self.metadata.items()
        }
        columns[REPLAYED_FROM] = pa.array([where for where, _ in letters], pa.string())
        columns[REPLAYS] = pc.add(
            pc.fill_null(_column([attributes.get(REPLAYS) for attributes in metadata], pa.int64()), 0), 1
        )
        columns[SINK] = pa.array([sink] * len(letters), pa.int32())
        if names := _masked_names(letters[0][1]):
            columns[MASKED] = pa.array([names] * len(letters)).dictionary_encode()
        return pa.record_batch(columns)


def _masked_names(letter: DeadLetter) -> str:
    """Return the names in the masks of a letter; empty: it is not masked."""
    return str((letter.metadata or {}).get(MASKED) or "")


def table_of(location: str) -> str:
    """Return the metadata folder of a table of dead letters, from the location of any of its metadata files.

    Of a topic's location it is the brokers.
    """
    return location.rpartition("/")[0]


def _lines(part: ReplayPart) -> Iterator[tuple[str, bytes]]:
    """Yield each entry's line, with its file and line number."""
    if LetterTopic.is_at(part.location):
        topic = LetterTopic.at(part.location, part.storage)
        yield from (
            (f"{part.file}:{number}", line) for number, line in topic.lines(part.file, part.offsets, part.ranges)
        )
        return
    if LetterTable.is_at(part.location):
        numbered = LetterTable(part.location, "", part.storage).lines(
            part.file, [(span[0], span[1]) for span in part.ranges]
        )
        yield from ((f"{part.file}:{number}", line) for number, line in numbered)
        return
    folder = Folder.at(part.location)
    path = f"{folder.path}/{part.file}"
    try:
        with folder.files.open_input_file(path) as file:
            for start, end, first, _ in part.ranges:
                lines = file.read_at(end - start, start).removesuffix(b"\n").split(b"\n")
                yield from ((f"{part.file}:{number}", line) for number, line in enumerate(lines, first))
    except FileNotFoundError as error:
        raise SourceError(
            f"The dead letters {path} of this replay no longer exist",
            step="read",
            target=path,
            hint="Restore the file, and replay again",
        ) from error
    except OSError as error:
        raise SourceUnavailableError(
            f"The dead letters {path} cannot be read: {error}",
            step="read",
            target=path,
            hint="Calve tries again; check the storage of the file",
        ) from error


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an array of a type; values of other types become null: other programs may write entries, too."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([_value(value, kind) for value in values], kind)


def _value(value: Any, kind: pa.DataType) -> Any:
    try:
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
