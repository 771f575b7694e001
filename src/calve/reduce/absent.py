"""Columns an UPDATE keeps because its event has no such field; an explicit null is a value."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import Mask
from calve.convert.converter import ConvertOptions
from calve.event import duckdb_session
from calve.event.column_names import folded
from calve.event.columns import EVENT, JSON
from calve.event.dead_letter import letters, line
from calve.event.reject import Code, reject_rows
from calve.event.validate_json import as_text
from calve.reduce.key import ABSENT, EVENTS, Key

__all__ = ["ABSENT_TYPE", "LACKING", "Absences", "lacks", "nothing_lacking"]

ABSENT_TYPE = pa.list_(pa.int32())
"""The field ids of the top-level columns that an event lacks; they are null in its row."""
LACKING = pa.schema([(ABSENT, ABSENT_TYPE), (EVENTS, pa.list_(pa.large_binary()))])
"""Per row: the absent columns and, if one of them is required, the dead letters of its events, as lines of JSON."""


class Absences:
    """Finds the absent fields of one table's events. It groups events by their field names: there are few such lists.

    Args:
        key: The table's key, whose columns are never absent.
        options: How events are converted; excluded fields count as absent, metadata columns never.
    """

    def __init__(self, key: Key, options: ConvertOptions) -> None:
        self._ids = key.others
        self._required = {
            field.name: field.field_id
            for field in key.required.schema.fields
            if field.required and field.name in key.others
        }
        self._options = options
        self._known = frozenset(field.name for field in key.required.schema.fields)

    def of(self, events: pa.Table, row: pa.Array, rows: pa.Table, updates: pa.Array) -> pa.Table:
        """Return the absent columns of each row (`LACKING`); rows that are not updates have none.

        Args:
            events: The events: `json`, or `event` where that is JSON.
            row: The position of the event of each row.
            rows: The rows.
            updates: True for a row of an update.
        """
        may_lack = np.zeros(len(rows), bool)
        for name in self._ids:
            column = rows.column(name)
            if column.null_count:
                may_lack |= duckdb_session.one_array(column).is_null().to_numpy(zero_copy_only=False)
        at = np.flatnonzero(may_lack & updates.to_numpy(zero_copy_only=False))
        lists: list[list[int]] = [[]]
        codes = np.zeros(len(rows), np.int64)
        if len(at):
            texts = as_text(events.column(JSON if JSON in events.column_names else EVENT)).take(row.take(pa.array(at)))
            by_shape = duckdb_session.run(_SHAPES, events=pa.table({JSON: texts, "row": at}))
            for names, mine in zip(by_shape.column("names").to_pylist(), by_shape.column("rows"), strict=True):
                codes[mine.values.to_numpy()] = len(lists)
                lists.append(self._missing(names))
        absent = pa.array(lists, ABSENT_TYPE).take(pa.array(codes))
        return pa.table([absent, self._letters(events, row, absent)], schema=LACKING)

    def _letters(self, events: pa.Table, row: pa.Array, absent: pa.Array) -> pa.Array:
        """Return the dead letter of each event that lacks a required column, as a list."""
        lists: list[list[bytes]] = [[]]
        codes = np.zeros(len(absent), np.int64)
        for name, number in self._required.items():
            at = np.flatnonzero(lacks(absent, number) & (codes == 0))
            rejects = reject_rows(row.take(pa.array(at)), Code.REQUIRED_MISSING, name, _WHY)
            codes[at] = range(len(lists), len(lists) + len(at))
            lists += [[line(entry)] for entry in letters(events, rejects, {})]
        return pa.array(lists, LACKING.field(EVENTS).type).take(pa.array(codes))

    def _missing(self, names: Iterable[str]) -> list[int]:
        present = {name for name in names if name in self._options.fields} | {
            name for name, _ in self._options.metadata
        }
        if not self._options.case_insensitive:
            return [number for name, number in self._ids.items() if name not in present]
        others = set(map(folded, present - self._known))
        missing = self._ids.keys() - present
        return [number for name, number in self._ids.items() if name in missing and folded(name) not in others]


_WHY = "a required field is missing, and no older row has it"
_SHAPES = f"SELECT names, list(row) AS rows FROM (SELECT json_keys({JSON}) AS names, row FROM events) GROUP BY names"


def nothing_lacking(rows: int) -> pa.Table:
    """Return `LACKING` of rows that lack nothing."""
    return pa.table([pa.array([[]], field.type).take(pa.repeat(0, rows)) for field in LACKING], schema=LACKING)


def lacks(absent: pa.Array, number: int) -> Mask:
    """Mask the rows that lack the column of a field id."""
    mask = np.zeros(len(absent), bool)
    here = pc.equal(pc.list_flatten(absent), pa.scalar(number, pa.int32()))
    mask[pc.list_parent_indices(absent).filter(here).to_numpy()] = True
    return mask
