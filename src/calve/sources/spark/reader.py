"""The spark source on executors: reads the parts of kept DataFrames as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import load_file_io

from calve.errors import SourceError, SourceUnavailableError
from calve.event.typed_schema import declaration
from calve.sources.file.rows import FileBatches, row_numbers
from calve.sources.source import Split

__all__ = ["UNREADABLE", "FrameReader"]

UNREADABLE = "_calve_unreadable"
"""string: the text of a record that Spark cannot read; null for all others. It is only in kept frames."""


@dataclass(frozen=True)
class FrameReader:
    """Reads parts of frames; pickled into the tasks. Columns: as typed rows of a file, without metadata.

    Attributes:
        folder: The folder of the frames.
        storage: The properties of a FileIO, if the folder is on an object store.
        format: What Spark has read, whose unreadable records are in a column of their own; empty: rows of a user's job.
    """

    folder: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    format: str = ""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part in order."""
        for batch in self.batches(split):
            for rows in self._events(FileBatches(self._name(split)), batch):
                yield rows.drop_columns(["file_path", "file_row"])

    def batches(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part in order, as they were written.

        Raises:
            SourceError: The part is not there, or damaged.
            SourceUnavailableError: The store does not answer.
        """
        name = self._name(split)
        try:
            yield from self._batches(name)
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            hint = "Restore the state, which has the uncommitted rows"
            raise SourceError(f"{name} cannot be read: {error}", step="read", target=name, hint=hint) from error
        except OSError as error:
            hint = "Check the store, and the keys of the executors; Calve tries again"
            raise SourceUnavailableError(
                f"{name} cannot be read: {error}", step="read", target=name, hint=hint
            ) from error

    def _events(self, batches: FileBatches, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows, texts = _divided(rows) if self.format else (rows, [])
        if len(rows):
            declared = declaration(rows.schema.remove_metadata())
            yield from batches.typed(rows, row_numbers(1, len(rows)), declared)
        reason = f"Spark cannot read it as {self.format} with these columns; it does not say which value is wrong"
        yield from batches.rejects([(text, reason, None) for text in texts])

    def _name(self, split: Split) -> str:
        return "/".join((self.folder, split.body["frame"], split.body["part"]))

    def _batches(self, name: str) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_file(self._open(name)) as opened:
            for number in range(opened.num_record_batches):
                yield opened.get_batch(number)

    def _open(self, name: str) -> pa.NativeFile | pa.BufferReader:
        if "://" not in self.folder:
            return pa.memory_map(str(Path(name)))
        with load_file_io(dict(self.storage), name).new_input(name).open(seekable=False) as stream:
            return pa.BufferReader(stream.read())


def _divided(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[bytes]]:
    """Return the rows that Spark could read, without `UNREADABLE`, and the texts of the others."""
    if UNREADABLE not in rows.schema.names:
        return rows, []
    texts = rows[UNREADABLE]
    readable = rows.drop_columns([UNREADABLE])
    if texts.null_count == len(texts):
        return readable, []
    return readable.filter(pc.is_null(texts)), texts.drop_null().cast(pa.binary()).to_pylist()
