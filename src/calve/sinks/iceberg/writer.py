"""An Iceberg sink's part of a task: events become rows in staged files, or net changes; runs on executors."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import RowNumbers
from calve.columns.infer import Inferred
from calve.convert import event_time
from calve.convert.by_table import TableOfRow
from calve.convert.converter import ConvertedEvents, Converter
from calve.errors import ConvertError
from calve.event.columns import JSON, ROW
from calve.event.reject import Code, reject_rows
from calve.event.typed import is_typed
from calve.event.validate_json import validated
from calve.observe.humanize import many
from calve.record.receipt import Misfit, Receipt
from calve.record.target import Role, RowStream, TableRef
from calve.reduce.full_rows import FullRows
from calve.reduce.reducer import Reducer
from calve.sinks.iceberg.draft import Needed, needed_fields
from calve.sinks.iceberg.losses import ConversionLosses
from calve.sinks.iceberg.merge_by_key import merge_net, shuffle_net, write_net
from calve.sinks.iceberg.task_tables import TaskTables
from calve.sinks.job import Work
from calve.table.loaded import Absent, Draft, Table
from calve.write.writer import Written

__all__ = ["TableWriter", "rejects_of_absent"]

_NO_ROWS = pa.array([], pa.int64())


class TableWriter:
    """Stages the files of one sink in one task (`SinkWriter`).

    Args:
        job: The sink's part of the job.
        work: The task.
    """

    def __init__(self, job: TaskTables, work: Work) -> None:
        self._job = job
        self._work = work
        self._converters: dict[Hashable, Converter | Reducer | FullRows] = {}
        self._misfits: dict[str, Inferred | None] = {}
        self._times: dict[str, event_time.EventTimes] = {}
        self._losses = ConversionLosses()

    def write(
        self,
        tables: Sequence[str],
        events: pa.Table,
        table_of_row: TableOfRow,
        unrouted: list[RowNumbers] | None = None,
    ) -> Iterator[tuple[str, pa.Table]]:
        """Convert events and write their rows; changes are kept until all have come."""
        table = self._job.tables.get(tables[0])
        if table is None or isinstance(table, Draft):
            yield from self._of_new_table(tables[0], events, table.table if isinstance(table, Draft) else None)
        elif isinstance(table, Absent):
            yield tables[0], rejects_of_absent(table, events)
        else:
            key = self._job.conversion_key(tables[0])
            if key not in self._converters:
                self._converters[key] = self._job.converter(table)
            parts = _convert(self._converters[key], self._job.with_batch(events), table_of_row, unrouted)
            while (part := self._work.timed("convert", next, parts, None)) is not None:
                self._work.begin(tables[part[0]])
                yield from self._converted(tables[part[0]], events, part[1])

    def finish(self) -> list[Misfit]:
        """Write what the changes add up to, or hand it on."""
        for table, converter in self._converters.items():
            if isinstance(converter, Reducer | FullRows) and isinstance(table, str) and table not in self._misfits:
                self._work.begin(table)
                write = self._write_net if isinstance(converter, Reducer) else self._write_deleted
                self._work.timed("write", write, table, converter)
        return [
            Misfit(TableRef(self._work.sink, table), None if inferred is None else inferred.encodable())
            for table, inferred in self._misfits.items()
        ]

    def write_shuffled(self, parts: dict[RowStream, list[pa.Table]]) -> None:
        """Write table by table, each in one go, so that no file of a partition is closed before it has all its rows."""
        for target in {stream.target for stream in parts if stream.role in (Role.CHANGED, Role.GONE)}:
            self._work.begin(target.table)
            write_net(self._job, self._work.writers, target, merge_net(self._job, target, parts))
        while parts:
            stream, tables = parts.popitem()
            self._work.begin(stream.table)
            table, properties = self._job.table_of(stream)
            of_deletes = self._job.deleted_rows(table) if stream.role is Role.DELETES else None
            rows, ids = pa.concat_tables(tables), of_deletes.ids if of_deletes else ()
            self._work.writers.write(stream, of_deletes.table if of_deletes else table, properties, rows, ids)

    def close(self, files: Mapping[RowStream, Written]) -> Receipt:
        """Return the staged files, without those of tables whose events come again."""
        # Shuffled rows are in no file of this task, but only this task knows their times.
        timed = (RowStream(self._work.sink, table) for table in self._times)
        files = {
            **files,
            **{written: Written(self._job.table_of(written)[0]) for written in timed if written not in files},
        }
        return Receipt(
            tables=[
                self._job.table_files(stream, written, self._work.run, self._times.get(stream.table))
                for stream, written in files.items()
                if stream.table not in self._misfits
            ],
            nulled=self._losses.nulled(self._misfits),
            ignored=self._losses.ignored(self._misfits),
            failed_rules=self._losses.failed_rules(self._misfits),
        )

    def _of_new_table(self, name: str, events: pa.Table, draft: Table | None) -> Iterator[tuple[str, pa.Table]]:
        """Note the fields that a new table needs; if all events are rejected they need none."""
        if not self._job.infers:
            self._misfit(name, None)
            return
        checked = None if _is_checked(events) else validated(events)
        rows = checked.rows if checked else events
        needed: Needed = self._work.timed("convert", needed_fields, self._job, name, rows, draft)
        _stop_if_asked(name, needed.rejects)
        if needed.inferred is None and checked:
            at = rows[ROW].take(needed.rejects["row"])
            yield name, pa.concat_tables([checked.rejects, needed.rejects.set_column(0, "row", at)])
        elif needed.inferred is None:
            yield name, needed.rejects
        else:
            self._misfit(name, needed.inferred)

    def _converted(self, table: str, events: pa.Table, converted: ConvertedEvents) -> Iterator[tuple[str, pa.Table]]:
        """Take what became of one table's events."""
        if converted.unknown is not None:
            self._misfit(table, converted.unknown)
        if table in self._misfits:
            return  # all its events come again in the next pass
        _stop_if_asked(table, converted.rejects)
        yield table, converted.rejects
        self._losses.add(table, converted)
        stream = RowStream(self._work.sink, table)
        loaded, properties = self._job.table_of(stream)
        column = self._job.event_time
        if column and table not in self._times and (where := event_time.path(loaded.schema, column)):
            self._times[table] = event_time.EventTimes(where, self._work.origin, self._job.complete_micros.get(table))
        if table in self._times:
            self._work.timed("convert", self._times[table].add, converted.rows, events, converted.row)
        if len(converted.rows) and self._job.appends(table):
            rows, size = converted.rows, converted.size_bytes
            self._work.timed("write", self._work.writers.write, stream, loaded, properties, rows, (), size)

    def _write_net(self, table: str, reducer: Reducer) -> None:
        target, net = TableRef(self._work.sink, table), reducer.net()
        if self._work.shuffle is None:
            write_net(self._job, self._work.writers, target, net)
        else:
            shuffle_net(self._job, self._work.shuffle, target, net, self._work.task)

    def _write_deleted(self, table: str, changes: FullRows) -> None:
        """Stage deletes of whole rows, or shuffle them: small files are joined."""
        stream, rows = RowStream(self._work.sink, table, Role.DELETES), changes.deleted()
        if rows is not None and self._work.shuffle is None:
            properties = self._job.table_of(stream)[1]
            self._work.writers.write(stream, changes.deletes.table, properties, rows, changes.deletes.ids)
        elif rows is not None and self._work.shuffle is not None:
            bucket = zlib.crc32(table.encode()) % self._work.shuffle.buckets
            self._work.shuffle.post(bucket, stream, rows)

    def _misfit(self, table: str, inferred: Inferred | None) -> None:
        fields = self._misfits.get(table)
        self._misfits[table] = (
            fields.merge(inferred) if fields is not None and inferred is not None else fields or inferred
        )


