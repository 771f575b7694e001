"""A closer look at rows whose fields are not all accounted for: unknown fields, nulls, duplicate names.

Cheap proof first: each value that was found is at least one field name, and each field name is at least one colon
behind a quote. Where both counts agree there is no unknown field, no null and no duplicate at any depth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.convert.column_names import folded
from calve.convert.given import Given
from calve.convert.select import Select, literal
from calve.convert.unknown import NO_UNKNOWN, UnknownFields
from calve.event import duck
from calve.event.columns import JSON

__all__ = ["Look", "Shapes", "closer_look"]

_Rows = npt.NDArray[np.int64]
_NONE = np.zeros(0, np.int64)
_KEPT, _SAMPLE = 16, 1000  # shapes that are looked for first; rows that tell which


class Look(NamedTuple):
    """Positions of rows that need the exact converter, of those with fields that no column has, and of all looked at.

    Each field of a good row that is not among the last is a value of a column that is not null.
    """

    slow: _Rows
    unknown: UnknownFields
    odd: _Rows = _NONE


def closer_look(shapes: Shapes, found: pa.Table, given: Given, good: npt.NDArray[np.bool_]) -> Look:
    """Find, among the good rows, those whose fields are not simply those of the columns."""
    columns = [leaf.column for level in shapes.select.levels for leaf in level.leaves]
    presence = {leaf.column for level in shapes.select.levels for leaf in level.leaves if leaf.level}
    others = found.take(pa.array(np.flatnonzero(~good)))
    counts = [_count(found[name], name in presence) - _count(others[name], name in presence) for name in columns]
    total = len(found) - len(others)
    empty = np.flatnonzero(_per_row(found, columns, presence) == 0) if max(counts) < total else _NONE
    if sum(counts) == given.count_colons(good):
        return Look(empty, NO_UNKNOWN)
    odd = np.flatnonzero(good & (_per_row(found, columns, presence) != given.scan.colons_by_row()[given.at]))
    slow, unknown, _ = shapes.judge(given, odd)
    return Look(np.union1d(slow, empty), unknown, odd)


def _count(column: pa.ChunkedArray, presence: bool) -> int:
    if presence:
        return int(duck.whole(column).true_count)
    return len(column) - int(column.null_count)


def _per_row(found: pa.Table, columns: list[str], presence: set[str]) -> npt.NDArray[np.int32]:
    """Count the values per row that stand for a field of the event."""
    total = np.zeros(len(found), np.int32)
    for name in columns:
        column = found[name]
        if name in presence:
            total += duck.whole(column).to_numpy(zero_copy_only=False)
        elif column.null_count:
            total += duck.whole(column).is_valid().to_numpy(zero_copy_only=False)
        else:
            total += 1
    return total


@dataclass(frozen=True)
class _Shape:
    """The key lists of an event, one per level, and what they mean."""

    keys: tuple[tuple[str, ...] | None, ...]
    slow: bool
    unknown: tuple[str, ...]

    def sql(self) -> str:
        tests = []
        for number, keys in enumerate(self.keys):
            names = ", ".join(literal(key) for key in keys or ())
            tests.append(f"k{number} IS NULL" if keys is None else f"k{number} = [{names}]::VARCHAR[]")
        return " AND ".join(tests)


class Shapes:
    """Judges events by their key lists, each distinct set of lists once; keeps those that it meets most."""

    def __init__(self, select: Select, case_insensitive: bool) -> None:
        self.select = select
        self._case_insensitive = case_insensitive
        self._known: list[_Shape] = []

    def judge(self, given: Given, odd: _Rows) -> Look:
        """Find the rows, of these odd ones, that need the exact converter or have unknown fields."""
        if not len(odd):
            return Look(_NONE, NO_UNKNOWN)
        self._learn(given.events(odd[:_SAMPLE]))
        events = pa.table({JSON: given.events(odd)})
        cases = " ".join(f"WHEN {shape.sql()} THEN {number}" for number, shape in enumerate(self._known))
        found = duck.run(f"SELECT CASE {cases} ELSE -1 END AS shape FROM ({self.select.keys_sql})", events=events)
        numbers = duck.whole(found["shape"]).to_numpy().copy()
        met, rest = list(self._known), np.flatnonzero(numbers < 0)
        for shape, at in self._group(events[JSON].take(pa.array(rest))):
            numbers[rest[at]] = len(met)
            met.append(shape)
        slow = np.array([shape.slow for shape in met])[numbers]
        unknown = np.array([bool(shape.unknown) for shape in met])[numbers]
        return Look(odd[slow], UnknownFields(odd[unknown], numbers[unknown], [shape.unknown for shape in met]))

    def _learn(self, sample: pa.Array) -> None:
        met = sorted(self._group(sample), key=lambda each: -len(each[1])) if len(self._known) < _KEPT else []
        for shape, _ in met:
            if shape not in self._known and len(self._known) < _KEPT:
                self._known.append(shape)

    def _group(self, texts: pa.Array) -> Iterator[tuple[_Shape, _Rows]]:
        if not len(texts):
            return
        names = [f"k{number}" for number in range(len(self.select.levels))]
        keys = duck.run(self.select.keys_sql, events=pa.table({JSON: texts}))
        keys = keys.append_column("row", pa.array(np.arange(len(keys))))
        listed = ", ".join(names)
        groups = duck.run(f"SELECT {listed}, list(row) AS rows FROM keys GROUP BY {listed}", keys=keys)
        lists = zip(*(groups[name].to_pylist() for name in names), strict=True)
        for found, rows in zip(lists, groups["rows"], strict=True):
            slow, unknown = _judge(self.select, found, self._case_insensitive)
            shape = _Shape(tuple(None if each is None else tuple(each) for each in found), slow, unknown)
            yield shape, rows.values.to_numpy()


def _judge(select: Select, found: tuple[list[str] | None, ...], case_insensitive: bool) -> tuple[bool, tuple[str, ...]]:
    """Decide whether rows of a shape need the exact converter, and else which of their fields have no column."""
    unknown: list[str] = []
    for level, keys in zip(select.levels, found, strict=True):
        names = set(keys or ())
        if len(names) < len(keys or ()):
            return True, ()
        extra = names.difference(level.names)
        if level is select.root:
            extra = {name for name in extra if name in select.fields}
        if extra and case_insensitive and set(map(folded, level.names)) & set(map(folded, extra)):
            return True, ()
        unknown += sorted(".".join((*level.path, name)) for name in extra)
    return False, tuple(unknown)
