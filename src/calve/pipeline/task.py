"""The whole path in one task: read, route, convert, write. Runs on executors, on Arrow batches only."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Hashable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.compiled import events as core
from calve.convert import event_time
from calve.convert.converter import Converted, Converter
from calve.convert.divide import Owners
from calve.convert.infer import Inferred, infer
from calve.convert.table import Absent, Table
from calve.event.columns import EVENT, JSON, MALFORMED, ORDER, VERSION
from calve.event.envelope.decoder import Decoder
from calve.event.reject import Code, reject_rows
from calve.event.sound import sound
from calve.event.version import versions
from calve.pipeline.ahead import ahead
from calve.pipeline.changes import hand_on_net, tell_misfit, write_net
from calve.pipeline.failure import Doing, attempt, reported
from calve.pipeline.gather import Crowd, Shares
from calve.pipeline.job import LETTERS, SEEN, STEPS, DocumentJob, Job, Misfit, SinkJob, Target
from calve.pipeline.losses import Losses
from calve.reduce.net import Net
from calve.reduce.reducer import Reducer
from calve.route.route import Router
from calve.sources.source import READ_ROWS, Split
from calve.stop_point import meet
from calve.write.dead_letters import DeadLetters
from calve.write.outbox import Outbox
from calve.write.writer import Writers, Written

if TYPE_CHECKING:
    from calve.sinks.opensearch.documents import Documents

__all__ = ["hand_on", "run_task", "run_tasks"]

_BUFFER_BYTES = 32 << 20
"""Events that are gathered before they are converted together, at most."""
_BUFFERS_BYTES = 192 << 20
"""The same for all that a task gathers."""


def run_tasks(job: Job, groups: list[list[Split]], numbers: Iterator[int]) -> Iterator[bytes]:
    """Run the tasks of these numbers and yield a receipt each, as JSON (the function of a Spark job)."""
    for number in numbers:
        yield msgspec.json.encode(run_task(job, groups[number], number))


def hand_on(job: Job, groups: list[list[Split]], numbers: Iterator[int]) -> Iterator[tuple[int, bytes]]:
    """Run the tasks of these numbers where small parts are written by others: yield what goes to which of them.

    The receipts go to the first one, as JSON, which passes them on; all else are messages for `write.outbox.opened`.
    """
    for number in numbers:
        task = _Task(job, number)
        receipt = reported(job, task, partial(task.run, groups[number]), task.doing)
        if "error" not in receipt:
            yield from task.handed_on()
        yield 0, msgspec.json.encode(receipt)


def run_task(job: Job, splits: list[Split], number: int) -> dict[str, Any]:
    """Bring splits to files; give the receipt. An error is part of the receipt, and then no file is left."""
    task = _Task(job, number)
    return reported(job, task, partial(task.run, splits), task.doing)


class _Task:
    def __init__(self, job: Job, number: int) -> None:
        self.doing = Doing()
        self._job = job
        self._number = number
        self._only = None if job.only is None else job.only[number]
        self._decoder = Decoder(job.envelopes) if job.envelopes else None
        self._router = Router([sink.route for sink in job.sinks])
        # One static sink needs no look at the events before conversion, which finds the unsound ones itself.
        self._straight = self._router.is_static and len(job.sinks) == 1 and not job.has_documents
        name = f"{job.run}-{job.number}-{number:05d}"
        self._outbox = Outbox(job.gatherers, job.limits) if job.gatherers else None
        self._writers = Writers(f"{name}-{attempt()}", job.max_open_writers, self._outbox)
        self._rejects = [
            DeadLetters(sink.dead_letters, f"{name}-{index}", attempt(), {"pipeline": job.pipeline, "sink": sink.label})
            for index, sink in enumerate(job.sinks)
        ]
        self._alike: dict[Target, Hashable] = {}
        self._crowds: dict[Hashable, Crowd] = {}
        self._converters: dict[Hashable, Converter | Reducer] = {}
        self._misfits: dict[Target, Inferred | None] = {}
        self._times: dict[Target, event_time.EventTimes] = {}
        self._losses = Losses()
        self._documents = {
            number: _documents(sink) for number, sink in enumerate(job.sinks) if isinstance(sink, DocumentJob)
        }
        self._seen = dict.fromkeys(SEEN, 0)
        self._changes = 0
        self._seconds = dict.fromkeys(STEPS, 0.0)

    def run(self, splits: list[Split]) -> dict[str, Any]:
        with contextlib.closing(ahead(self._read(at, split) for at, split in enumerate(splits))) as batches:
            while (batch := self._timed("read", next, batches, None)) is not None:
                self._take(batch)
        for key, crowd in self._crowds.items():
            if crowd.rows:
                self._flush(key)
        for key, one in self._converters.items():
            target = self.doing.target = self._crowds[key].targets[0]
            if isinstance(one, Reducer) and target not in self._misfits:
                self._timed("write", self._write_net, target, one.net())
        self.doing.target = None
        for index, rejects in enumerate(self._rejects):
            for rows in rejects.rows():
                self._timed("write", self._write_rejects, index, rows)
        receipt = self._receipt(self._timed("write", self._writers.close))
        if self._job.isolation.is_probe:
            self.discard()
        return receipt

    def _read(self, at: int, split: Split) -> Iterator[pa.Table]:
        """Read a split, with versions where documents are written; an event that is sent again brings its own."""
        job = self._job
        number = job.places[self._number][at] if job.places else at
        rows = 0
        for batch in job.reader.read(split):
            events = pa.Table.from_batches([batch])
            if job.has_documents:
                found = versions(job.moment, (number, job.splits), rows, len(events))
                if VERSION in events.column_names:
                    found = pc.coalesce(events[VERSION], found)
                    events = events.drop_columns([VERSION])
                events = events.append_column(VERSION, found)
            yield job.isolation.placed(events, number, rows)
            rows += len(batch)

    def discard(self) -> None:
        self._writers.discard()

    def handed_on(self) -> Iterator[tuple[int, bytes]]:
        if self._outbox is None:
            return
        yield from self._outbox.records(set(self._misfits))
        if self._misfits:
            tell_misfit(self._job, self._outbox)
            yield from self._outbox.records(set())

    def _take(self, events: pa.Table) -> None:
        self.doing.step = "decode"
        self._seen["events"] += len(events)
        self._seen["bytes"] += events.column(0).nbytes
        if self._job.isolation.excluded and not self._job.isolation.is_of_staged:
            events = self._without_excluded(events)
        meet("task.decode", lambda: events.column(EVENT).to_pylist())
        if self._decoder:
            events = self._timed("decode", self._decode, self._decoder, events)
        if any(isinstance(sink, SinkJob) and sink.changes for sink in self._job.sinks):
            order = np.arange(self._changes, self._changes + len(events), dtype=np.int64)
            self._changes += len(events)
            events = events.append_column(ORDER, pa.array(order))
        if self._straight and MALFORMED not in events.column_names:
            static = self._job.sinks[0].route.table.static
            self._gather(events, [((0, static or ""), None)])
        else:
            for rows, shares in self._timed("route", self._route, events):
                self._gather(rows, shares)
        while sum(crowd.size_bytes for crowd in self._crowds.values()) > _BUFFERS_BYTES:
            self._flush(max(self._crowds, key=lambda key: self._crowds[key].size_bytes))
        self.doing.target = None

    def _decode(self, decoder: Decoder, events: pa.Table) -> pa.Table:
        """Give the rows of envelopes; they are sound."""
        decoded = decoder.decode(events)
        self._seen["passed_over"] += decoded.passed_over
        self._reject((0, ""), events, decoded.rejects)
        return decoded.rows

    def _route(self, events: pa.Table) -> list[tuple[pa.Table, Shares]]:
        """Give the events of each crowd, with their tables."""
        rows = events
        if JSON not in events.column_names:
            checked = sound(events)
            self._reject((0, ""), events, checked.rejects)
            rows = checked.rows
        routed = self._router.route(rows)
        if self._only is None:
            self._seen["unrouted"] += routed.unrouted
        for number, rejects in routed.rejects.items():
            self._reject((number, ""), rows, rejects)
        shares: dict[Hashable, Shares] = {}
        for number, table, positions in routed.parts:
            target = (number, table)
            if self._only is None or target in self._only:
                shares.setdefault(self._key(target), []).append((target, positions))
        return [(routed.rows(rows, alike[0][0][0]), alike) for alike in shares.values()]

    def _key(self, target: Target) -> Hashable:
        """Give what is the same for tables that are converted together: those of a sink with the same columns."""
        if target not in self._alike:
            sink = self._job.sinks[target[0]]
            table = None if isinstance(sink, DocumentJob) else sink.tables.get(target[1])
            if isinstance(sink, DocumentJob) or sink.changes or not isinstance(table, Table):
                self._alike[target] = target
            else:
                self._alike[target] = (target[0], table.columns_json, sink.options(table))
        return self._alike[target]

    def _without_excluded(self, events: pa.Table) -> pa.Table:
        """Return the events that no sink has to leave out; the others are dead letters of every sink."""
        stay, rejects = self._job.isolation.left_out(events, None)
        for number in range(len(self._job.sinks) if len(rejects) else 0):
            self._reject((number, ""), events, rejects)
        return events.filter(pa.array(stay))

    def _isolated(self, events: pa.Table, shares: Shares) -> Shares:
        """Return the shares without the events that their sinks have to leave out, which become dead letters."""
        kept: Shares = []
        for target, at in shares:
            positions = np.arange(len(events)) if at is None else at.to_numpy()
            stay, rejects = self._job.isolation.left_out(events.take(pa.array(positions)), *target)
            if len(rejects):
                self._reject(target, events.take(pa.array(positions)), rejects)
            if stay.any():
                kept.append((target, at if stay.all() else pa.array(positions[stay])))
        return kept

    def _gather(self, events: pa.Table, shares: Shares) -> None:
        if self._job.isolation.excluded and not (shares := self._isolated(events, shares)):
            return
        key = self._key(shares[0][0])
        crowd = self._crowds.setdefault(key, Crowd())
        crowd.add(events, shares)
        if crowd.size_bytes >= _BUFFER_BYTES or crowd.rows >= READ_ROWS // 2:
            self._flush(key)

    def _flush(self, key: Hashable) -> None:
        crowd = self._crowds[key]
        events, owners = crowd.take()
        target = crowd.targets[0]
        self.doing.step, self.doing.target = "convert", target
        sink = self._job.sinks[target[0]]
        meet("task.convert", lambda: events.column(EVENT).to_pylist())
        if isinstance(sink, DocumentJob):
            self._reject(target, events, self._timed("write", self._documents[target[0]].write, target[1], events))
            return
        table = sink.tables.get(target[1])
        if table is None:
            rows = events if JSON in events.column_names else sound(events).rows
            self._misfit(target, self._timed("convert", infer, rows, sink.fields) if sink.infers else None)
        elif isinstance(table, Absent):
            self._reject(
                target, events, reject_rows(pa.array(range(len(events)), pa.int64()), table.code, "", table.reason)
            )
        else:
            converter = self._converters.get(key)
            if converter is None:
                converter = self._converters[key] = sink.converter(table)
            parts = _convert(converter, events, owners)
            while (part := self._timed("convert", next, parts, None)) is not None:
                self._converted(crowd.targets[part[0]], events, part[1])

    def _converted(self, target: Target, events: pa.Table, converted: Converted) -> None:
        """Take what became of one table's events."""
        self.doing.target = target
        if converted.unknown is not None:
            self._misfit(target, converted.unknown)
        if target in self._misfits:
            return  # all its events come again in the next pass
        self._reject(target, events, converted.rejects)
        self._losses.add(target, converted)
        sink = self._job.sinks[target[0]]
        assert isinstance(sink, SinkJob)
        table, properties = self._job.place(target)
        if sink.event_time and target not in self._times and (where := event_time.path(table.schema, sink.event_time)):
            self._times[target] = event_time.EventTimes(where, self._job.origin)
        if target in self._times:
            self._timed("convert", self._times[target].add, converted.rows, events, converted.row)
        if len(converted.rows) and not sink.changes:
            self._timed("write", self._writers.write, target, table, properties, converted.rows)

    def _write_net(self, target: Target, net: Net) -> None:
        if self._outbox is None:
            write_net(self._job, self._writers, target, net)
        else:
            hand_on_net(self._job, self._outbox, target, net, self._number)

    def _write_rejects(self, index: int, rows: pa.Table) -> None:
        table = self._job.sinks[index].dead_letters.table
        assert table is not None
        self._writers.write((index, table.identifier, *LETTERS), table, table.properties, rows)

    def _misfit(self, target: Target, inferred: Inferred | None) -> None:
        known = self._misfits.get(target)
        self._misfits[target] = (
            known.merge(inferred) if known is not None and inferred is not None else known or inferred
        )
        self._rejects[target[0]].forget(target[1])

    def _reject(self, target: Target, events: pa.Table, rejects: pa.Table) -> None:
        if target[1] == "" and self._only is not None:
            return  # told in the first pass
        if self._job.isolation.is_of_staged:
            rejects = rejects.filter(pc.equal(rejects["code"], Code.UNPROCESSABLE.value))
        self._rejects[target[0]].add(target[1], events, rejects)

    def _receipt(self, written: dict[Any, Written]) -> dict[str, Any]:
        self._seen["core_failures"] += core.failures()
        for target in self._times.keys() - written.keys():  # its rows are handed on, their times are not
            written[target] = Written(self._job.place(target)[0])
        tables = [
            {
                **self._job.receipt(key, one),
                "event_times": self._times[key[:2]].latest if key[:2] in self._times else {},
            }
            for key, one in written.items()
            if key[:2] not in self._misfits
        ]
        return {
            "tables": tables,
            "documents": [one for documents in self._documents.values() for one in documents.written()],
            "rejects": [kept for kept in (one.close() for one in self._rejects) if kept],
            "misfits": [Misfit(target, inferred).to_json() for target, inferred in self._misfits.items()],
            **self._losses.receipt(self._misfits),
            "first": self._only is None,
            "task": self._number,
            "handed_on": self._outbox.parts if self._outbox else 0,
            **self._seen,
            "seconds": self._seconds,
        }

    def _timed(self, step: str, function: Any, *arguments: Any) -> Any:
        start = time.perf_counter()
        self.doing.step = step
        try:
            return function(*arguments)
        finally:
            self._seconds[step] += time.perf_counter() - start


def _convert(converter: Converter | Reducer, events: pa.Table, owners: Owners) -> Iterator[tuple[int, Converted]]:
    if isinstance(converter, Reducer):  # has one table
        yield 0, converter.convert(events)
    else:
        yield from converter.convert_for(events, owners)


def _documents(sink: DocumentJob) -> Documents:
    from calve.sinks.opensearch.documents import Documents  # slow to import, and few tasks write documents

    return Documents(sink.writing, sink.fields)
