"""Divides the result of a conversion of several tables' events by table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.columns.node import Node
from calve.columns.unknown_fields import UnknownFields
from calve.event.reject import Reject

__all__ = ["ConvertedRows", "TableOfRow", "TableOrder", "divide"]

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
        size_bytes: The size of the rows; of a part its share by rows, as measuring it takes longer than writing some.
    """

    rows: pa.Table
    row: RowNumbers
    rejects: list[Reject]
    nulled: list[tuple[int, tuple[str, str]]]
    unknown_rows: RowNumbers
    wider: list[tuple[int, Node]]
    ignored: UnknownFields
    new: Node | None = None
    size_bytes: int = 0

    def rejecting(self, rejects: list[Reject]) -> ConvertedRows:
        """Return the result with some more events rejected."""
        if not rejects:
            return self
        rows = {entry.row for entry in rejects}
        lost = list(rows)
        keep = ~np.isin(self.row, lost)
        return self._replace(
            rows=self.rows.filter(pa.array(keep)),
            row=self.row[keep],
            rejects=[entry for entry in self.rejects if entry.row not in rows] + rejects,
            nulled=[entry for entry in self.nulled if entry[0] not in rows],
            ignored=self.ignored.select(~np.isin(self.ignored.rows, lost)),
            unknown_rows=self.unknown_rows[~np.isin(self.unknown_rows, lost)],
            wider=[entry for entry in self.wider if entry[0] not in rows],
            new=None,
        )


class TableOrder(NamedTuple):
    """The order in which the events of each table follow each other.

    Attributes:
        order: The positions of the events, table by table; those of one table ascend.
        tables: The tables' numbers.
        bounds: Where each table begins in `order`, and the end.
    """

    order: RowNumbers
    tables: list[int]
    bounds: npt.NDArray[np.int64]

    @staticmethod
    def of(table_of_row: TableOfRow) -> TableOrder:
        """Order events by table."""
        counts = np.bincount(table_of_row)
        tables = np.flatnonzero(counts)
        few: npt.NDArray[Any] = table_of_row.astype(np.uint16) if len(counts) <= _FEW else table_of_row
        bounds = np.concatenate([[0], np.cumsum(counts[tables])])
        return TableOrder(np.argsort(few, kind="stable"), tables.tolist(), bounds)


def divide(converted: ConvertedRows, by_table: TableOrder) -> Iterator[tuple[int, ConvertedRows]]:
    """Yield each table's number with its part, whose positions are those in the input; parts share their memory.

    Args:
        converted: The result of a conversion of events in this order: its positions are those in `by_table.order`.
        by_table: The order.
    """
    order, bounds = by_table.order, by_table.bounds
    named = converted.ignored.select(np.argsort(converted.ignored.rows, kind="stable"))
    at, unknown, ignored = (_cut(some, bounds) for some in (converted.row, converted.unknown_rows, named.rows))
    row, unknown_rows, named = (
        order[converted.row],
        order[converted.unknown_rows],
        named._replace(rows=order[named.rows]),
    )
    rejects = _by_table(
        [(reject.row, reject._replace(row=int(order[reject.row]))) for reject in converted.rejects], bounds
    )
    nulled = _by_table([(place, (int(order[place]), loss)) for place, loss in converted.nulled], bounds)
    wider = _by_table([(place, (int(order[place]), loss)) for place, loss in converted.wider], bounds)
    row_bytes = converted.size_bytes / max(len(converted.rows), 1)
    for number, table in enumerate(by_table.tables):
        rows = converted.rows.slice(at[number], at[number + 1] - at[number])
        mine, odd, ignored_rows = (slice(*some[number : number + 2]) for some in (at, unknown, ignored))
        lost, wide, null = rejects.get(number, []), wider.get(number, []), nulled.get(number, [])
        size = int(row_bytes * len(rows))
        odd_rows, mine_ignored = unknown_rows[odd], named.select(ignored_rows)
        yield table, ConvertedRows(rows, row[mine], lost, null, odd_rows, wide, mine_ignored, size_bytes=size)


def _cut(places: RowNumbers, bounds: npt.NDArray[np.int64]) -> list[int]:
    """Return where each table begins in ascending places, and the end."""
    return cast("list[int]", np.searchsorted(places, bounds).tolist())


def _by_table(entries: list[tuple[int, T]], bounds: npt.NDArray[np.int64]) -> dict[int, list[T]]:
    """Divide what was found at places by the table, as a number in `TableOrder.tables`, that has these."""
    divided: dict[int, list[T]] = defaultdict(list)
    numbers = np.searchsorted(bounds, [place for place, _ in entries], side="right")
    for number, (_, entry) in zip(numbers.tolist(), entries, strict=True):
        divided[number - 1].append(entry)
    return divided
