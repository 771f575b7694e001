"""Debezium's envelope: the old and the new row of a change in one value. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator

from calve.event.operation import Operation
from calve.sinks.records.record import OutgoingRecord

__all__ = ["DebeziumValues"]


class DebeziumValues:
    """Builds the values of one batch, whose changes come in order.

    Args:
        time_ms: The time of the batch, in milliseconds since the epoch.
    """

    def __init__(self, time_ms: int) -> None:
        self._end = f',"ts_ms":{time_ms}}}'.encode()
        self._before: dict[tuple[str, bytes | None], tuple[OutgoingRecord, str]] = {}

    def records(self, record: OutgoingRecord, operation: int, source: str) -> Iterator[OutgoingRecord]:
        """Yield the records of a change: an old row waits for its new one; a delete has a tombstone, too.

        Args:
            record: Its value is the row.
            operation: An `Operation`.
            source: The envelope's `source`, as JSON.
        """
        row = record.value or b"null"
        if operation != Operation.UPDATE and (moved := self._before.pop((record.target, record.key), None)):
            yield from self._delete(*moved)  # its new row went to another target, and the key comes again
        if operation == Operation.SKIPPED:
            self._before[record.target, record.key] = record, source
        elif operation == Operation.DELETE:
            yield from self._delete(record, source)
        elif operation == Operation.UPDATE:
            before, _ = self._before.pop((record.target, record.key), (None, source))
            old = b"null" if before is None or before.value is None else before.value
            yield record._replace(value=self._value("u", old, row, source))
        else:
            yield record._replace(value=self._value("c", b"null", row, source))

    def rest(self) -> Iterator[OutgoingRecord]:
        """Yield deletes of old rows without a new one, which went to another target."""
        for record, source in self._before.values():
            yield from self._delete(record, source)

    def _delete(self, record: OutgoingRecord, source: str) -> Iterator[OutgoingRecord]:
        yield record._replace(value=self._value("d", record.value or b"null", b"null", source))
        if record.key is not None:
            yield record._replace(value=None)

    def _value(self, op: str, before: bytes, after: bytes, source: str) -> bytes:
        return b'{"before":%b,"after":%b,"source":%b,"op":"%b"%b' % (
            before, after, source.encode(), op.encode(), self._end
        )  # fmt: skip