def _stop_if_asked(table: str, rejects: pa.Table) -> None:
    """Check that no row breaks a rule with `on_failure: fail`.

    Raises:
        ConvertError: One does.
    """
    stops = rejects.filter(pc.equal(rejects["code"], Code.EXPECTATION_STOPS.value))
    if len(stops):
        raise ConvertError(
            f"{many(len(stops), 'event')} of a batch for {table} broke a rule: {stops['reason'][0]}",
            step="convert",
            target=table,
            hint="Nothing of the batch was written. Correct the events at their source, or set on_failure: dlq",
        )


def rejects_of_absent(table: Absent, events: pa.Table) -> pa.Table:
    """Return all events as rejects of a table that cannot be written; malformed ones keep their own reason."""
    malformed = (
        reject_rows(_NO_ROWS, table.code, "", table.reason) if _is_checked(events) else validated(events).rejects
    )
    others = np.setdiff1d(np.arange(len(events)), malformed["row"].to_numpy())
    return pa.concat_tables([malformed, reject_rows(pa.array(others), table.code, "", table.reason)])


def _is_checked(events: pa.Table) -> bool:
    """Return whether all events are known to be objects."""
    return JSON in events.column_names or is_typed(events)


def _convert(
    converter: Converter | Reducer | FullRows,
    events: pa.Table,
    table_of_row: TableOfRow,
    unrouted: list[RowNumbers] | None,
) -> Iterator[tuple[int, ConvertedEvents]]:
    if isinstance(converter, Reducer | FullRows):  # has one table
        yield 0, converter.convert(events)
    else:
        yield from converter.convert_for(events, table_of_row, unrouted)
