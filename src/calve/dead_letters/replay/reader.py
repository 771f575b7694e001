"""The executors' side of a replay: dead letters become the events that they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa

from calve.dead_letters.reader import DeadLetter
from calve.dead_letters.table import LetterTable
from calve.errors import SourceError, SourceUnavailableError
from calve.event.columns import EVENT, SINK
from calve.observe.state_folder import Folder
from calve.sources.source import READ_BYTES, READ_ROWS, Split

__all__ = ["REPLAYED_FROM", "Part", "RejectsReader", "table_of"]

REPLAYED_FROM = "replayed_from"
"""Metadata of an event that is sent again: file and line of its dead letter, so that a new one tells of the old."""


@dataclass(frozen=True)
class Part:
    """Entries of one file, as a split's body has them.

    Attributes:
        place: The folder or the object store's prefix; of a table where its metadata is.
        file: The file's name in it; of a table the task.
        ranges: First byte, byte behind, line of the first entry and number of entries, for each run of entries; of a
            table numbers in place of bytes.
        sink: The number of the only sink that gets them; None: every sink.
        storage: What is needed to find a table's files, beside the credentials of the environment.
    """

    place: str
    file: str
    ranges: list[list[int]]
    sink: int | None = None
    storage: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RejectsReader:
    """Reads parts of dead-letter files, with the metadata that the events came with.

    Attributes:
        metadata: The attributes, with the types that the pipeline's source gives them.
        storage: By the folder of a table (`table_of`): what is needed to read it, secrets included, which no split has.
    """

    metadata: dict[str, pa.DataType]
    storage: dict[str, dict[str, str]] = field(default_factory=dict)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the events of a part in order.

        Raises:
            SourceError: The file is gone.
            SourceUnavailableError: The storage does not answer.
        """
        part = Part(**split.body)
        part = replace(part, storage=self.storage.get(table_of(part.place), part.storage))
        held: list[tuple[str, DeadLetter]] = []
        size = 0
        for where, line in _lines(part):
            held.append((where, msgspec.json.decode(line, type=DeadLetter)))
            size += len(line)
            if len(held) >= READ_ROWS or size >= READ_BYTES:
                yield self._batch(held, part.sink)
                held, size = [], 0
        if held:
            yield self._batch(held, part.sink)

    def _batch(self, held: Sequence[tuple[str, DeadLetter]], sink: int | None) -> pa.RecordBatch:
        events = [None if entry.event is None else entry.original() for _, entry in held]
        told = [entry.metadata or {} for _, entry in held]
        columns = {EVENT: pa.array(events, pa.binary())}
        columns |= {name: _column([one.get(name) for one in told], kind) for name, kind in self.metadata.items()}
        columns[REPLAYED_FROM] = pa.array([where for where, _ in held], pa.string())
        columns[SINK] = pa.array([sink] * len(held), pa.int32())
        return pa.record_batch(columns)


def table_of(place: str) -> str:
    """Return the folder of the metadata of a table of dead letters, whichever of its versions a part was read from."""
    return place.rpartition("/")[0]


def _lines(part: Part) -> Iterator[tuple[str, bytes]]:
    """Yield each entry's line, with its file and line number."""
    if LetterTable.is_at(part.place):
        found = LetterTable(part.place, "", part.storage).lines(part.file, [(span[0], span[1]) for span in part.ranges])
        yield from ((f"{part.file}:{number}", line) for number, line in found)
        return
    folder = Folder.at(part.place)
    path = f"{folder.path}/{part.file}"
    try:
        with folder.files.open_input_file(path) as file:
            for start, end, first, _ in part.ranges:
                lines = file.read_at(end - start, start).removesuffix(b"\n").split(b"\n")
                yield from ((f"{part.file}:{number}", line) for number, line in enumerate(lines, first))
    except FileNotFoundError as error:
        raise SourceError(
            f"The dead letters {path} are gone, and were to be sent again",
            step="read",
            target=path,
            hint="Put the file back, and replay again",
        ) from error
    except OSError as error:
        raise SourceUnavailableError(
            f"The dead letters {path} cannot be read: {error}",
            step="read",
            target=path,
            hint="It is tried again; look whether its storage is well",
        ) from error


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values their type; null for one that a stranger has written otherwise."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([_value(value, kind) for value in values], kind)


def _value(value: Any, kind: pa.DataType) -> Any:
    try:
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
