"""The writers of all sinks of one task, each created at the first event of its sink; runs on executors."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from calve.record.receipt import Misfit, Receipt
from calve.record.target import TableRef
from calve.sinks.job import SinkWriter, Work
from calve.task.isolation import RejectRows
from calve.task.job import Job
from calve.task.step_clock import StepClock
from calve.write.shuffle import Shuffle
from calve.write.writer import Writers

__all__ = ["SinkWriters"]


class SinkWriters:
    """All writers of one task.

    Args:
        job: The job.
        task: The number of the task.
        files: The data files of the task.
        shuffle: Gets small parts, which another task writes.
        clock: Gets the current table, and the time of the steps.
        reject: Gets rejects that are known only when all events have come.
    """

    def __init__(
        self,
        job: Job,
        task: int,
        files: Writers,
        shuffle: Shuffle | None,
        clock: StepClock,
        reject: RejectRows,
    ) -> None:
        self._job = job
        self._files = files
        self._clock = clock
        self._reject = reject
        self._writers: dict[int, SinkWriter] = {}
        self._work = partial(
            Work,
            task=task,
            run=job.run,
            origin=job.origin,
            writers=files,
            shuffle=shuffle,
            timed=clock.timed,
            is_probe=job.isolation.is_probe,
        )

    def of(self, sink: int) -> SinkWriter:
        """Return the writer of a sink."""
        if sink not in self._writers:
            work = self._work(sink=sink, begin=partial(self._begin, sink), reject=partial(self._rejected, sink))
            self._writers[sink] = self._job.sinks[sink].writer(work)
        return self._writers[sink]

    def finish(self) -> list[Misfit]:
        """Write what is kept until the last event; return the misfits."""
        return [misfit for writer in self._writers.values() for misfit in writer.finish()]

    def close(self) -> Receipt:
        """Close all files, and return a receipt with them."""
        self._clock.target = None
        files = self._clock.timed("write", self._files.close)
        numbers = sorted(self._writers.keys() | {stream.sink for stream in files})
        parts = [
            self.of(number).close({stream: written for stream, written in files.items() if stream.sink == number})
            for number in numbers
        ]
        return Receipt(
            tables=[table for part in parts for table in part.tables],
            documents=[index for part in parts for index in part.documents],
            nulled=[values for part in parts for values in part.nulled],
            ignored=[fields for part in parts for fields in part.ignored],
            failed_rules=[rules for part in parts for rules in part.failed_rules],
            lines=[line for part in parts for line in part.lines],
        )

    def _begin(self, sink: int, table: str) -> None:
        self._clock.target = TableRef(sink, table)

    def _rejected(self, sink: int, table: str, events: pa.Table, rejects: pa.Table) -> None:
        self._reject(TableRef(sink, table), events, rejects)
