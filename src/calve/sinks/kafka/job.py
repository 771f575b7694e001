"""What tasks get to know of a Kafka sink, and how one writes: all records of a batch, at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from calve.columns.fields import ALL_FIELDS, Fields
from calve.convert.by_table import TableOfRow
from calve.errors import InvariantError
from calve.event.operation import Operation
from calve.event.reject import Code, Reject, rejects_table
from calve.record.written import IndexDocuments
from calve.serde.settings import SchemaSettings
from calve.sinks.job import EventPreview, SinkJob, Work
from calve.sinks.kafka.encoder import ValueEncoder
from calve.sinks.kafka.envelope import DebeziumValues
from calve.sinks.kafka.refusals import KafkaRecord, RecordRefusals
from calve.sinks.kafka.settings import KafkaSinkSettings
from calve.sinks.kafka.shape import EventRecords, RecordShape
from calve.sinks.kafka.transaction import send

if TYPE_CHECKING:
    from calve.arrays import RowNumbers
    from calve.record.receipt import Misfit, Receipt
    from calve.record.target import RowStream
    from calve.write.writer import Written

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
        schema: Where the schemas of values are; None: values are JSON.
    """

    settings: KafkaSinkSettings
    shape: RecordShape
    name: str
    batch: int
    time_ms: int
    fields: Fields = ALL_FIELDS
    schema: SchemaSettings | None = None

    def conversion_key(self, table: str) -> Hashable:
        """Return one key for all topics."""
        return ""

    def writer(self, work: Work) -> RecordWriter:
        """Make what sends records in a task."""
        return RecordWriter(self, work)

    def preview(self, table: str, events: pa.Table) -> EventPreview:
        """Return the events that cannot become records; send nothing."""
        return EventPreview(self.shape.records(events, self.fields).rejects)


class _Part(NamedTuple):
    """Some events of the batch, with their records."""

    topics: Sequence[str]
    topic_of_row: TableOfRow
    events: pa.Table
    records: EventRecords

    def changes(self, number: int) -> Iterator[tuple[KafkaRecord, int, str]]:
        """Yield a record with the row of each event that is not rejected, its `Operation`, and Debezium's `source`."""
        records, rows = self.records, range(len(self.events))
        columns = [column.cast(pa.binary()).to_pylist() for column in (records.keys, records.texts)]
        sources = [""] * len(rows) if records.sources is None else records.sources.to_pylist()
        headers = _headers(records.headers, len(rows))
        topics, operations = self.topic_of_row.tolist(), records.operations.to_pylist()
        for row, topic, key, text, header, operation, source in zip(
            rows, topics, *columns, headers, operations, sources, strict=True
        ):
            if operation is not None:
                yield KafkaRecord(self.topics[topic], key, text, header, number, row), operation, source

    def counts(self) -> Counter[str]:
        """Count the events of each topic that have a record."""
        operations = self.records.operations.fill_null(int(Operation.SKIPPED)).to_numpy()
        counts = np.bincount(self.topic_of_row[operations != Operation.SKIPPED], minlength=len(self.topics))
        return Counter(dict(zip(self.topics, counts.tolist(), strict=True)))


class RecordWriter:
    """Keeps the records of one batch until its end (`SinkWriter`): what is sent earlier, a failure would send again.

    Args:
        job: The sink's part of the job.
        work: The task.
    """

    def __init__(self, job: RecordJob, work: Work) -> None:
        self._job = job
        self._work = work
        self._parts: list[_Part] = []
        self._sent = Counter[str]()
        self._encoder = ValueEncoder(job.schema, job.route.table.static) if job.schema else None

    def write(
        self,
        tables: Sequence[str],
        events: pa.Table,
        table_of_row: TableOfRow,
        unrouted: list[RowNumbers] | None = None,
    ) -> Iterator[tuple[str, pa.Table]]:
        """Convert events, and yield those that cannot become records."""
        records = self._job.shape.records(events, self._job.fields)
        if self._encoder:
            records = self._work.timed("convert", self._encoder.encode, tables, table_of_row, records)
        part = _Part(tables, table_of_row, events, records)
        self._parts.append(part)
        yield from _by_topic(part, part.records.rejects)

    def finish(self) -> list[Misfit]:
        """Send all records in one transaction, unless this pass is only a test; reject those that Kafka refuses."""
        if self._work.is_probe:
            return []
        job, topics = self._job, {topic for part in self._parts for topic in part.topics}
        refusals = self._work.timed("write", send, job.settings, job.name, job.batch, topics, self._records)
        for part in self._parts:
            self._sent.update(part.counts())
        if refusals:
            self._reject(refusals)
        return []

    def _reject(self, refusals: RecordRefusals) -> None:
        """Reject the events with a record that is refused."""
        refused: list[dict[int, Reject]] = [{} for _ in self._parts]
        for record in self._records():
            if reason := refusals.reason(record):
                refused[record.part].setdefault(record.row, Reject(record.row, Code.SINK_REFUSED, "topic", reason))
        for part, rejects in zip(self._parts, refused, strict=True):
            for topic, table in _by_topic(part, rejects_table(rejects.values())):
                self._sent[topic] -= len(table)
                self._work.reject(topic, part.events, table)

    def write_shuffled(self, parts: dict[RowStream, list[pa.Table]]) -> None:
        """Refuse: nothing is shuffled."""
        raise InvariantError("A sink that sends records shuffles no parts", step="write")

    def close(self, files: Mapping[RowStream, Written]) -> Receipt:
        """Return how many records each topic got."""
        from calve.record.receipt import Receipt  # with PyIceberg, which the driver's start needs later

        return Receipt(documents=[IndexDocuments(topic, rows, 0) for topic, rows in self._sent.items() if rows])

    def _records(self) -> Iterator[KafkaRecord]:
        """Yield the records of the batch, in the order of the events of each topic."""
        values = DebeziumValues(self._job.time_ms) if self._job.shape.is_envelope else None
        for number, part in enumerate(self._parts):
            for record, operation, source in part.changes(number):
                if values is not None:
                    yield from values.records(record, operation, source)
                elif operation == Operation.DELETE:
                    yield record._replace(value=None)
                elif operation != Operation.SKIPPED:
                    yield record
        yield from values.rest() if values else ()


def _by_topic(part: _Part, rejects: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield rejects by their topic."""
    numbers = part.topic_of_row[rejects["row"].to_numpy()]
    for number in np.unique(numbers).tolist():
        yield part.topics[number], rejects.filter(pa.array(numbers == number))


def _headers(columns: Mapping[str, pa.Array], rows: int) -> list[list[tuple[str, bytes]]]:
    """Return the headers of each event: those that have a value."""
    headers: list[list[tuple[str, bytes]]] = [[] for _ in range(rows)]
    for name, column in columns.items():
        for header, value in zip(headers, column.cast(pa.binary()).to_pylist(), strict=True):
            if value is not None:
                header.append((name, value))
    return headers
