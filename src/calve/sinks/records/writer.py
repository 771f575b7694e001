"""Sends the records of a batch at its end, all of them at once. Runs on executors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from calve.event.operation import Operation
from calve.event.reject import Code, Reject, rejects_table
from calve.sinks.records.envelope import DebeziumValues
from calve.sinks.records.kept_events import KeptEvents, by_target
from calve.sinks.records.record import OutgoingRecord

if TYPE_CHECKING:
    from calve.record.receipt import Misfit

__all__ = ["BatchWriter", "Refusal"]

Refusal = Callable[[OutgoingRecord], str | None]
"""Returns why a record was refused; None: it was sent."""


class BatchWriter(KeptEvents):
    """Sends the records of one batch."""

    @abstractmethod
    def send(self, targets: set[str], records: Callable[[], Iterator[OutgoingRecord]]) -> Refusal | None:
        """Send the records of the batch; return what tells those that were refused, None if none was.

        Args:
            targets: Those that the batch has.
            records: Yields the records, in the order of the events of each target; may be called again.

        Raises:
            CalveError: The server is away or refuses all.
        """

    def finish(self) -> list[Misfit]:
        """Send all records, unless this pass is only a test; reject those that are refused."""
        if self._work.is_probe:
            return []
        targets = {target for part in self._parts for target in part.targets}
        refusal = self._work.timed("write", self.send, targets, self._records)
        for part in self._parts:
            self._sent.update(part.counts())
        if refusal:
            self._reject(refusal)
        return []

    def _reject(self, refusal: Refusal) -> None:
        """Reject the events with a record that is refused."""
        refused: list[dict[int, Reject]] = [{} for _ in self._parts]
        for record in self._records():
            if reason := refusal(record):
                field = self._shape.target_field
                refused[record.part].setdefault(record.row, Reject(record.row, Code.SINK_REFUSED, field, reason))
        for part, rejects in zip(self._parts, refused, strict=True):
            for target, table in by_target(part, rejects_table(rejects.values())):
                self._sent[target] -= len(table)
                self._work.reject(target, part.events, table)

    def _records(self) -> Iterator[OutgoingRecord]:
        """Yield the records of the batch, in the order of the events of each target."""
        values = DebeziumValues(self._time_ms) if self._shape.is_envelope else None
        for number, part in enumerate(self._parts):
            for record, operation, source in part.changes(number):
                if values is not None:
                    yield from values.records(record, operation, source)
                elif operation == Operation.DELETE:
                    yield record._replace(value=None)
                elif operation != Operation.SKIPPED:
                    yield record
        yield from values.rest() if values else ()
