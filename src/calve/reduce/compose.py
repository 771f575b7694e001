"""Updates of one batch that lack columns, joined key by key: each column has what the last event that gave it said.

An INSERT or a DELETE begins a row anew: nothing before it is kept. What no event since then gave is null; what no event
of the batch gave, and nothing began anew, is still absent: the older row in the table has it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import Mask, RowNumbers
from calve.convert.build import seal
from calve.event import duck
from calve.event.operation import Operation
from calve.reduce.absent import ABSENT_TYPE, lacks
from calve.reduce.key import ABSENT, EVENTS

__all__ = ["Composed", "compose"]


class Composed(NamedTuple):
    """What remains of keys whose last event lacks columns.

    Attributes:
        rows: For each key its row.
        absent: For each key what it still lacks (`ABSENT_TYPE`).
        events: For each key that still lacks a required column, the dead letters of all its events that count.
        fresh: For each key whether nothing older counts, although a required column has no value.
    """

    rows: pa.Table
    absent: pa.Array
    events: pa.Array
    fresh: Mask


class _Events(NamedTuple):
    """The events of some keys, key by key and in order: the number of the key, its `Operation`, its row (-1: none)."""

    key: RowNumbers
    operation: npt.NDArray[np.int8]
    row: RowNumbers


def compose(found: pa.Table, last: pa.Table, rows: pa.Table, lacking: pa.Table, ids: dict[str, int]) -> Composed:
    """Join the events of keys.

    Args:
        found: All events in order: the key as columns `key_…`, `operation`, `row` (null for a DELETE).
        last: Of these keys the same columns `key_…`, and `row_last`: the row of the last event.
        rows: All rows.
        lacking: What the event of each row lacks (`LACKING`).
        ids: Field ids of columns that may be absent, by name.
    """
    events = _events(found, last)
    starts = np.flatnonzero(np.diff(events.key, prepend=-1))
    place = np.arange(len(events.key))
    begins = events.operation != Operation.UPDATE
    begun = np.maximum.reduceat(np.where(begins, place, -1), starts)
    usable = (place >= begun[events.key]) & (events.row >= 0)
    columns, still, absent = [], {}, duck.whole(lacking.column(ABSENT))
    fresh, bare = np.zeros(len(last), bool), np.zeros(len(last), bool)
    for field in rows.schema:
        number = ids.get(field.name, -1)
        given = usable & ~lacks(absent, number)[events.row]
        source = np.maximum.reduceat(np.where(given, place, -1), starts)
        at = pa.array(events.row[source], mask=source < 0)
        columns.append(rows.column(field.name).take(at))
        kept = (source < 0) & (begun < 0)
        unknown = (source < 0) & (begun >= 0) & (not field.nullable)
        fresh |= unknown
        if (kept | unknown).any():
            still[number] = kept | unknown
            bare |= still[number] & (not field.nullable)
    told = np.flatnonzero(usable & bare[events.key])
    letters = _joined(duck.whole(lacking.column(EVENTS)).take(pa.array(events.row[told])), events.key[told], len(last))
    return Composed(seal(pa.table(columns, schema=rows.schema)), _lists(still, len(last)), letters, fresh)


def _events(found: pa.Table, last: pa.Table) -> _Events:
    names = [name for name in last.column_names if name.startswith("key_")]
    chosen = last.select(names).append_column("number", pa.array(range(len(last)), pa.int64()))
    placed = found.append_column("place", pa.array(range(len(found)), pa.int64()))
    sql = f"SELECT number, operation, coalesce(row, -1) AS row FROM found JOIN chosen USING ({', '.join(names)})"
    events = duck.run(f"{sql} ORDER BY number, place", found=placed, chosen=chosen)
    return _Events(*(events.column(name).to_numpy() for name in ("number", "operation", "row")))


def _joined(lists: pa.Array, keys: RowNumbers, count: int) -> pa.Array:
    """Join the lists of each key, in order; `keys` say whose each is, and go up."""
    sizes = np.bincount(keys, pc.list_value_length(lists).to_numpy(zero_copy_only=False), count)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, lists.flatten(), type=lists.type)


def _lists(still: dict[int, Mask], count: int) -> pa.Array:
    """Return masks by field id as a list of field ids for each row."""
    parts = [np.flatnonzero(mask) for mask in still.values()]
    at = np.concatenate([np.zeros(0, np.int64), *parts])
    numbers = np.repeat(np.array(list(still), np.int32), [len(part) for part in parts])
    order = np.argsort(at, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=count))]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(numbers[order], pa.int32()), type=ABSENT_TYPE)
