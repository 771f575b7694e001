"""Changes of rows that several tasks read: each shuffles its net effect by key, and one task for each key merges them.

A net effect is at most one change of a key, so it is shuffled as one: an UPDATE where a row remains and an older one
may exist, an INSERT where none can, a DELETE where no row remains. Tasks have the splits of a batch in order, so all
changes of a task come before those of the next one. Runs on executors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from calve.event import duckdb_session
from calve.event.columns import OPERATION, ORDER
from calve.event.operation import Operation
from calve.record.target import Role, RowStream, TableRef
from calve.reduce.absent import LACKING, nothing_lacking
from calve.reduce.key import Key
from calve.reduce.net import KeyedChanges, Net
from calve.sinks.iceberg.task_tables import TaskTables
from calve.table.arrow_schema import arrow_schema
from calve.write.shuffle import Shuffle
from calve.write.writer import Writers

__all__ = ["merge_net", "shuffle_net", "write_net"]

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""The odd number next to the golden ratio's part of 2⁶⁴ (Knuth, "The Art of Computer Programming" 6.4): near keys get
far ones."""


def write_net(job: TaskTables, writers: Writers, target: TableRef, net: Net) -> None:
    """Write what the changes of one table add up to, as rows and equality deletes."""
    key = _key(job, target)
    rows = RowStream(*target)
    properties = job.table_of(rows)[1]
    if len(net.rows):
        writers.write(rows, key.required, properties, net.rows)
    if len(net.deletes):
        writers.write(RowStream(*target, Role.DELETES), key.deletes, properties, net.deletes, key.ids)
    if net.partial is not None:
        writers.write(RowStream(*target, Role.PARTIAL), key.partial, properties, key.staged(net.partial), key.ids)


def shuffle_net(job: TaskTables, shuffle: Shuffle, target: TableRef, net: Net, task: int) -> None:
    """Send each change to the task that merges those of its key."""
    key = _key(job, target)
    words = pa.array(
        np.where(net.replaced.to_numpy(zero_copy_only=False), Operation.UPDATE, Operation.INSERT), pa.int8()
    )
    rows = _with_positions(net.rows.append_column(OPERATION, words), task)
    for bucket, part in _by_key(key, key.of(net.rows), rows, shuffle.buckets):
        shuffle.post(bucket, RowStream(*target, Role.CHANGED), part)
    if net.partial is not None:
        words = pa.repeat(pa.scalar(int(Operation.UPDATE), pa.int8()), len(net.partial))
        rows = _with_positions(net.partial.append_column(OPERATION, words), task)
        for bucket, part in _by_key(key, key.of(net.partial), rows, shuffle.buckets):
            shuffle.post(bucket, RowStream(*target, Role.CHANGED), part)
    for bucket, part in _by_key(key, net.gone, _with_positions(net.gone, task), shuffle.buckets):
        shuffle.post(bucket, RowStream(*target, Role.GONE), part)


def merge_net(job: TaskTables, target: TableRef, parts: dict[RowStream, list[pa.Table]]) -> Net:
    """Merge the shuffled changes of one table, and remove them from `parts`."""
    key = _key(job, target)
    changes = KeyedChanges(key, arrow_schema(key.required.schema), upsert=False)
    for gone in parts.pop(
        RowStream(*target, Role.GONE), []
    ):  # first, as a task tells of deletes that it has updates after
        changes.delete(gone.drop_columns([ORDER]), gone.column(ORDER).combine_chunks())
    keep = job.keep
    for rows in sorted(parts.pop(RowStream(*target, Role.CHANGED), []), key=_task):
        operations, order = rows.column(OPERATION).combine_chunks(), rows.column(ORDER).combine_chunks()
        lacking = _lacking(rows) if keep else None
        names = [name for name in (OPERATION, ORDER, *LACKING.names) if name in rows.column_names]
        changes.add(rows.drop_columns(names), operations, order, lacking)
    return changes.net()


def _lacking(rows: pa.Table) -> pa.Table:
    is_told = all(name in rows.column_names for name in LACKING.names)
    return rows.select(LACKING.names).cast(LACKING) if is_told else nothing_lacking(len(rows))


def _key(job: TaskTables, target: TableRef) -> Key:
    return Key(job.table_of(RowStream(*target))[0], job.of(target.table).identifier_columns)


def _with_positions(rows: pa.Table, task: int) -> pa.Table:
    return rows.append_column(ORDER, pa.repeat(pa.scalar(task, pa.int64()), len(rows)))


def _task(rows: pa.Table) -> int:
    number: int = rows.column(ORDER)[0].as_py()
    return number


def _by_key(key: Key, keys: pa.Table, rows: pa.Table, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """Divide rows by their keys; the rows of a part stay in order."""
    if not len(rows):
        return
    numbers = _buckets(key.flat(keys), buckets)
    for bucket in range(buckets):
        mine = np.flatnonzero(numbers == bucket)
        if len(mine):
            yield bucket, rows.take(pa.array(mine))


def _buckets(columns: list[pa.ChunkedArray], buckets: int) -> Any:
    """Return the bucket of each key, the same in every task: those of integers are computed without SQL."""
    if all(pa.types.is_integer(column.type) for column in columns):
        mixed = np.zeros(len(columns[0]), np.uint64)
        for column in columns:
            mixed = (mixed ^ column.to_numpy().astype(np.uint64)) * _MIX
            mixed ^= mixed >> np.uint64(32)
        return mixed % np.uint64(buckets)
    flat = {f"k{number}": column for number, column in enumerate(columns)}
    hashed = duckdb_session.run(f"select hash({', '.join(flat)}) % {buckets} as bucket from keys", keys=pa.table(flat))
    return hashed.column("bucket").to_numpy()
