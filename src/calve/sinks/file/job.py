"""What tasks get to know of a file sink, and how one writes the lines of a batch. Runs on executors."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from calve.sinks.file.columns import FileColumns, placed
from calve.sinks.file.output import BatchFiles
from calve.sinks.file.parquet import ParquetWriter
from calve.sinks.file.settings import Compression
from calve.sinks.job import EventPreview, Work
from calve.sinks.records.job import BatchJob
from calve.sinks.records.lines import lines
from calve.sinks.records.record import OutgoingRecord
from calve.sinks.records.writer import BatchWriter, Refusal

__all__ = ["FileJob", "LineFileWriter"]


@dataclass(frozen=True)
class FileJob(BatchJob):
    """A sink's part of a job, of which one task writes the files.

    Attributes:
        root: The folder that all files are in, at any depth.
        endings: How names of files end.
        compression: How they are compressed.
        columns: The columns of Parquet files; None: files are lines.
    """

    root: str
    endings: str
    compression: Compression
    columns: FileColumns | None = None

    @property
    def files(self) -> BatchFiles:
        """The files of the batch, to be written."""
        return BatchFiles(self.root, self.name, self.endings, self.time_ms)

    def writer(self, work: Work) -> LineFileWriter | ParquetWriter:
        """Make what writes files in a task."""
        if self.columns is None:
            return LineFileWriter(self, work)
        return ParquetWriter(work, self.shape, self.columns, self.files, self.compression)

    def preview(self, table: str, events: pa.Table) -> EventPreview:
        """Return the events that cannot become lines or rows; write nothing."""
        preview = super().preview(table, events)
        if self.columns is None:
            return preview
        good = pa.array(np.setdiff1d(np.arange(len(events)), preview.rejects["row"].to_numpy()))
        [converted] = self.columns.rows([events.take(good)])
        return EventPreview(pa.concat_tables([preview.rejects, placed(converted.rejects, good)]))


class LineFileWriter(BatchWriter):
    """Writes the records of one batch: a file of lines in each folder.

    Args:
        job: The sink's part of the job.
        work: The task.
    """

    def __init__(self, job: FileJob, work: Work) -> None:
        super().__init__(work, job.shape, job.fields, job.time_ms)
        self._job = job

    def send(self, targets: set[str], records: Callable[[], Iterator[OutgoingRecord]]) -> Refusal | None:
        """Write the files, then the manifest; nothing if there are no records."""
        files, contents = self._job.files, dict[str, list[bytes]]()
        for record, line in lines(records()):
            contents.setdefault(record.target, []).append(line)
        for folder, rows in contents.items():
            files.add(folder, _compressed(b"".join(rows), self._job.compression), len(rows))
        files.finish()
        return None


def _compressed(data: bytes, compression: Compression) -> bytes:
    if compression == "gzip":
        return gzip.compress(data, 6, mtime=0)
    if compression == "zstd":
        compressed: bytes = pa.compress(data, codec="zstd", asbytes=True)
        return compressed
    return data
