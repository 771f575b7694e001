"""Joins the updates of one batch that lack columns, by key: each column gets its value from the last event that has it.

An INSERT or a DELETE starts a new row: nothing before it counts. After such a start, a column that no event has is
null. Without one, a column that no event of the batch has stays absent: the older row in the table has its value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import Mask, RowNumbers
from calve.convert.build import seal
from calve.event import duckdb_session
from calve.event.operation import Operation
from calve.reduce.absent import ABSENT_TYPE, lacks
from calve.reduce.key import ABSENT, EVENTS

__all__ = ["Composed", "compose"]


class Composed(NamedTuple):
    """The net rows of keys whose last event lacks columns.

    Attributes:
        rows: The row of each key.
        absent: The columns that each key still lacks (`ABSENT_TYPE`).
        events: The dead letters of all events that count, of each key that still lacks a required column.
        fresh: Per key, whether a required column has no value although a new row was started.
    """

    rows: pa.Table
    absent: pa.Array
    events: pa.Array
    fresh: Mask


class _Events(NamedTuple):
    """Events in order, grouped by key: the number of the key, the `Operation`, the row (-1: none)."""

    key: RowNumbers
    operation: npt.NDArray[np.int8]
    row: RowNumbers


def compose(changes: pa.Table, last: pa.Table, rows: pa.Table, lacking: pa.Table, ids: dict[str, int]) -> Composed:
    """Join the events of keys.

    Args:
        changes: All events in order: the key as columns `key_…`, `operation`, `row` (null for a DELETE).
        last: The keys as columns `key_…`, and `row_last`, the row of the last event of each.
        rows: All rows.
        lacking: The absent columns of each row (`LACKING`).
        ids: Field ids of columns that may be absent, by name.
    """
    events = _events(changes, last)
    starts = np.flatnonzero(np.diff(events.key, prepend=-1))
    index = np.arange(len(events.key))
    starts_row = events.operation != Operation.UPDATE
    start_index = np.maximum.reduceat(np.where(starts_row, index, -1), starts)
    usable = (index >= start_index[events.key]) & (events.row >= 0)
    columns, still, absent = [], {}, duckdb_session.one_array(lacking.column(ABSENT))
    fresh, bare = np.zeros(len(last), bool), np.zeros(len(last), bool)
    for field in rows.schema:
        number = ids.get(field.name, -1)
        has_value = usable & ~lacks(absent, number)[events.row]
        source = np.maximum.reduceat(np.where(has_value, index, -1), starts)
        at = pa.array(events.row[source], mask=source < 0)
        columns.append(rows.column(field.name).take(at))
        needs_older = (source < 0) & (start_index < 0)
        unknown = (source < 0) & (start_index >= 0) & (not field.nullable)
        fresh |= unknown
        if (needs_older | unknown).any():
            still[number] = needs_older | unknown
            bare |= still[number] & (not field.nullable)
    noted = np.flatnonzero(usable & bare[events.key])
    letters = _joined(
        duckdb_session.one_array(lacking.column(EVENTS)).take(pa.array(events.row[noted])), events.key[noted], len(last)
    )
    return Composed(seal(pa.table(columns, schema=rows.schema)), _lists(still, len(last)), letters, fresh)


def _events(changes: pa.Table, last: pa.Table) -> _Events:
    names = [name for name in last.column_names if name.startswith("key_")]
    chosen = last.select(names).append_column("number", pa.array(range(len(last)), pa.int64()))
    indexed = changes.append_column("position", pa.array(range(len(changes)), pa.int64()))
    sql = f"SELECT number, operation, coalesce(row, -1) AS row FROM found JOIN chosen USING ({', '.join(names)})"
    events = duckdb_session.run(f"{sql} ORDER BY number, position", found=indexed, chosen=chosen)
    return _Events(*(events.column(name).to_numpy() for name in ("number", "operation", "row")))


def _joined(lists: pa.Array, keys: RowNumbers, count: int) -> pa.Array:
    """Join the lists of each key, in order; `keys` has the key of each list, ascending."""
    sizes = np.bincount(keys, pc.list_value_length(lists).to_numpy(zero_copy_only=False), count)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, lists.flatten(), type=lists.type)


def _lists(still: dict[int, Mask], count: int) -> pa.Array:
    """Convert masks by field id to a list of field ids for each row."""
    parts = [np.flatnonzero(mask) for mask in still.values()]
    at = np.concatenate([np.zeros(0, np.int64), *parts])
    numbers = np.repeat(np.array(list(still), np.int32), [len(part) for part in parts])
    order = np.argsort(at, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=count))]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(numbers[order], pa.int32()), type=ABSENT_TYPE)
