"""Fields that have no column: which events have which of them, and how many events have each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pyiceberg import types as iceberg

from calve.arrays import RowNumbers
from calve.event.column_names import folded
from calve.event.reject import cut, encodable
from calve.observe import tally

__all__ = ["NO_UNKNOWN", "Find", "UnknownFields", "finder"]

Find = Callable[[Any], Iterator[str]]
"""Yields the dotted path of each field of a parsed value that has no column; elements of a list may repeat one."""


class UnknownFields(NamedTuple):
    """Events that have fields without a column.

    Attributes:
        rows: Their positions.
        sets: For each event the index in `fields`.
        fields: The distinct sets of fields, as dotted paths.
    """

    rows: RowNumbers
    sets: RowNumbers
    fields: list[tuple[str, ...]]

    @staticmethod
    def of(fields_by_row: Iterable[tuple[int, tuple[str, ...]]]) -> UnknownFields:
        """Collect positions with their fields."""
        numbers: dict[tuple[str, ...], int] = {}
        pairs = [(row, numbers.setdefault(fields, len(numbers))) for row, fields in fields_by_row]
        rows, sets = np.array(pairs, np.int64).reshape(-1, 2).T
        return UnknownFields(rows, sets, list(numbers))

    def select(self, at: npt.NDArray[Any] | slice) -> UnknownFields:
        """Select events by a mask, by indexes into `rows`, or by a slice."""
        return self._replace(rows=self.rows[at], sets=self.sets[at])

    def join(self, other: UnknownFields) -> UnknownFields:
        """Return the events of both."""
        if not len(other.rows):
            return self
        sets = np.concatenate([self.sets, other.sets + len(self.fields)])
        return UnknownFields(np.concatenate([self.rows, other.rows]), sets, [*self.fields, *other.fields])

    def counts(self) -> dict[str, int]:
        """Count the events by field; after the first `tally.MOST_NAMES` fields all others share one count."""
        counts: dict[str, int] = {}
        if not len(self.sets):
            return counts
        for number, count in zip(*np.unique(self.sets, return_counts=True), strict=True):
            for name in self.fields[number]:
                tally.add_bounded(counts, {encodable(cut(name)): int(count)})
        return counts


NO_UNKNOWN = UnknownFields(np.zeros(0, np.int64), np.zeros(0, np.int64), [])


def finder(kind: iceberg.IcebergType, case_insensitive: bool, path: str = "") -> Find | None:
    """Compile a function that yields the paths of a value's fields that a type lacks; None for primitives."""
    match kind:
        case iceberg.StructType():
            return _in_struct(kind, case_insensitive, path)
        case iceberg.ListType():
            element = finder(kind.element_type, case_insensitive, f"{path}element.")
            return element and _in_each(element, list, iter)
        case iceberg.MapType():
            value = finder(kind.value_type, case_insensitive, f"{path}value.")
            return value and _in_each(value, dict, dict.values)
    return None


def _in_struct(kind: iceberg.StructType, case_insensitive: bool, path: str) -> Find:
    columns = {field.name: finder(field.field_type, case_insensitive, f"{path}{field.name}.") for field in kind.fields}
    if case_insensitive:
        columns = {folded(name): below for name, below in columns.items()} | columns

    def find(value: Any) -> Iterator[str]:
        for name, item in value.items() if type(value) is dict else ():
            column = folded(name) if case_insensitive and name not in columns else name
            if column not in columns:
                yield f"{path}{name}"
            elif below := columns[column]:
                yield from below(item)

    return find


def _in_each(find: Find, kind: type, items: Callable[[Any], Iterable[Any]]) -> Find:
    def find_all(value: Any) -> Iterator[str]:
        for item in items(value) if type(value) is kind else ():
            yield from find(item)

    return find_all
