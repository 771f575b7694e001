"""The path of events to their tables: read → decode → process → route. Runs on executors, on Arrow batches only.

A task goes on from here: buffer → convert → write (`calve.task.task`). A survey stops at the names of the tables, and a
dry run previews what a task would write, on the driver.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import RowNumbers
from calve.event.columns import EVENT, JSON, MALFORMED, MASKED, ORDER, VERSION
from calve.event.document_version import versions
from calve.event.envelope.decoder import EnvelopeDecoder
from calve.event.keyed.decoder import KeyedDecoder
from calve.event.typed import is_typed, with_text
from calve.event.validate_json import validated
from calve.processors.chain import Chain, Processed
from calve.processors.key_filter import KeyFilter
from calve.processors.masking import Masker
from calve.record.key_file import KeyFile
from calve.record.receipt import ReadCounts
from calve.record.target import TableRef
from calve.route.route import Routed
from calve.serde.decoder import SchemaDecoder
from calve.sources.prefetch import prefetch
from calve.sources.source import Split
from calve.stop_point import fail_if
from calve.task.branch import Stream
from calve.task.isolation import WHOLE, RejectRows, Shares
from calve.task.job import Job
from calve.task.record_times import RecordTimes
from calve.task.step_clock import StepClock

__all__ = ["EventPath", "RoutedEvents"]

_UNROUTED = TableRef(0, "")
"""Events that are rejected before they are routed are dead letters of the first sink."""
_LEAST_ROWS_PER_REROUTED = 4
"""Use the fast route while at most 1 event in so many needs the full one."""
_NO_ROWS = np.zeros(0, np.int64)


class RoutedEvents(NamedTuple):
    """Events of tables that are converted together.

    Attributes:
        rows: The events, and perhaps others of their batch.
        shares: The tables with their events.
        conversion_key: What these tables have in common.
        is_provisional: Whether only the beginning of each event was read. Conversion then returns the events of which
            the rest may decide otherwise (`EventPath.reroute`).
    """

    rows: pa.Table
    shares: Shares
    conversion_key: Hashable
    is_provisional: bool = False


class EventPath:
    """The steps over the events of one task, in this order: `read`, `decode`, `process`, `route`.

    Args:
        job: The job.
        number: The number of the task.
        reject: Gets the events that a step rejects.
        clock: Counts the time of the steps.
        needs_text: Whether all events need a text, whatever the job reads of them.
        notes: Gets each chain of processors, and the events before it.

    Attributes:
        counts: What was read so far.
    """

    def __init__(
        self,
        job: Job,
        number: int,
        reject: RejectRows,
        clock: StepClock,
        needs_text: bool = False,
        notes: Callable[[Chain, pa.Table], None] | None = None,
    ) -> None:
        self.counts = ReadCounts()
        self._times = RecordTimes(job.record_time) if job.record_time else None
        self._job = job
        self._number = number
        self._reject = reject
        self._clock = clock
        self._only = None if job.only is None else job.only[number]
        self._needs = job.needs
        self._schemas = SchemaDecoder(job.serde) if job.serde else None
        self._envelopes = EnvelopeDecoder(job.envelopes) if job.envelopes else None
        self._masker = Masker(job.masks) if job.masks else None
        self._record_keys = KeyedDecoder(job.record_keys) if job.record_keys else None
        self._key_filter = KeyFilter(job.memory, job.time_tenths) if job.memory else None
        self._chain = Chain(job.processors, job.time_tenths, key_filter=self._key_filter) if job.processors else None
        self._notes = notes
        self._stream = Stream(job.branches, [sink.route for sink in job.sinks], job.time_tenths)
        self._router = self._stream.router
        needs_text |= self._stream.needs_text or bool(self._envelopes or self._record_keys)
        needs_text |= self._chain is not None and self._chain.needs_text
        self._needs_text = needs_text or not self._needs.isdisjoint((EVENT, JSON))
        self._orders = 0
        # Conversion itself finds malformed events, so a single table needs no check before it.
        is_single_sink = len(job.sinks) == 1 and not job.branches
        self._is_single_table = self._router.is_static and is_single_sink and JSON not in self._needs
        can_be_provisional = is_single_sink and job.isolation == WHOLE and self._only is None
        self._provisional_tables = job.sinks[0].self_validating_tables if can_be_provisional else ()
        self._provisional_rows = self._rerouted_rows = 0
        self._keys: dict[TableRef, Hashable] = {}

    @property
    def record_times(self) -> dict[str, int]:
        """The latest times of the records that were read, by origin, in microseconds since the epoch."""
        return self._times.latest if self._times else {}

    def write_keys(self) -> list[KeyFile]:
        """Write the keys of all events that have passed; return the files of keys after the batch."""
        if self._key_filter is None:
            return []
        files = self._key_filter.files_after()
        self.counts.forgotten_keys = self._key_filter.forgotten
        return files

    def read(self, splits: Sequence[Split]) -> Generator[pa.Table]:
        """Yield the events of splits, in order; another thread reads the next ones. Close it after an error."""
        parts = (self.read_split(index, split) for index, split in enumerate(splits))
        with contextlib.closing(prefetch(parts)) as batches:
            while (events := self._clock.timed("read", next, batches, None)) is not None:
                yield events

    def read_split(self, index: int, split: Split) -> Generator[pa.Table]:
        """Yield the events of one of the task's splits, with versions where documents are written.

        An event that is sent again brings its own version.
        """
        job = self._job
        number = job.split_numbers[self._number][index] if job.split_numbers else index
        rows = 0
        for batch in job.reader.read(split):
            events = pa.Table.from_batches([batch])
            events = self._times.record(events) if self._times else events
            events = with_text(events) if self._needs_text else events
            if VERSION in self._needs:
                version = versions(job.time_tenths, (number, job.splits), rows, len(events))
                if VERSION in events.column_names:
                    version = pc.coalesce(events[VERSION], version)
                    events = events.drop_columns([VERSION])
                events = events.append_column(VERSION, version)
            yield job.isolation.select(events, number, rows)
            rows += len(batch)

    def decode(self, events: pa.Table) -> pa.Table:
        """Return the rows of values with a schema, and of the envelopes of a change stream; other events stay.

        All of them are masked, those of masked dead letters, which are decoded, only where they were not yet.
        """
        self._clock.step = "decode"
        self.counts.events += len(events)
        self.counts.bytes += events.column(0).nbytes
        if not self._job.isolation.is_of_staged:
            events = self._job.isolation.keep_events(events, len(self._job.sinks), self._reject_unmasked)
        fail_if("task.decode", lambda: with_text(events).column(EVENT).to_pylist())
        if MASKED in events.column_names:
            return self._mask(events, self._masker) if self._masker else events
        if self._schemas:
            values = self._clock.timed("decode", self._schemas.decode, events, self._needs_text)
            self._reject_unmasked(_UNROUTED, events, values.rejects)
            events = values.rows
        if self._envelopes:
            changes = self._clock.timed("decode", self._envelopes.decode, events)
            self.counts.skipped += changes.skipped
            self._reject_unmasked(_UNROUTED, events, changes.rejects)
            events = changes.rows
        if self._record_keys:
            keyed = self._clock.timed("decode", self._record_keys.decode, events)
            self._reject_unmasked(_UNROUTED, events, keyed.rejects)
            events = keyed.rows
        return self._mask(events, self._masker) if self._masker else events

    def _mask(self, events: pa.Table, masker: Masker) -> pa.Table:
        masked = self._clock.timed("decode", masker.mask, events)
        self._reject_unmasked(_UNROUTED, events, masked.malformed)
        self._stream.reject(masked.failed_rows, masked.failed, self._reject)
        return masked.rows

    def _reject_unmasked(self, target: TableRef, events: pa.Table, rejects: pa.Table) -> None:
        """Reject events that are not masked yet, and cannot be."""
        self._reject(target, *(self._masker.withheld(events, rejects) if self._masker else (events, rejects)))

    def process(self, events: pa.Table) -> pa.Table:
        """Return the events after the processors, with their order where changes are written."""
        if self._chain:
            processed = self._run(self._chain, events)
            self.counts.duplicates = self._key_filter.duplicates if self._key_filter else 0
            self._reject(_UNROUTED, events, processed.malformed)
            self._stream.reject(processed.failed_rows, processed.failed, self._reject)
            events = processed.rows
        return self._in_order(events)

    def _run(self, chain: Chain, events: pa.Table) -> Processed:
        if self._notes:
            self._notes(chain.copy(), events)
        processed = self._clock.timed("process", chain.run, events)
        self.counts.dropped += processed.dropped
        self.counts.added += processed.added
        return processed

    def _in_order(self, events: pa.Table) -> pa.Table:
        """Return events with their order, if a sink writes changes; those of a branch get a new one."""
        if ORDER not in self._needs:
            return events
        events = events.drop_columns([ORDER]) if ORDER in events.column_names else events
        order = np.arange(self._orders, self._orders + len(events), dtype=np.int64)
        self._orders += len(events)
        return events.append_column(ORDER, pa.array(order))

    def route(self, events: pa.Table) -> Iterator[RoutedEvents]:
        """Yield the events by their tables. Nothing is evaluated for a single table, whose conversion checks events."""
        columns = events.column_names
        if self._is_single_table and MALFORMED not in columns:
            target = TableRef(0, self._job.sinks[0].route.table.static or "")
            yield RoutedEvents(events, [(target, None)], self._conversion_key(target))
            return
        if self._provisional_tables and EVENT in columns and JSON not in columns and MALFORMED not in columns:
            provisional, events = self._clock.timed("route", self._fast_route, events)
            yield from provisional
        if len(events):
            yield from self.full_route(events)

    def full_route(self, events: pa.Table) -> list[RoutedEvents]:
        """Route events of which all is read first; reject those that are no JSON objects, or have no valid table."""
        return [*self._follow(self._stream, events)]

    def reroute(self, events: pa.Table, undecided: RowNumbers) -> list[RoutedEvents]:
        """Return the full route of the events whose provisional route may be wrong.

        Args:
            events: All events of a conversion with a provisional route.
            undecided: The positions of those.
        """
        self._provisional_rows += len(events)
        self._rerouted_rows += len(undecided)
        if self._rerouted_rows * _LEAST_ROWS_PER_REROUTED > self._provisional_rows:
            self._provisional_tables = ()
        return self.full_route(events.take(pa.array(undecided))) if len(undecided) else []

    def _fast_route(self, events: pa.Table) -> tuple[list[RoutedEvents], pa.Table]:
        """Route events by their beginnings; return those of tables that validate events, and the other events."""
        rows = self._router.scan_prefix(events)
        if rows is None:
            self._provisional_tables = ()
            return [], events
        routed = self._router.route(rows)
        every = pa.array(np.arange(len(events)))
        others = [every if at is None else at for _, table, at in routed.parts if table not in self._provisional_tables]
        routed.parts = [part for part in routed.parts if part[1] in self._provisional_tables]
        others += [rejects["row"].combine_chunks() for rejects in routed.rejects.values()]
        positions = np.sort(np.concatenate(others)) if others else _NO_ROWS
        return self._by_conversion(rows, routed, is_provisional=True), events.take(pa.array(positions))

    def _follow(self, stream: Stream, events: pa.Table) -> Iterator[RoutedEvents]:
        """Route the events of a stream, and those of the streams that come out of it after their processors."""
        rows, routed, parts = self._clock.timed("route", self._full_route, stream, events)
        yield from parts
        for branch, entering in stream.entering(rows, routed.forks):
            if branch.chain and branch.has_any_of(self._only):
                processed = self._run(branch.chain, entering)
                branch.reject(entering, processed.malformed, self._reject)
                branch.reject(processed.failed_rows, processed.failed, self._reject)
                yield from self._follow(branch, self._in_order(processed.rows))

    def _full_route(self, stream: Stream, events: pa.Table) -> tuple[pa.Table, Routed, list[RoutedEvents]]:
        rows = events
        if JSON not in events.column_names and not is_typed(events):
            objects = validated(events, stream.router.fields or ())
            self._reject(_UNROUTED, events, objects.rejects)
            rows = objects.rows
        routed = stream.router.route(rows)
        if self._only is None:
            self.counts.unrouted += routed.unrouted
        for sink, rejects in routed.rejects.items():
            self._reject(TableRef(sink, ""), rows, rejects)
        return routed.unpicked(rows), routed, self._by_conversion(rows, routed)

    def _by_conversion(self, rows: pa.Table, routed: Routed, is_provisional: bool = False) -> list[RoutedEvents]:
        """Join the tables that are converted together."""
        by_key: dict[Hashable, Shares] = {}
        for sink, table, positions in routed.parts:
            target = TableRef(sink, table)
            if self._only is None or target in self._only:
                by_key.setdefault(self._conversion_key(target), []).append((target, positions))
        return [
            RoutedEvents(routed.rows(rows, shares[0][0].sink), shares, key, is_provisional)
            for key, shares in by_key.items()
        ]

    def _conversion_key(self, target: TableRef) -> Hashable:
        if target not in self._keys:
            self._keys[target] = target.sink, self._job.sinks[target.sink].conversion_key(target.table)
        return self._keys[target]
