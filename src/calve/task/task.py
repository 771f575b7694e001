"""One task of a batch: read → decode → process → route (`calve.task.path`) → buffer → convert → write. On executors."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from calve.arrays import RowNumbers
from calve.compiled import events as core
from calve.dead_letters.rejects import TaskRejects
from calve.event.columns import EVENT
from calve.event.reject import Code
from calve.event.typed import with_text
from calve.record.receipt import Failure, Misfit, Receipt
from calve.record.target import Role, RowStream, TableRef
from calve.sources.source import Split
from calve.stop_point import fail_if
from calve.task.event_buffer import EventBuffer
from calve.task.failure import attempt, reported
from calve.task.job import Job
from calve.task.path import EventPath, RoutedEvents
from calve.task.sink_writers import SinkWriters
from calve.task.step_clock import StepClock
from calve.write.shuffle import Shuffle
from calve.write.writer import Writers

__all__ = ["run_task", "run_tasks", "shuffle_tasks"]

_BUFFERS_BYTES = 192 << 20
"""The most events in all buffers of a task."""


def run_tasks(job: Job, groups: list[list[Split]], numbers: Iterator[int]) -> Iterator[bytes]:
    """Run the tasks with these numbers, and yield a receipt of each as JSON (the function of a Spark job)."""
    for number in numbers:
        yield msgspec.json.encode(run_task(job, groups[number], number))


def shuffle_tasks(job: Job, groups: list[list[Split]], numbers: Iterator[int]) -> Iterator[tuple[int, bytes]]:
    """Run the tasks with these numbers; yield messages with their small parts, which `reduce_task.run` writes.

    Each message follows the number of its reduce task. The receipts go to the first one as JSON, which passes them on;
    all others are messages for `write.shuffle.opened`.
    """
    for number in numbers:
        task = _Task(job, number)
        receipt = reported(job, task, partial(task.run, groups[number]), task.clock)
        if isinstance(receipt, Receipt):
            yield from task.shuffled()
        yield 0, msgspec.json.encode(receipt)


def run_task(job: Job, splits: list[Split], number: int) -> Receipt | Failure:
    """Process splits; return the receipt, or the error that ended the task, whose files are then removed."""
    task = _Task(job, number)
    return reported(job, task, partial(task.run, splits), task.clock)


class _Task:
    def __init__(self, job: Job, number: int) -> None:
        self.clock = StepClock()
        self._job = job
        self._number = number
        self._is_first = job.only is None
        self._path = EventPath(job, number, self._reject, self.clock)
        name = f"{job.run}-{job.number}-{number:05d}"
        self._shuffle = Shuffle(job.shuffle_partitions, job.shuffle_below_bytes) if job.shuffle_partitions else None
        self._files = Writers(f"{name}-{attempt()}", job.max_open_writers, self._shuffle)
        self._sinks = SinkWriters(job, number, self._files, self._shuffle, self.clock, self._reject)
        self._rejects = [
            TaskRejects(
                sink.dead_letters,
                f"{name}-{index}",
                attempt(),
                {"pipeline": job.pipeline, "sink": sink.label},
                sink.is_ordered,
            )
            for index, sink in enumerate(job.sinks)
        ]
        self._buffers: dict[tuple[Hashable, bool], EventBuffer] = {}
        self._misfits: list[Misfit] = []

    def run(self, splits: list[Split]) -> Receipt:
        with contextlib.closing(self._path.read(splits)) as batches:
            for events in batches:
                for routed in self._path.route(self._path.process(self._path.decode(events))):
                    self._buffer(routed)
                self._limit_buffers()
                self.clock.target = None
        while waiting := [key for key, buffer in self._buffers.items() if buffer.rows]:
            self._convert(waiting[0])
        self._misfits = self._sinks.finish()
        self._write_rejects()
        receipt = self._receipt(self._sinks.close())
        if self._job.isolation.is_probe:
            self.discard()
        return receipt

    def discard(self) -> None:
        self._files.discard()

    def shuffled(self) -> Iterator[tuple[int, bytes]]:
        """Yield the messages for other tasks, without those of tables that must be created or evolved first."""
        if self._shuffle is None:
            return
        yield from self._shuffle.records([misfit.target for misfit in self._misfits])
        if self._misfits:
            self._shuffle.post_misfit()
            yield from self._shuffle.records(())

    def _buffer(self, routed: RoutedEvents) -> None:
        shares = self._job.isolation.keep_shares(routed.rows, routed.shares, self._reject)
        if not shares:
            return
        key = routed.conversion_key, routed.is_provisional
        buffer = self._buffers.setdefault(key, EventBuffer())
        if not buffer.joins(routed.rows):
            self._convert(key)
        buffer.add(routed.rows, shares)
        if buffer.is_full:
            self._convert(key)

    def _limit_buffers(self) -> None:
        while sum(buffer.size_bytes for buffer in self._buffers.values()) > _BUFFERS_BYTES:
            self._convert(max(self._buffers, key=lambda key: self._buffers[key].size_bytes))

    def _convert(self, key: tuple[Hashable, bool]) -> None:
        """Convert and write the events of a buffer; those that are undecided after a provisional route are rerouted."""
        buffer, (_, is_provisional) = self._buffers[key], key
        events, table_of_row = buffer.drain()
        target = buffer.targets[0]
        self.clock.step, self.clock.target = "convert", target
        fail_if("task.convert", lambda: with_text(events).column(EVENT).to_pylist())
        undecided: list[RowNumbers] | None = [] if is_provisional else None
        tables = [table for _, table in buffer.targets]
        for table, rejects in self._sinks.of(target.sink).write(tables, events, table_of_row, undecided):
            self._reject(TableRef(target.sink, table), events, rejects)
        if undecided:
            for routed in self._path.reroute(events, np.sort(np.concatenate(undecided))):
                self._buffer(routed)

    def _reject(self, target: TableRef, events: pa.Table, rejects: pa.Table) -> None:
        if target.table == "" and not self._is_first:
            return  # already counted in the first pass
        if self._job.isolation.is_of_staged:
            rejects = rejects.filter(pc.equal(rejects["code"], Code.UNPROCESSABLE.value))
        self._rejects[target.sink].add(target.table, events, rejects)

    def _write_rejects(self) -> None:
        """Write the rejects that go to a table, except those of events that the next pass reads again."""
        for misfit in self._misfits:
            self._rejects[misfit.target.sink].forget(misfit.target.table)
        self.clock.target = None
        for index, rejects in enumerate(self._rejects):
            if table := self._job.sinks[index].dead_letters.table:
                stream = RowStream(index, table.identifier, Role.DEAD_LETTERS)
                for rows in rejects.rows():
                    self.clock.timed("write", self._files.write, stream, table, table.properties, rows)

    def _receipt(self, written: Receipt) -> Receipt:
        isolation, counts = self._job.isolation, self._path.counts
        is_kept = self._is_first and not (isolation.is_probe or isolation.is_of_staged)
        key_files = self._path.write_keys() if is_kept else []
        counts.core_failures += core.failures()
        return structs.replace(
            written,
            rejects=[entries for rejects in self._rejects if (entries := rejects.close())],
            misfits=self._misfits,
            seen=counts,
            seconds=self.clock.seconds,
            is_first=self._is_first,
            task=self._number,
            record_times=self._path.record_times,
            shuffled_parts=self._shuffle.parts if self._shuffle else 0,
            key_files=key_files,
        )
