"""Debezium's envelope: the old and the new row of a change in one value. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator

from calve.sinks.records.joined_rows import JoinedRow, JoinedRows
from calve.sinks.records.record import OutgoingRecord

__all__ = ["DebeziumValues"]


class DebeziumValues:
    """Builds the values of one batch, whose changes come in order.

    Args:
        time_ms: The time of the batch, in milliseconds since the epoch.
    """

    def __init__(self, time_ms: int) -> None:
        self._end = f',"ts_ms":{time_ms}}}'.encode()
        self._changes = JoinedRows()

    def records(self, record: OutgoingRecord, operation: int, source: str) -> Iterator[OutgoingRecord]:
        """Yield the records of the changes that `JoinedRows.of` yields; a delete has a tombstone, too."""
        for change in self._changes.of(record, operation, source):
            yield from self._records(change)

    def rest(self) -> Iterator[OutgoingRecord]:
        """Yield the records of `JoinedRows.rest`."""
        for change in self._changes.rest():
            yield from self._records(change)

    def _records(self, change: JoinedRow) -> Iterator[OutgoingRecord]:
        record = change.after or change.before
        assert record is not None
        value = b'{"before":%b,"after":%b,"source":%b,"op":"%b"%b' % (
            _row(change.before), _row(change.after), change.source.encode(), change.op.encode(), self._end
        )  # fmt: skip
        yield record._replace(value=value)
        if change.after is None and record.key is not None:
            yield record._replace(value=None)


def _row(record: OutgoingRecord | None) -> bytes:
    return (record and record.value) or b"null"
