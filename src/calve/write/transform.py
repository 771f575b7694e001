"""Applies Iceberg's transforms to a column of typed rows (Iceberg specification, "Partition Transforms")."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, Transform, VoidTransform
from pyiceberg.types import IcebergType

from calve.errors import UnsupportedError
from calve.table.kinds import named, primitive
from calve.table.schema import path_of

__all__ = ["Transformed"]

_NANOS = 10**9


class Transformed:
    """A function from rows to the transformed values of a column, which may be nested.

    Attributes:
        name: The column's dotted name.
        result: The type of the values.
    """

    def __init__(self, schema: Schema, source_id: int, transform: Transform[Any, Any]) -> None:
        source: IcebergType = schema.find_field(source_id).field_type
        self.name = schema.find_column_name(source_id) or ""
        self.result: IcebergType = transform.result_type(source)
        self._path = path_of(schema, source_id)
        # All others are defined on microseconds, rounded down; pyiceberg-core rounds towards the epoch, or fails.
        is_nanos = primitive(source).per_second == _NANOS
        self._in_micros = is_nanos and not isinstance(transform, (IdentityTransform, VoidTransform))
        try:
            self._transform = transform.pyarrow_transform(
                named(str(source).removesuffix("_ns")).kind() if self._in_micros else source
            )
        except NotImplementedError as error:
            raise UnsupportedError(
                f"Column {self.name} is partitioned or sorted by {transform}, which Calve does not support",
                step="write",
                target=self.name,
                hint="Use a transform of Iceberg's specification, version 3",
            ) from error

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return the transformed column as one array."""
        column = rows.column(self._path[0])
        for name in self._path[1:]:
            column = pc.struct_field(column, name)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(column, pa.ChunkedArray):  # no chunk, or too large for one chunk
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        column = _plain(column)
        return self._transform(_micros(column) if self._in_micros else column)


def _plain(column: pa.Array) -> pa.Array:
    """Cast a column to the type that the transforms expect."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column.cast(pa.binary()) if pa.types.is_large_binary(column.type) else column


def _micros(column: pa.Array) -> pa.Array:
    """Round nanoseconds down to microseconds."""
    kind = pa.timestamp("us", column.type.tz)
    nanos = column.view(pa.int64())
    micros = pc.divide(nanos, 1000)  # towards zero
    before = pc.less(pc.subtract(nanos, pc.multiply(micros, 1000)), 0)
    return pc.if_else(before, pc.subtract(micros, 1), micros).view(kind)
