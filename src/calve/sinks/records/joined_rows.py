"""Joins the old and the new row of each change. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from calve.event.operation import Operation
from calve.sinks.records.record import OutgoingRecord

__all__ = ["JoinedRow", "JoinedRows"]


class JoinedRow(NamedTuple):
    """A change of a row, as Debezium has it.

    Attributes:
        op: `c`, `u` or `d`.
        before: The old row, as far as the source has it.
        after: The new row; None: the row is deleted.
        source: The envelope's `source`, as JSON.
    """

    op: str
    before: OutgoingRecord | None
    after: OutgoingRecord | None
    source: str


class JoinedRows:
    """Joins the rows of one batch, whose changes come in order: an old row waits for its new one."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, bytes | None], tuple[OutgoingRecord, str]] = {}

    def of(self, record: OutgoingRecord, operation: int, source: str) -> Iterator[JoinedRow]:
        """Yield the changes that are complete with an event.

        Args:
            record: Its value is the row.
            operation: An `Operation`.
            source: The envelope's `source`, as JSON.
        """
        if operation != Operation.UPDATE and (moved := self._before.pop((record.target, record.key), None)):
            yield _deleted(*moved)  # its new row went to another target, and the key comes again
        if operation == Operation.SKIPPED:
            self._before[record.target, record.key] = record, source
        elif operation == Operation.DELETE:
            yield _deleted(record, source)
        elif operation == Operation.UPDATE:
            before, _ = self._before.pop((record.target, record.key), (None, source))
            yield JoinedRow("u", before, record, source)
        else:
            yield JoinedRow("c", None, record, source)

    def forget(self, record: OutgoingRecord) -> None:
        """Forget the old row of a new row that is rejected: it is not deleted."""
        self._before.pop((record.target, record.key), None)

    def rest(self) -> Iterator[JoinedRow]:
        """Yield deletes of old rows without a new one, which went to another target."""
        for record, source in self._before.values():
            yield _deleted(record, source)


def _deleted(record: OutgoingRecord, source: str) -> JoinedRow:
    return JoinedRow("d", record, None, source)
