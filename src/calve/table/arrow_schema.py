"""The Arrow schema of a table's rows, with variants."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from calve.table.schema import VariantType

__all__ = ["METADATA", "VALUE", "VARIANT", "arrow_schema"]

METADATA, VALUE = "metadata", "value"
"""The two parts of a variant, by their Parquet names."""
VARIANT = pa.struct(
    [pa.field(METADATA, pa.large_binary(), nullable=False), pa.field(VALUE, pa.large_binary(), nullable=False)]
)
"""A variant in Arrow: no field ids inside (Iceberg specification, appendix A)."""


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a table's rows, field ids in the metadata."""
    kind = schema.as_struct()
    plain = schema_to_pyarrow(Schema(*_without_variants(kind).fields))
    return pa.schema(
        [
            arrow_field.with_type(_filled(field.field_type, arrow_field.type))
            for field, arrow_field in zip(kind.fields, plain, strict=True)
        ]
    )


def _without_variants(kind: Any) -> Any:
    """Replace each variant by `binary`."""
    match kind:
        case VariantType():
            return iceberg.BinaryType()
        case iceberg.StructType():
            return iceberg.StructType(*map(_without_variants, kind.fields))
        case iceberg.NestedField():
            return kind.model_copy(update={"field_type": _without_variants(kind.field_type)})
        case iceberg.ListType():
            return kind.model_copy(update={"element_type": _without_variants(kind.element_type)})
        case iceberg.MapType():
            return kind.model_copy(update={"value_type": _without_variants(kind.value_type)})
    return kind


def _filled(kind: iceberg.IcebergType, arrow: pa.DataType) -> pa.DataType:
    """Put the variants back into an Arrow type."""
    match kind:
        case VariantType():
            return VARIANT
        case iceberg.StructType():
            below = zip(kind.fields, (arrow.field(i) for i in range(arrow.num_fields)), strict=True)
            return pa.struct(
                [arrow_field.with_type(_filled(field.field_type, arrow_field.type)) for field, arrow_field in below]
            )
        case iceberg.ListType():
            return pa.large_list(arrow.value_field.with_type(_filled(kind.element_type, arrow.value_type)))
        case iceberg.MapType():
            return pa.map_(arrow.key_field, arrow.item_field.with_type(_filled(kind.value_type, arrow.item_type)))
    return arrow
