"""Columns of the table's Arrow types, built from what the SELECT gave."""

from __future__ import annotations

import pyarrow as pa

from calve.convert.select import Leaf, Select
from calve.event import duck

__all__ = ["build_columns", "storage_type"]


def build_columns(select: Select, found: pa.Table, schema: pa.Schema) -> list[pa.Array]:
    """Give the columns of the table, structs built again from their fields."""
    return [_build(leaf, found, each.type) for leaf, each in zip(select.root.leaves, schema, strict=True)]


def _build(leaf: Leaf, found: pa.Table, kind: pa.DataType) -> pa.Array:
    column = duck.whole(found[leaf.column])
    if leaf.level is not None:
        children = [_build(inner, found, kind.field(i).type) for i, inner in enumerate(leaf.level.leaves)]
        fields = [kind.field(i) for i in range(kind.num_fields)]
        mask = pa.compute.invert(column)
        return _struct(children, fields, mask)
    if column.type == kind:
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), kind)
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(column.cast(kind.storage_type))
    return column.cast(kind)


def _struct(children: list[pa.Array], fields: list[pa.Field], mask: pa.Array) -> pa.Array:
    """Build a struct; a required field of an absent struct is null below, which Arrow allows only with a mask."""
    loose = [each.with_nullable(True) for each in fields]
    built = pa.StructArray.from_arrays(children, fields=loose, mask=mask)
    kind = pa.struct(fields)
    return pa.Array.from_buffers(kind, len(built), built.buffers()[:1], built.null_count, children=children)


def storage_type(kind: pa.DataType) -> pa.DataType:
    """Give the type that `pa.array` can build for a type: extension types as what they are stored in."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([kind.field(i).with_type(storage_type(kind.field(i).type)) for i in range(kind.num_fields)])
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(storage_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(storage_type(kind.key_type)),
            kind.item_field.with_type(storage_type(kind.item_type)),
        )
    return kind
