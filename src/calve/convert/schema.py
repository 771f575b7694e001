"""Iceberg schemas with the one type that PyIceberg lacks: `variant` (Iceberg specification, version 3).

PyIceberg takes types that are objects already, so that a schema's JSON is read with `VariantType` put in where it says
`variant`; nothing of the library is changed.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field
from pyiceberg import types as iceberg
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

__all__ = ["METADATA", "VALUE", "VARIANT", "VariantType", "arrow_schema", "is_variant", "read_schema", "read_type"]

METADATA, VALUE = "metadata", "value"
"""The two parts of a variant, as Parquet calls them."""
VARIANT = pa.struct(
    [pa.field(METADATA, pa.large_binary(), nullable=False), pa.field(VALUE, pa.large_binary(), nullable=False)]
)
"""A variant in Arrow: no field ids inside (Iceberg specification, appendix A)."""


class VariantType(iceberg.PrimitiveType):
    """A variant. PyIceberg's visitors know leaves as primitives only; for Iceberg it is none, and no key."""

    root: Literal["variant"] = Field(default="variant")

    @property
    def is_primitive(self) -> bool:
        """Always false: a variant is neither a key nor divides or sorts rows."""
        return False

    def minimum_format_version(self) -> Literal[3]:
        """Give the first version of the format that has the type."""
        return 3


def read_schema(text: str) -> Schema:
    """Read a schema (Iceberg specification, appendix C).

    Raises:
        ValueError: It has a type that is not known.
    """
    return Schema.model_validate(_with_variants(json.loads(text)))


def read_type(kind: Any) -> iceberg.IcebergType:
    """Read a type from its JSON value, which only a field's parser reads.

    Raises:
        ValueError: The type is not known.
    """
    field = {"id": 1, "name": "field", "required": False, "type": _with_variants(kind)}
    return iceberg.NestedField.model_validate(field).field_type


def is_variant(schema: Schema, field_id: int) -> bool:
    """Say whether a field is a variant."""
    return isinstance(schema.find_type(field_id), VariantType)


def arrow_schema(schema: Schema) -> pa.Schema:
    """Give the Arrow schema of a table's rows, field ids in the metadata."""
    kind = schema.as_struct()
    plain = schema_to_pyarrow(Schema(*_without_variants(kind).fields))
    return pa.schema(
        [each.with_type(_filled(field.field_type, each.type)) for field, each in zip(kind.fields, plain, strict=True)]
    )


_IN_SCHEMAS = ("type", "element", "value", "key")


def _with_variants(data: Any) -> Any:
    """Put the type in where JSON names it: a field may have any name, but a type only follows these keys."""
    if isinstance(data, list):
        return [_with_variants(each) for each in data]
    if not isinstance(data, dict):
        return VariantType() if data == "variant" else data
    return {
        name: _with_variants(each) if name in _IN_SCHEMAS or name == "fields" else each for name, each in data.items()
    }


def _without_variants(kind: Any) -> Any:
    """Put `binary` in the place of each variant."""
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
            return pa.struct([each.with_type(_filled(field.field_type, each.type)) for field, each in below])
        case iceberg.ListType():
            return pa.large_list(arrow.value_field.with_type(_filled(kind.element_type, arrow.value_type)))
        case iceberg.MapType():
            return pa.map_(arrow.key_field, arrow.item_field.with_type(_filled(kind.value_type, arrow.item_type)))
    return arrow
