"""Keeps the events of a batch until its end, with what their records have. Runs on executors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from calve.columns.fields import Fields
from calve.convert.by_table import TableOfRow
from calve.errors import InvariantError
from calve.event.operation import Operation
from calve.record.written import IndexDocuments
from calve.sinks.job import Work
from calve.sinks.records.record import OutgoingRecord
from calve.sinks.records.shape import EventRecords, RecordShape

if TYPE_CHECKING:
    from calve.arrays import RowNumbers
    from calve.record.receipt import Misfit, Receipt
    from calve.record.target import RowStream
    from calve.write.writer import Written

__all__ = ["EventPart", "KeptEvents", "by_target"]


class EventPart(NamedTuple):
    """Some events of the batch, with their records."""

    targets: Sequence[str]
    target_of_row: TableOfRow
    events: pa.Table
    records: EventRecords

    def changes(self, number: int) -> Iterator[tuple[OutgoingRecord, int, str]]:
        """Yield a record with the row of each event that is not rejected, its `Operation`, and Debezium's `source`."""
        records, rows = self.records, range(len(self.events))
        columns = [column.cast(pa.binary()).to_pylist() for column in (records.keys, records.texts)]
        sources = [""] * len(rows) if records.sources is None else records.sources.to_pylist()
        headers = _headers(records.headers, len(rows))
        targets, operations = self.target_of_row.tolist(), records.operations.to_pylist()
        for row, target, key, text, header, operation, source in zip(
            rows, targets, *columns, headers, operations, sources, strict=True
        ):
            if operation is not None:
                yield OutgoingRecord(self.targets[target], key, text, header, number, row), operation, source

    def counts(self) -> Counter[str]:
        """Count the events of each target that have a record."""
        operations = self.records.operations.fill_null(int(Operation.SKIPPED)).to_numpy()
        counts = np.bincount(self.target_of_row[operations != Operation.SKIPPED], minlength=len(self.targets))
        return Counter(dict(zip(self.targets, counts.tolist(), strict=True)))


class KeptEvents(ABC):
    """Keeps the events of one batch until its end (`SinkWriter`): what is sent earlier, a failure would send again.

    Args:
        work: The task.
        shape: How events become records.
        fields: The fields of an event that are written.
        time_ms: The time of the batch, in milliseconds since the epoch.
    """

    def __init__(self, work: Work, shape: RecordShape, fields: Fields, time_ms: int) -> None:
        self._work = work
        self._shape = shape
        self._fields = fields
        self._time_ms = time_ms
        self._parts: list[EventPart] = []
        self._sent = Counter[str]()

    def encoded(self, targets: Sequence[str], target_of_row: TableOfRow, records: EventRecords) -> EventRecords:
        """Return records with their values as they are sent: as they are."""
        return records

    def write(
        self,
        tables: Sequence[str],
        events: pa.Table,
        table_of_row: TableOfRow,
        unrouted: list[RowNumbers] | None = None,
    ) -> Iterator[tuple[str, pa.Table]]:
        """Keep events, and yield those that cannot become records."""
        records = self.encoded(tables, table_of_row, self._shape.records(events, self._fields))
        part = EventPart(tables, table_of_row, events, records)
        self._parts.append(part)
        yield from by_target(part, part.records.rejects)

    @abstractmethod
    def finish(self) -> list[Misfit]:
        """Write all events, unless this pass is only a test."""

    def write_shuffled(self, parts: dict[RowStream, list[pa.Table]]) -> None:
        """Refuse: nothing is shuffled."""
        raise InvariantError("A sink that sends records shuffles no parts", step="write")

    def close(self, files: Mapping[RowStream, Written]) -> Receipt:
        """Return how many events each target got."""
        from calve.record.receipt import Receipt  # with PyIceberg, which the driver's start needs later

        return Receipt(documents=[IndexDocuments(target, rows, 0) for target, rows in self._sent.items() if rows])


def by_target(part: EventPart, rejects: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield rejects by their target."""
    numbers = part.target_of_row[rejects["row"].to_numpy()]
    for number in np.unique(numbers).tolist():
        yield part.targets[number], rejects.filter(pa.array(numbers == number))


def _headers(columns: Mapping[str, pa.Array], rows: int) -> list[list[tuple[str, bytes | None]]]:
    """Return the headers of each event: those that have a value."""
    headers: list[list[tuple[str, bytes | None]]] = [[] for _ in range(rows)]
    for name, column in columns.items():
        for header, value in zip(headers, column.cast(pa.binary()).to_pylist(), strict=True):
            if value is not None:
                header.append((name, value))
    return headers
