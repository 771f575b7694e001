"""A closer look at rows whose fields are not all accounted for: unknown fields, nulls, duplicate names.

Cheap proof first: each value that was found is at least one field name, and each field name is at least one colon behind
a quote. Where both counts agree there is no unknown field, no null and no duplicate at any depth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.convert.select import Level, Select
from calve.event import duck
from calve.event.columns import JSON
from calve.event.scan import Texts

__all__ = ["Look", "closer_look"]

_Rows = npt.NDArray[np.int64]
_NONE = np.zeros(0, np.int64)


class Look(NamedTuple):
    """Positions of rows that need the exact converter, and of those with fields that no column has."""

    slow: _Rows
    unknown: _Rows


def closer_look(select: Select, found: pa.Table, scan: Texts, texts: pa.Array, case_insensitive: bool) -> Look:
    """Find the rows whose fields are not simply those of the columns."""
    columns = [leaf.column for level in select.levels for leaf in level.leaves]
    presence = {leaf.column for level in select.levels for leaf in level.leaves if leaf.level}
    total = sum(_count(found[name], name in presence) for name in columns)
    empty = np.flatnonzero(_per_row(found, columns, presence) == 0) if total < len(found) * len(columns) else _NONE
    if total == scan.count_colons():
        return Look(empty, _NONE)
    odd = np.flatnonzero(_per_row(found, columns, presence) != scan.colons_by_row())
    slow, unknown = _by_keys(select, texts, odd, case_insensitive)
    return Look(np.union1d(slow, empty), unknown)


def _count(column: pa.ChunkedArray, presence: bool) -> int:
    if presence:
        return int(column.combine_chunks().true_count)
    return len(column) - int(column.null_count)


def _per_row(found: pa.Table, columns: list[str], presence: set[str]) -> npt.NDArray[np.int32]:
    """Count the values per row that stand for a field of the event."""
    total = np.zeros(len(found), np.int32)
    for name in columns:
        column = found[name]
        if name in presence:
            total += column.combine_chunks().to_numpy(zero_copy_only=False)
        elif column.null_count:
            total += column.combine_chunks().is_valid().to_numpy(zero_copy_only=False)
        else:
            total += 1
    return total


def _by_keys(select: Select, texts: pa.Array, odd: _Rows, case_insensitive: bool) -> tuple[_Rows, _Rows]:
    """Judge each distinct set of key lists once."""
    if not len(odd):
        return _NONE, _NONE
    events = pa.table({JSON: texts if len(odd) == len(texts) else texts.take(pa.array(odd))})
    names = ", ".join(f"k{i}" for i in range(len(select.levels)))
    keys = duck.run(select.keys_sql, events=events).append_column("row", pa.array(odd))
    shapes = duck.run(f"SELECT {names}, list(row) AS rows FROM keys GROUP BY {names}", keys=keys)
    slow, unknown = [_NONE], [_NONE]
    for shape in shapes.to_batches():
        lists = [shape.column(i).to_pylist() for i in range(len(select.levels))]
        rows = shape.column("rows")
        for number, found in enumerate(zip(*lists, strict=True)):
            is_slow, is_unknown = _judge(select.levels, found, case_insensitive)
            if is_slow or is_unknown:
                (slow if is_slow else unknown).append(rows[number].values.to_numpy())
    return np.concatenate(slow), np.sort(np.concatenate(unknown))


def _judge(levels: list[Level], found: tuple[list[str] | None, ...], case_insensitive: bool) -> tuple[bool, bool]:
    unknown = False
    for level, keys in zip(levels, found, strict=True):
        names = set(keys or ())
        if len(names) < len(keys or ()):
            return True, False
        extra = names.difference(level.names)
        if extra and case_insensitive and {name.casefold() for name in level.names} & {x.casefold() for x in extra}:
            return True, False
        unknown |= bool(extra)
    return False, unknown
