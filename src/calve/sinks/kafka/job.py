"""What tasks get to know of a Kafka sink, and how one writes: all records of a batch, at its end."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from calve.columns.fields import ALL_FIELDS, Fields
from calve.convert.by_table import TableOfRow
from calve.sinks.job import EventPreview, SinkJob, Work
from calve.sinks.kafka.encoder import Encoding, RecordEncoder
from calve.sinks.kafka.settings import KafkaSinkSettings
from calve.sinks.kafka.transaction import send
from calve.sinks.records.record import OutgoingRecord
from calve.sinks.records.shape import EventRecords, RecordShape
from calve.sinks.records.writer import BatchWriter, Refusal

__all__ = ["RecordJob", "RecordWriter"]


@dataclass(frozen=True)
class RecordJob(SinkJob):
    """A sink's part of a job, of which one task sends all records in one transaction.

    Attributes:
        settings: The sink's settings.
        shape: How events become records.
        name: The transactional id.
        batch: The number of the batch.
        time_ms: The time of the batch, in milliseconds since the epoch.
        fields: The fields of an event that are written.
        encoding: How values and keys are encoded; None: they are JSON and text.
    """

    settings: KafkaSinkSettings
    shape: RecordShape
    name: str
    batch: int
    time_ms: int
    fields: Fields = ALL_FIELDS
    encoding: Encoding | None = None

    def conversion_key(self, table: str) -> Hashable:
        """Return one key for all topics."""
        return ""

    def writer(self, work: Work) -> RecordWriter:
        """Make what sends records in a task."""
        return RecordWriter(self, work)

    def preview(self, table: str, events: pa.Table) -> EventPreview:
        """Return the events that cannot become records; send nothing."""
        return EventPreview(self.shape.records(events, self.fields).rejects)


class RecordWriter(BatchWriter):
    """Sends the records of one batch in one transaction.

    Args:
        job: The sink's part of the job.
        work: The task.
    """

    def __init__(self, job: RecordJob, work: Work) -> None:
        super().__init__(work, job.shape, job.fields, job.time_ms)
        self._job = job
        self._encoder = RecordEncoder(job.encoding, job.route.table.static) if job.encoding else None

    def encoded(self, targets: Sequence[str], target_of_row: TableOfRow, records: EventRecords) -> EventRecords:
        """Return records with their values in the format of the sink."""
        if self._encoder is None:
            return records
        encoded: EventRecords = self._work.timed("convert", self._encoder.encode, targets, target_of_row, records)
        return encoded

    def send(self, targets: set[str], records: Callable[[], Iterator[OutgoingRecord]]) -> Refusal | None:
        """Send the records; return what tells those that Kafka refuses."""
        job = self._job
        refusals = send(job.settings, job.name, job.batch, targets, records)
        return refusals.reason if refusals else None
