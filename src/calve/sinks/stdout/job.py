"""What tasks get to know of a stdout sink: one returns the lines of a batch in its receipt. Runs on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from calve.sinks.job import Work
from calve.sinks.records.job import BatchJob
from calve.sinks.records.lines import lines
from calve.sinks.records.record import OutgoingRecord
from calve.sinks.records.writer import BatchWriter, Refusal

if TYPE_CHECKING:
    from calve.record.receipt import Receipt
    from calve.record.target import RowStream
    from calve.write.writer import Written

__all__ = ["LineJob", "LineWriter"]


class LineJob(BatchJob):
    """A sink's part of a job, of which one task returns the lines."""

    def writer(self, work: Work) -> LineWriter:
        """Make what keeps lines in a task."""
        return LineWriter(work, self.shape, self.fields, self.time_ms)


class LineWriter(BatchWriter):
    """Keeps the lines of one batch for the receipt."""

    _lines: tuple[str, ...] = ()

    def send(self, targets: set[str], records: Callable[[], Iterator[OutgoingRecord]]) -> Refusal | None:
        """Keep the lines."""
        self._lines = tuple(line.decode() for _, line in lines(records()))
        return None

    def close(self, files: Mapping[RowStream, Written]) -> Receipt:
        """Return the lines, and how many events they are."""
        return msgspec.structs.replace(super().close(files), lines=list(self._lines))
