"""Writes the events of a batch as Parquet: a file in each folder, with columns that fit all of its rows.

Runs on executors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from calve.arrays import RowNumbers
from calve.convert.by_table import TableOrder
from calve.event.operation import Operation
from calve.sinks.file.changes import change_table
from calve.sinks.file.columns import FileColumns, placed, without_field_ids
from calve.sinks.file.output import BatchFiles
from calve.sinks.file.settings import Compression
from calve.sinks.job import Work
from calve.sinks.records.joined_rows import JoinedRow, JoinedRows
from calve.sinks.records.kept_events import KeptEvents
from calve.sinks.records.shape import RecordShape

if TYPE_CHECKING:
    from calve.record.receipt import Misfit

__all__ = ["ParquetWriter"]

_REJECTED = -1


class ParquetWriter(KeptEvents):
    """Writes the events of one batch: rows, or changes of rows with the old and the new one.

    Args:
        work: The task.
        shape: How events become records.
        columns: The columns of files.
        files: Gets the files.
        compression: How they are compressed.
    """

    def __init__(
        self, work: Work, shape: RecordShape, columns: FileColumns, files: BatchFiles, compression: Compression
    ) -> None:
        super().__init__(work, shape, columns.fields, files.time_ms)
        self._columns = columns
        self._files = files
        self._compression = compression
        self._places: list[RowNumbers] = []
        """Of each part: the position of each event among the rows of its folder, or `_REJECTED`."""
        self._odd_before: dict[tuple[int, int], pa.Table] = {}
        """The rejects of old rows, by part and row, until their new rows are known."""

    def finish(self) -> list[Misfit]:
        """Convert all events, and write the files, unless this pass is only a test."""
        self._places = [np.full(len(part.events), _REJECTED) for part in self._parts]
        rows = {folder: self._work.timed("convert", self._rows, folder, at) for folder, at in self._shares().items()}
        if self._shape.is_envelope:
            rows = self._work.timed("convert", self._change_tables, rows)
        if self._work.is_probe:
            return []
        for folder, table in rows.items():
            if len(table):
                self._work.timed("write", self._write, folder, table)
        self._work.timed("write", self._files.finish)
        self._sent.update(self._counts())
        return []

    def _shares(self) -> dict[str, list[tuple[int, RowNumbers]]]:
        """Return the rows of each part that a folder gets."""
        shares: dict[str, list[tuple[int, RowNumbers]]] = {}
        for number, part in enumerate(self._parts):
            order = TableOrder.of(part.target_of_row)
            is_written = part.records.operations.is_valid().to_numpy(zero_copy_only=False)
            for target, start, end in zip(order.tables, order.bounds, order.bounds[1:], strict=False):
                at = order.order[start:end]
                shares.setdefault(part.targets[target], []).append((number, at[is_written[at]]))
        return shares

    def _rows(self, folder: str, shares: list[tuple[int, RowNumbers]]) -> pa.Table:
        """Convert the events of a folder; reject those that fit no row."""
        parts = [self._parts[number].events.take(pa.array(at)) for number, at in shares]
        tables, start = list[pa.Table](), 0
        for (number, at), converted in zip(shares, self._columns.rows(parts), strict=True):
            if len(converted.rejects):
                self._reject(folder, number, placed(converted.rejects, pa.array(at)))
            self._places[number][at[converted.row.to_numpy()]] = np.arange(start, start + len(converted.row))
            tables.append(converted.rows)
            start += len(converted.row)
        return pa.concat_tables(tables)

    def _reject(self, folder: str, number: int, rejects: pa.Table) -> None:
        """Reject events of a part. An old row waits: replayed without its new row, it would be a delete."""
        operations = self._parts[number].records.operations.take(rejects["row"].combine_chunks())
        is_old = pc.equal(operations, pa.scalar(int(Operation.SKIPPED), pa.int8()))
        for reject in pc.indices_nonzero(is_old).to_pylist():
            self._odd_before[number, rejects["row"][reject].as_py()] = rejects.slice(reject, 1)
        if len(others := rejects.filter(pc.invert(is_old))):
            self._work.reject(folder, self._parts[number].events, others)

    def _change_tables(self, rows: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Return the changes of each folder, whose rows these are."""
        changes: dict[str, list[JoinedRow]] = {}
        for change in self._changes():
            record = change.after or change.before
            assert record is not None
            changes.setdefault(record.target, []).append(change)
        ignores_case = self._columns.case_insensitive
        return {
            folder: change_table(rows[folder], of_folder, self._places, self._time_ms, ignores_case)
            for folder, of_folder in changes.items()
        }

    def _changes(self) -> Iterator[JoinedRow]:
        """Yield the changes that are written; of an update whose old row fits no columns, the new row alone."""
        for change in self._joined():
            rejects = self._odd_before.get((change.before.part, change.before.row)) if change.before else None
            if rejects is None:
                yield change
            elif change.op == "u":
                yield change._replace(before=None)
            else:
                assert change.before is not None
                self._work.reject(change.before.target, self._parts[change.before.part].events, rejects)

    def _joined(self) -> Iterator[JoinedRow]:
        changes = JoinedRows()
        for number, part in enumerate(self._parts):
            for record, operation, source in part.changes(number):
                if operation == Operation.SKIPPED or self._places[number][record.row] != _REJECTED:
                    yield from changes.of(record, operation, source)
                elif operation == Operation.UPDATE:
                    changes.forget(record)
        yield from changes.rest()

    def _write(self, folder: str, table: pa.Table) -> None:
        bare = pa.schema(without_field_ids(pa.struct(list(table.schema))).fields)
        with pa.BufferOutputStream() as stream:
            pq.write_table(table.cast(bare), stream, compression=self._compression)
            self._files.add(folder, stream.getvalue().to_pybytes(), len(table))

    def _counts(self) -> Counter[str]:
        """Count the events of each folder that are written."""
        counts = Counter[str]()
        for part, places in zip(self._parts, self._places, strict=True):
            operations = part.records.operations.fill_null(int(Operation.SKIPPED)).to_numpy()
            is_written = (operations != Operation.SKIPPED) & (places != _REJECTED)
            numbers = np.bincount(part.target_of_row[is_written], minlength=len(part.targets))
            counts.update(dict(zip(part.targets, numbers.tolist(), strict=True)))
        return counts
