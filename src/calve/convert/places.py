"""Rows of the exact converter in the places of those that were not proven: most of their values are there already."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.event import duck

__all__ = ["placed", "put"]

_FAR = 100
"""Rows between those that are left out."""
_Mask = npt.NDArray[np.bool_]
_Rows = npt.NDArray[np.int64]


def put(fast: pa.Table, at: _Rows, good: _Mask, slow: pa.Table, rows: _Rows) -> tuple[pa.Table, _Rows]:
    """Give the proven rows of one table and all rows of the other, in order, and their positions.

    A column of which every value is what the exact converter says stays as it is; no other value is ever looked at.

    Args:
        fast: What the SELECT gave, typed, proven or not.
        at: The positions of its rows, ascending.
        good: Which of its rows are proven.
        slow: Exact rows of the same schema, none of them proven.
        rows: Their positions.
    """
    place = np.searchsorted(at, rows)
    if not np.isin(rows, at).all():
        return _between(_without(fast, np.flatnonzero(~good)), at[good], slow, rows)
    for number, column in enumerate(slow.columns):
        fast = placed(fast, number, place, duck.whole(column))
    kept = good.copy()
    kept[place] = True
    return _without(fast, np.flatnonzero(~kept)), at[kept]


def placed(table: pa.Table, number: int, place: _Rows, values: pa.Array) -> pa.Table:
    """Give a table with these values in some rows of a column, which stays as it is where it has them already."""
    column = duck.whole(table.column(number))
    if _is_same(column.take(pa.array(place)), values):
        return table
    order = np.arange(len(column))
    order[place] = len(column) + np.arange(len(values))
    new = pa.concat_arrays([column, values]).take(pa.array(order))
    return table.set_column(number, table.schema.field(number), new)


def _without(table: pa.Table, rows: _Rows) -> pa.Table:
    """Leave some rows out; where they are few, to copy what is between them is cheaper than to filter."""
    if not len(rows):
        return table
    if len(rows) * _FAR > len(table):
        return table.take(pa.array(np.delete(np.arange(len(table)), rows)))
    [whole] = table.combine_chunks().to_batches()
    ends = itertools.pairwise([-1, *rows.tolist(), len(table)])
    return pa.Table.from_batches([pa.concat_batches([whole.slice(one + 1, other - one - 1) for one, other in ends])])


def _between(one: pa.Table, at: _Rows, other: pa.Table, rows: _Rows) -> tuple[pa.Table, _Rows]:
    """Give the rows of two tables in the order of their positions."""
    positions = np.concatenate([at, rows])
    order = np.argsort(positions, kind="stable")
    return pa.concat_tables([one, other]).combine_chunks().take(pa.array(order)), positions[order]


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    """Say whether values are the same to the last bit; nested ones, where zeros may have a sign, never are."""
    kind = one.type
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return len(one) == 0
    if pa.types.is_floating(kind):
        bits = pa.int64() if kind == pa.float64() else pa.int32()
        one, other = one.view(bits), other.view(bits)
    return bool(one.equals(other))
