"""Sorts typed rows by the sort order of their table (Iceberg specification, "Sorting")."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.sorting import NullOrder, SortDirection

from calve.errors import UnsupportedError
from calve.table.kinds import Limit, primitive
from calve.table.loaded import Table
from calve.write.transform import Transformed

__all__ = ["UNSORTED", "Sorter"]

UNSORTED = 0
"""The order id of an unsorted file."""
_LAST = (1 << 63) - 1


class Sorter:
    """Sorts Arrow tables of one Iceberg table; runs on executors.

    Attributes:
        order_id: The order id of a completely sorted file; `UNSORTED` if the table has no order, or an ambiguous one
            (Iceberg's Java compares UUIDs as signed numbers).
        columns: The columns whose own values are sorted; `bucket` does not preserve their order.
    """

    def __init__(self, table: Table) -> None:
        order = table.sort_order
        self._keys = _keys(table)
        self._order = [
            (
                str(number),
                "ascending" if field.direction is SortDirection.ASC else "descending",
                "at_start" if field.null_order is NullOrder.NULLS_FIRST else "at_end",
            )
            for number, field in enumerate(order.fields)
        ]
        ambiguous = any(Limit.NO_ORDER in primitive(key.result).limits for key in self._keys)
        self.order_id = UNSORTED if ambiguous or not self._keys else order.order_id
        self.columns = [
            key.name
            for key, field in zip(self._keys, order.fields, strict=bool(self._keys))
            if not str(field.transform).startswith(("bucket", "void"))
        ]

    def sort(self, rows: pa.Table) -> pa.Table:
        """Sort rows by the table's order; the sort is stable, so sorted rows stay where they are."""
        return rows.take(self.order(rows)) if self._keys else rows

    def order(self, rows: pa.Table) -> pa.Array:
        """Return the numbers of rows in the table's order."""
        if not self._keys:
            return pa.array(range(len(rows)), pa.uint64())
        keys = pa.table({str(number): _comparable(key(rows)) for number, key in enumerate(self._keys)})
        return pc.sort_indices(keys, sort_keys=self._order)


def _keys(table: Table) -> list[Transformed]:
    """Return the sort keys; none if a column was dropped, or a transform is unknown."""
    try:
        return [Transformed(table.schema, field.source_id, field.transform) for field in table.sort_order.fields]
    except (UnsupportedError, ValueError):
        return []


def _comparable(column: pa.Array) -> pa.Array:
    """Convert floats to integers in Iceberg's order: -0 before 0, NaN last; Arrow sorts NaN as null."""
    if not pa.types.is_floating(column.type):
        return column
    bits = column.cast(pa.float64()).view(pa.int64())
    ordered = pc.if_else(pc.less(bits, 0), pc.bit_wise_xor(bits, _LAST), bits)
    return pc.if_else(pc.is_nan(column), pa.scalar(_LAST, pa.int64()), ordered)
