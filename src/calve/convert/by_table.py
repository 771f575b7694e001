"""Divides the result of a conversion of several tables' events by table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.columns.node import Node
from calve.columns.unknown_fields import UnknownFields
from calve.event.reject import Reject

__all__ = ["ConvertedRows", "TableOfRow", "divide"]

TableOfRow = npt.NDArray[np.int32]
"""The number of each event's table."""
T = TypeVar("T")
_FEW = 1 << 16  # numbers of 16 bits are sorted by radix


class ConvertedRows(NamedTuple):
    """The result of a conversion; positions are those in the input.

    Attributes:
        rows: The good rows, typed.
        row: Their positions, ascending.
        rejects: The rejected events.
        nulled: Values that cannot be converted and became null: position, and column with reason.
        unknown_rows: Positions of events that may have fields without a column, if columns are added for them.
        wider: Values that fit only a wider column: position, and the needed type.
        ignored: Written events with fields that have no column, if none is added for them, or with repeated keys.
        new: The fields without a column of the events in `unknown_rows`, if they are known already.
    """

    rows: pa.Table
    row: RowNumbers
    rejects: list[Reject]
    nulled: list[tuple[int, tuple[str, str]]]
    unknown_rows: RowNumbers
    wider: list[tuple[int, Node]]
    ignored: UnknownFields
    new: Node | None = None

    def rejecting(self, rejects: list[Reject]) -> ConvertedRows:
        """Return the result with some more events rejected."""
        if not rejects:
            return self
        rows = {each.row for each in rejects}
        lost = list(rows)
        keep = ~np.isin(self.row, lost)
        return self._replace(
            rows=self.rows.filter(pa.array(keep)),
            row=self.row[keep],
            rejects=[each for each in self.rejects if each.row not in rows] + rejects,
            nulled=[each for each in self.nulled if each[0] not in rows],
            ignored=self.ignored.take(~np.isin(self.ignored.rows, lost)),
        )


def divide(found: ConvertedRows, table_of_row: TableOfRow) -> Iterator[tuple[int, ConvertedRows]]:
    """Yield each table's number with its part; rows keep their order and share the memory of one copy."""
    present = np.flatnonzero(np.bincount(table_of_row)).tolist()
    if len(present) < 2:
        yield from ((owner, found) for owner in present)
        return
    order, bounds = _sorted(table_of_row[found.row], present)
    rows, row = found.rows.take(pa.array(order)), found.row[order]
    unknown_order, unknown_bounds = _sorted(table_of_row[found.unknown_rows], present)
    unknown = found.unknown_rows[unknown_order]
    ignored_order, ignored_bounds = _sorted(table_of_row[found.ignored.rows], present)
    ignored = found.ignored.take(ignored_order)
    rejects: dict[int, list[Reject]] = defaultdict(list)
    for reject in found.rejects:
        rejects[int(table_of_row[reject.row])].append(reject)
    nulled, wider = _by_owner(found.nulled, table_of_row), _by_owner(found.wider, table_of_row)
    for number, owner in enumerate(present):
        mine, odd, left = (slice(*each[number : number + 2]) for each in (bounds, unknown_bounds, ignored_bounds))
        part, without = rows.slice(mine.start, mine.stop - mine.start), ignored.take(left)
        yield owner, ConvertedRows(part, row[mine], rejects[owner], nulled[owner], unknown[odd], wider[owner], without)


def _by_owner(found: list[tuple[int, T]], table_of_row: TableOfRow) -> dict[int, list[tuple[int, T]]]:
    divided: dict[int, list[tuple[int, T]]] = defaultdict(list)
    for each in found:
        divided[int(table_of_row[each[0]])].append(each)
    return divided


def _sorted(table_of_row: TableOfRow, present: list[int]) -> tuple[RowNumbers, list[int]]:
    """Return the stable order by table, and the start of each present table in it, with the end."""
    few: npt.NDArray[Any] = table_of_row.astype(np.uint16) if present[-1] < _FEW else table_of_row
    order = np.argsort(few, kind="stable")
    return order, [*np.searchsorted(few[order], present).tolist(), len(few)]
