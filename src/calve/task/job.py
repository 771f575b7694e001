"""What the driver sends to the tasks of one batch; `calve.record.receipt` is what comes back."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from calve.event.envelope.decoder import Envelopes
from calve.record.content_file import ContentFile
from calve.record.target import EQUALITY_DELETE, Role, Stream, TableRef
from calve.record.written import CommitRejects, TableFiles
from calve.sinks.iceberg.job import TableJob
from calve.sinks.job import SinkJob, WritingJob
from calve.sources.source import Reader
from calve.table.loaded import Table
from calve.task.isolation import WHOLE, Isolation
from calve.write.writer import Written

__all__ = [
    "STEPS",
    "Job",
]

STEPS = ("read", "decode", "route", "convert", "write")
"""What a receipt has seconds of."""


@dataclass(frozen=True)
class Job:
    """One pass over a batch; pickled into its tasks.

    Attributes:
        run: Makes file names unique: pipeline, state and batch.
        origin: The metadata attributes that tell where an event came from, as far as its source is divided.
        moment: When the batch was begun, as the ledger has it (`Planned.moment`).
        places: By task: its splits' numbers in the batch's plan.
        splits: How many splits the batch has.
        isolation: Which of the batch's events are read, and which are left out as dead letters.
        number: The pass: 0, then 1 and more for the tables that had misfits.
        gatherers: How many tasks write what the others hand on; 0: these write all of it themselves.
        only: What to write in this pass: tables by the number of the task that could not write them; None for all.
        envelopes: How events are decoded that are envelopes of a change stream; None: they are the rows themselves.
    """

    pipeline: str
    run: str
    reader: Reader
    sinks: tuple[SinkJob, ...]
    max_open_writers: int
    origin: tuple[str, ...] = ()
    number: int = 0
    gatherers: int = 0
    only: Mapping[int, frozenset[TableRef]] | None = None
    moment: int = 0
    places: Sequence[Sequence[int]] = ()
    splits: int = 0
    isolation: Isolation = WHOLE
    envelopes: Envelopes | None = None

    @property
    def has_documents(self) -> bool:
        """Whether a sink writes documents, which needs the order of events."""
        return any(isinstance(sink, WritingJob) for sink in self.sinks)

    @property
    def limits(self) -> list[int]:
        """By sink: parts of less bytes are handed on."""
        return [sink.gathers_bytes if isinstance(sink, TableJob) else 0 for sink in self.sinks]

    def table_sink(self, target: TableRef | Stream) -> TableJob:
        """Return the sink of a table."""
        sink = self.sinks[target.sink]
        assert isinstance(sink, TableJob)
        return sink

    def place(self, stream: Stream) -> tuple[Table, dict[str, str]]:
        """Return the table of a stream, and its properties."""
        sink = self.table_sink(stream)
        are_letters = stream.role is Role.DEAD_LETTERS
        table = sink.dead_letters.table if are_letters else sink.tables[stream.table]
        assert isinstance(table, Table)
        return table, {**table.properties, **({} if are_letters else sink.write_properties)}

    def table_files(self, stream: Stream, one: Written, event_times: Mapping[str, int] | None = None) -> TableFiles:
        """Return what was written of a stream, with the latest event times of its table."""
        sink, are_letters = self.table_sink(stream), stream.role is Role.DEAD_LETTERS
        return TableFiles(
            catalog=sink.catalog,
            table=stream.table,
            branch="main" if are_letters else sink.branch,
            uuid=one.table.uuid,
            write_mode=EQUALITY_DELETE if are_letters else sink.write_mode,
            files=cast("list[ContentFile]", one.files),
            rows=0 if stream.role is Role.DELETES else one.rows,
            bytes=one.size_bytes,
            event_times=dict(event_times or {}),
            commit_rejects=self._commit_rejects(stream) if stream.role is Role.PARTIAL else None,
        )

    def _commit_rejects(self, stream: Stream) -> CommitRejects:
        sink = self.table_sink(stream)
        name = f"{self.run}-{stream.sink}-{zlib.crc32(stream.table.encode()):08x}-at-commit.ndjson"
        return CommitRejects(f"{sink.dead_letters.location}/{name}", sink.label)
