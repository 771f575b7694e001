"""The Arrow schema of a table's rows."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.table.kinds import Limit, primitive

__all__ = ["arrow_schema", "arrow_type"]


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a table's rows, field ids in the metadata.

    Raises:
        ValueError: A map has variants as keys.
    """
    return pa.schema(list(map(_field, schema.fields)))


def arrow_type(kind: iceberg.IcebergType) -> pa.DataType:
    """Return the Arrow type of a column, the ids of nested fields in the metadata; `Raises` as above."""
    match kind:
        case iceberg.StructType():
            return pa.struct(list(map(_field, kind.fields)))
        case iceberg.ListType():
            return pa.large_list(_field(kind.element_field))
        case iceberg.MapType() if Limit.NO_ELEMENT in primitive(kind.key_type).limits:
            raise ValueError(f"{kind.key_type} cannot be the key of a map")
        case iceberg.MapType():
            return pa.map_(_field(kind.key_field), _field(kind.value_field))
    arrow = primitive(kind).arrow
    return arrow(kind) if callable(arrow) else arrow


def _field(field: iceberg.NestedField) -> pa.Field:
    doc = {"doc": field.doc} if field.doc else {}
    metadata = {**doc, "PARQUET:field_id": str(field.field_id)}
    return pa.field(field.name, arrow_type(field.field_type), nullable=field.optional, metadata=metadata)
