"""Which columns an UPDATE lacks and so leaves as they are: those whose field is not there at all, unlike a null one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.convert.converter import ConvertOptions
from calve.event import duck
from calve.event.columns import EVENT, JSON
from calve.event.sound import as_text
from calve.reduce.key import Key

__all__ = ["ABSENT_TYPE", "Absences", "lacks"]

ABSENT_TYPE = pa.list_(pa.int32())
"""Of a row: the field ids of the top-level columns that its event lacks; all of them are null in the row."""
_Rows = npt.NDArray[np.int64]


class Absences:
    """Looks for the absent fields of one table's events, by the list of field names: most events have one of a few.

    Args:
        key: The table's key, whose columns are never absent.
        options: How events are converted: fields that are left out are as if the event did not have them.
    """

    def __init__(self, key: Key, options: ConvertOptions) -> None:
        self._ids = key.others
        self._options = options
        self._known = frozenset(field.name for field in key.required.schema.fields)

    def of(self, events: pa.Table, row: pa.Array, rows: pa.Table, updates: pa.Array) -> pa.Array:
        """Give what each row's event lacks (`ABSENT_TYPE`), where it is an update; nothing where it is none.

        Args:
            events: The events: `json`, or `event` where that is JSON.
            row: Their positions that became rows.
            rows: These rows.
            updates: Which of them are updates (bool).
        """
        doubtful = np.zeros(len(rows), bool)
        for name in self._ids:
            column = rows.column(name)
            if column.null_count:
                doubtful |= duck.whole(column).is_null().to_numpy(zero_copy_only=False)
        at = np.flatnonzero(doubtful & updates.to_numpy(zero_copy_only=False))
        lists: list[list[int]] = [[]]
        codes = np.zeros(len(rows), np.int64)
        if len(at):
            texts = as_text(events.column(JSON if JSON in events.column_names else EVENT)).take(row.take(pa.array(at)))
            found = duck.run(_SHAPES, events=pa.table({JSON: texts, "row": at}))
            for names, mine in zip(found.column("names").to_pylist(), found.column("rows"), strict=True):
                codes[mine.values.to_numpy()] = len(lists)
                lists.append(self._missing(names))
        return pa.array(lists, ABSENT_TYPE).take(pa.array(codes))

    def _missing(self, names: Iterable[str]) -> list[int]:
        given = {name for name in names if name in self._options.fields}
        if not self._options.case_insensitive:
            return [number for name, number in self._ids.items() if name not in given]
        folded = {name.casefold() for name in given - self._known}
        missing = self._ids.keys() - given
        return [number for name, number in self._ids.items() if name in missing and name.casefold() not in folded]


_SHAPES = f"SELECT names, list(row) AS rows FROM (SELECT json_keys({JSON}) AS names, row FROM events) GROUP BY names"


def lacks(absent: pa.Array, number: int) -> npt.NDArray[np.bool_]:
    """Say of each row whether it lacks the column of a field id."""
    mask = np.zeros(len(absent), bool)
    here = pc.equal(pc.list_flatten(absent), pa.scalar(number, pa.int32()))
    mask[pc.list_parent_indices(absent).filter(here).to_numpy()] = True
    return mask
