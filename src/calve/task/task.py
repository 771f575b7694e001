"""The whole path in one task: read, route, convert, write. Runs on executors, on Arrow batches only."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Generator, Hashable, Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from calve.arrays import RowNumbers
from calve.compiled import events as core
from calve.dead_letters.rejects import DeadLetters
from calve.event.columns import EVENT, JSON, MALFORMED, ORDER, VERSION
from calve.event.document_version import versions
from calve.event.envelope.decoder import Decoder
from calve.event.reject import Code
from calve.event.typed import is_typed, with_text
from calve.event.validate_json import validated
from calve.processors.chain import Chain
from calve.record.receipt import Failure, Misfit, Receipt, Seen
from calve.record.target import Role, Stream, TableRef
from calve.route.route import Routed, Router
from calve.serde.decoder import Decoder as SchemaDecoder
from calve.sources.prefetch import ahead
from calve.sources.source import Split
from calve.stop_point import meet
from calve.task.event_buffer import EventBuffer, Shares
from calve.task.failure import Doing, attempt, reported
from calve.task.isolation import WHOLE
from calve.task.job import STEPS, Job
from calve.task.sink_writers import SinkWriters
from calve.write.shuffle import Shuffle
from calve.write.writer import Writers

__all__ = ["hand_on", "run_task", "run_tasks", "survey"]

_BUFFERS_BYTES = 192 << 20
"""The most events in all buffers of a task."""
_GUESSES_LEFT = 4
"""A first look routes the events as long as it leaves at most one of so many."""
_NONE = np.zeros(0, np.int64)


def run_tasks(job: Job, groups: list[list[Split]], numbers: Iterator[int]) -> Iterator[bytes]:
    """Run the tasks with these numbers, and yield a receipt of each as JSON (the function of a Spark job)."""
    for number in numbers:
        yield msgspec.json.encode(run_task(job, groups[number], number))


def hand_on(job: Job, groups: list[list[Split]], numbers: Iterator[int]) -> Iterator[tuple[int, bytes]]:
    """Run the tasks with these numbers, whose small parts other tasks write: yield the messages for those tasks.

    The receipts go to the first task as JSON, which passes them on; all others are messages for `write.shuffle.opened`.
    """
    for number in numbers:
        task = _Task(job, number)
        receipt = reported(job, task, partial(task.run, groups[number]), task.doing)
        if isinstance(receipt, Receipt):
            yield from task.handed_on()
        yield 0, msgspec.json.encode(receipt)


def run_task(job: Job, splits: list[Split], number: int) -> Receipt | Failure:
    """Process splits; return the receipt, or the error that ended the task, whose files are then removed."""
    task = _Task(job, number)
    return reported(job, task, partial(task.run, splits), task.doing)


def survey(job: Job, groups: Iterator[list[Split]]) -> Iterator[TableRef]:
    """Yield the tables of the first events of splits; nothing is written, and events that cannot be read have none."""
    for split in itertools.chain.from_iterable(groups):
        found = _Survey(job)
        with contextlib.suppress(Exception):  # the pass that reads the batch tells
            found.look(split)
        yield from found.tables


class _Task:
    def __init__(self, job: Job, number: int) -> None:
        self.doing = Doing()
        self._job = job
        self._number = number
        self._only = None if job.only is None else job.only[number]
        self._schemas = SchemaDecoder(job.serde) if job.serde else None
        self._decoder = Decoder(job.envelopes) if job.envelopes else None
        self._chain = Chain(job.processors, job.time_tenths) if job.processors else None
        self._router = Router([sink.route for sink in job.sinks])
        self._needs = job.needs
        # A single static sink needs no check before conversion, which itself finds malformed events.
        self._straight = self._router.is_static and len(job.sinks) == 1 and JSON not in self._needs
        has_texts = self._router.reads_fields or self._decoder is not None or self._chain is not None
        # Events of tables that check them are routed at a first look.
        can_guess = len(job.sinks) == 1 and job.isolation == WHOLE and self._only is None
        self._checked = job.sinks[0].checked_tables if can_guess else ()
        self._guessed = self._left = 0
        self._needs_text = has_texts or not self._needs.isdisjoint((EVENT, JSON))
        name = f"{job.run}-{job.number}-{number:05d}"
        self._shuffle = Shuffle(job.gatherers, job.limits) if job.gatherers else None
        self._writers = Writers(f"{name}-{attempt()}", job.max_open_writers, self._shuffle)
        self._rejects = [
            DeadLetters(
                sink.dead_letters,
                f"{name}-{index}",
                attempt(),
                {"pipeline": job.pipeline, "sink": sink.label},
                sink.is_ordered,
            )
            for index, sink in enumerate(job.sinks)
        ]
        self._alike: dict[TableRef, Hashable] = {}
        self._buffers: dict[tuple[Hashable, bool], EventBuffer] = {}
        self._misfits: list[Misfit] = []
        self._sinks = SinkWriters(job, number, self._writers, self._shuffle, self.doing, self._timed)
        self._seen = Seen()
        self._changes = 0
        self._seconds = dict.fromkeys(STEPS, 0.0)

    def run(self, splits: list[Split]) -> Receipt:
        with contextlib.closing(ahead(self._read(at, split) for at, split in enumerate(splits))) as batches:
            while (batch := self._timed("read", next, batches, None)) is not None:
                self._take(batch)
        while waiting := [key for key, buffer in self._buffers.items() if buffer.rows]:
            self._flush(waiting[0])
        self._misfits = self._sinks.finish()
        for misfit in self._misfits:
            self._rejects[misfit.target.sink].forget(misfit.target.table)
        self.doing.target = None
        for index, rejects in enumerate(self._rejects):
            for rows in rejects.rows():
                self._timed("write", self._write_rejects, index, rows)
        receipt = self._receipt(self._sinks.close())
        if self._job.isolation.is_probe:
            self.discard()
        return receipt

    def _read(self, at: int, split: Split) -> Generator[pa.Table]:
        """Read a split, with versions where documents are written; an event that is sent again brings its own."""
        job = self._job
        number = job.split_numbers[self._number][at] if job.split_numbers else at
        rows = 0
        for batch in job.reader.read(split):
            events = pa.Table.from_batches([batch])
            events = with_text(events) if self._needs_text else events
            if VERSION in self._needs:
                found = versions(job.time_tenths, (number, job.splits), rows, len(events))
                if VERSION in events.column_names:
                    found = pc.coalesce(events[VERSION], found)
                    events = events.drop_columns([VERSION])
                events = events.append_column(VERSION, found)
            yield job.isolation.select(events, number, rows)
            rows += len(batch)

    def discard(self) -> None:
        self._writers.discard()

    def handed_on(self) -> Iterator[tuple[int, bytes]]:
        if self._shuffle is None:
            return
        yield from self._shuffle.records([misfit.target for misfit in self._misfits])
        if self._misfits:
            self._shuffle.post_misfit()
            yield from self._shuffle.records(())

    def _take(self, events: pa.Table) -> None:
        self.doing.step = "decode"
        self._seen.events += len(events)
        self._seen.bytes += events.column(0).nbytes
        if self._job.isolation.excluded and not self._job.isolation.is_of_staged:
            events = self._without_excluded(events)
        meet("task.decode", lambda: with_text(events).column(EVENT).to_pylist())
        if self._schemas:
            events = self._timed("decode", self._read_values, self._schemas, events)
        if self._decoder:
            events = self._timed("decode", self._decode, self._decoder, events)
        if self._chain:
            events = self._timed("process", self._process, self._chain, events)
        if ORDER in self._needs:
            order = np.arange(self._changes, self._changes + len(events), dtype=np.int64)
            self._changes += len(events)
            events = events.append_column(ORDER, pa.array(order))
        if self._straight and MALFORMED not in events.column_names:
            static = self._job.sinks[0].route.table.static
            self._gather(events, [(TableRef(0, static or ""), None)])
        else:
            self._gather_routed(events)
        while sum(buffer.size_bytes for buffer in self._buffers.values()) > _BUFFERS_BYTES:
            self._flush(max(self._buffers, key=lambda key: self._buffers[key].size_bytes))
        self.doing.target = None

    def _read_values(self, schemas: SchemaDecoder, events: pa.Table) -> pa.Table:
        """Return the rows of values with a schema."""
        decoded = schemas.decode(events)
        self._reject(TableRef(0, ""), events, decoded.rejects)
        return with_text(decoded.rows) if self._needs_text else decoded.rows

    def _decode(self, decoder: Decoder, events: pa.Table) -> pa.Table:
        """Return the rows of envelopes; they are valid JSON."""
        decoded = decoder.decode(events)
        self._seen.passed_over += decoded.passed_over
        self._reject(TableRef(0, ""), events, decoded.rejects)
        return decoded.rows

    def _process(self, chain: Chain, events: pa.Table) -> pa.Table:
        """Return the events as the processors leave them."""
        processed = chain.run(events)
        self._seen.dropped += processed.dropped
        self._seen.added += processed.added
        self._reject(TableRef(0, ""), events, processed.malformed)
        self._reject(TableRef(0, ""), processed.failed_rows, processed.failed)
        return processed.rows

    def _gather_routed(self, events: pa.Table) -> None:
        """Gather events of many tables, at a first look at them where conversion finds those that need another one."""
        columns = events.column_names
        if self._checked and EVENT in columns and JSON not in columns and MALFORMED not in columns:
            found, events = self._timed("route", self._guess, events)
            for rows, shares in found:
                self._gather(rows, shares, is_guess=True)
        if len(events):
            for rows, shares in self._timed("route", self._route, events):
                self._gather(rows, shares)

    def _guess(self, events: pa.Table) -> tuple[list[tuple[pa.Table, Shares]], pa.Table]:
        """Route events at a first look; return the events of each buffer, with their tables, and the other events."""
        rows = self._router.look(events)
        if rows is None:
            self._checked = ()
            return [], events
        routed = self._router.route(rows)
        every = pa.array(np.arange(len(events)))
        others = [every if at is None else at for _, table, at in routed.parts if table not in self._checked]
        routed.parts = [part for part in routed.parts if part[1] in self._checked]
        others += [rejects["row"].combine_chunks() for rejects in routed.rejects.values()]
        left = np.sort(np.concatenate(others)) if others else _NONE
        return self._by_buffer(rows, routed), events.take(pa.array(left))

    def _route(self, events: pa.Table) -> list[tuple[pa.Table, Shares]]:
        """Return the events of each buffer, with their tables."""
        rows = events
        if JSON not in events.column_names and not is_typed(events):
            checked = validated(events, self._router.fields or ())
            self._reject(TableRef(0, ""), events, checked.rejects)
            rows = checked.rows
        routed = self._router.route(rows)
        if self._only is None:
            self._seen.unrouted += routed.unrouted
        for number, rejects in routed.rejects.items():
            self._reject(TableRef(number, ""), rows, rejects)
        return self._by_buffer(rows, routed)

    def _by_buffer(self, rows: pa.Table, routed: Routed) -> list[tuple[pa.Table, Shares]]:
        shares: dict[Hashable, Shares] = {}
        for number, table, positions in routed.parts:
            target = TableRef(number, table)
            if self._only is None or target in self._only:
                shares.setdefault(self._key(target), []).append((target, positions))
        return [(routed.rows(rows, alike[0][0][0]), alike) for alike in shares.values()]

    def _key(self, target: TableRef) -> Hashable:
        """Return the key of a table's buffer, which tables with the same columns share."""
        if target not in self._alike:
            self._alike[target] = target.sink, self._job.sinks[target.sink].alike(target.table)
        return self._alike[target]

    def _without_excluded(self, events: pa.Table) -> pa.Table:
        """Return the events that are not excluded for all sinks; the others become dead letters of every sink."""
        stay, rejects = self._job.isolation.left_out(events, None)
        for number in range(len(self._job.sinks) if len(rejects) else 0):
            self._reject(TableRef(number, ""), events, rejects)
        return events.filter(pa.array(stay))

    def _isolated(self, events: pa.Table, shares: Shares) -> Shares:
        """Return the shares without the events that are excluded for their sinks, which become dead letters."""
        kept: Shares = []
        for target, at in shares:
            positions = np.arange(len(events)) if at is None else at.to_numpy()
            stay, rejects = self._job.isolation.left_out(events.take(pa.array(positions)), *target)
            if len(rejects):
                self._reject(target, events.take(pa.array(positions)), rejects)
            if stay.any():
                kept.append((target, at if stay.all() else pa.array(positions[stay])))
        return kept

    def _gather(self, events: pa.Table, shares: Shares, is_guess: bool = False) -> None:
        if self._job.isolation.excluded and not (shares := self._isolated(events, shares)):
            return
        key = self._key(shares[0][0]), is_guess
        buffer = self._buffers.setdefault(key, EventBuffer())
        if not buffer.joins(events):
            self._flush(key)
        buffer.add(events, shares)
        if buffer.is_full:
            self._flush(key)

    def _flush(self, key: tuple[Hashable, bool]) -> None:
        buffer = self._buffers[key]
        events, table_of_row = buffer.take()
        target = buffer.targets[0]
        self.doing.step, self.doing.target = "convert", target
        meet("task.convert", lambda: with_text(events).column(EVENT).to_pylist())
        writer = self._sinks.of(target.sink)
        left: list[RowNumbers] | None = [] if key[1] else None
        for table, rejects in writer.write([one.table for one in buffer.targets], events, table_of_row, left):
            self._reject(TableRef(target.sink, table), events, rejects)
        if left:
            self._look_again(events, np.sort(np.concatenate(left)))

    def _look_again(self, events: pa.Table, left: RowNumbers) -> None:
        """Route events for which a first look was not enough; with many of them it is not worth while."""
        self._guessed += len(events)
        self._left += len(left)
        self._checked = self._checked if self._left * _GUESSES_LEFT <= self._guessed else ()
        if len(left):
            for rows, shares in self._timed("route", self._route, events.take(pa.array(left))):
                self._gather(rows, shares)

    def _write_rejects(self, index: int, rows: pa.Table) -> None:
        table = self._job.sinks[index].dead_letters.table
        assert table is not None
        self._writers.write(Stream(index, table.identifier, Role.DEAD_LETTERS), table, table.properties, rows)

    def _reject(self, target: TableRef, events: pa.Table, rejects: pa.Table) -> None:
        if target.table == "" and self._only is not None:
            return  # already counted in the first pass
        if self._job.isolation.is_of_staged:
            rejects = rejects.filter(pc.equal(rejects["code"], Code.UNPROCESSABLE.value))
        self._rejects[target.sink].add(target.table, events, rejects)

    def _receipt(self, written: Receipt) -> Receipt:
        self._seen.core_failures += core.failures()
        return structs.replace(
            written,
            rejects=[kept for kept in (one.close() for one in self._rejects) if kept],
            misfits=self._misfits,
            seen=self._seen,
            seconds=self._seconds,
            is_first=self._only is None,
            task=self._number,
            handed_on=self._shuffle.parts if self._shuffle else 0,
        )

    def _timed(self, step: str, function: Any, *arguments: Any) -> Any:
        start = time.perf_counter()
        self.doing.step = step
        try:
            return function(*arguments)
        finally:
            self._seconds[step] += time.perf_counter() - start


class _Survey(_Task):
    """Routes events, and keeps only the names of their tables."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, 0)
        self.tables: dict[TableRef, None] = {}

    def look(self, split: Split) -> None:
        with contextlib.closing(self._read(0, split)) as batches:
            for events in itertools.islice(batches, 1):
                self._take(events)

    def _gather(self, events: pa.Table, shares: Shares, is_guess: bool = False) -> None:
        self.tables |= dict.fromkeys(target for target, _ in shares)

    def _reject(self, target: TableRef, events: pa.Table, rejects: pa.Table) -> None:
        """Leave it to the pass that reads the batch."""
