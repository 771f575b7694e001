"""Joins rows whose schemas differ: the versions of a topic's schema meet in one batch, in the order of the events."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from calve.event.typed_schema import has_default

__all__ = ["joined", "unified"]

_WIDER = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
"""Iceberg's promotions of numbers; each keeps every value."""


def joined(rows: Sequence[pa.Array]) -> pa.Array | None:
    """Return the rows of several types one after another; a field that a row's type lacks is null.

    None: two types have a field in common whose types no type holds.
    """
    kind: pa.DataType | None = rows[0].type
    for array in rows[1:]:
        kind = None if kind is None else unified(kind, array.type)
    return (
        None
        if kind is None
        else pa.concat_arrays([array if array.type == kind else array.cast(kind) for array in rows])
    )


def unified(first: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type that has all fields and values of two types; None if there is none."""
    if first == other or pa.types.is_null(other):
        return first
    if pa.types.is_null(first):
        return other
    if (first, other) in _WIDER or (other, first) in _WIDER:
        return max(first, other, key=lambda kind: kind.bit_width)
    if pa.types.is_decimal128(first) and pa.types.is_decimal128(other) and first.scale == other.scale:
        return max(first, other, key=lambda kind: kind.precision)
    if pa.types.is_struct(first) and pa.types.is_struct(other):
        return _struct(first, other)
    if pa.types.is_large_list(first) and pa.types.is_large_list(other):
        element = unified(first.value_type, other.value_type)
        return None if element is None else pa.large_list(first.value_field.with_type(element))
    if pa.types.is_map(first) and pa.types.is_map(other) and first.key_type == other.key_type:
        value = unified(first.item_type, other.item_type)
        return None if value is None else pa.map_(first.key_field, first.item_field.with_type(value))
    return None


def _struct(first: pa.StructType, other: pa.StructType) -> pa.StructType | None:
    fields = {field.name: field for field in first}
    if any(has_default(field) for field in first if other.get_field_index(field.name) < 0):
        return None  # a null would hide that the row lacks the field
    for field in other:
        field_before = fields.get(field.name)
        kind = field.type if field_before is None else unified(field_before.type, field.type)
        if field_before is None and has_default(field):
            return None
        if kind is None:
            return None
        fields[field.name] = (field_before or field).with_type(kind)
    return pa.struct(list(fields.values()))
