"""Joins rows whose schemas differ: the versions of a topic's schema meet in one batch, in the order of the events."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

__all__ = ["joined", "unified"]

_WIDER = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}
"""Iceberg's promotions of numbers; each keeps every value."""


def joined(rows: Sequence[pa.Array]) -> pa.Array | None:
    """Return the rows of several types one after another; a field that a row's type lacks is null.

    None: two types have a field in common whose types no type holds.
    """
    kind: pa.DataType | None = rows[0].type
    for each in rows[1:]:
        kind = None if kind is None else unified(kind, each.type)
    return None if kind is None else pa.concat_arrays([each if each.type == kind else each.cast(kind) for each in rows])


def unified(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type that has all fields and values of two types; None if there is none."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if (one, other) in _WIDER or (other, one) in _WIDER:
        return max(one, other, key=lambda kind: kind.bit_width)
    if pa.types.is_decimal128(one) and pa.types.is_decimal128(other) and one.scale == other.scale:
        return max(one, other, key=lambda kind: kind.precision)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return _struct(one, other)
    if pa.types.is_large_list(one) and pa.types.is_large_list(other):
        element = unified(one.value_type, other.value_type)
        return None if element is None else pa.large_list(one.value_field.with_type(element))
    if pa.types.is_map(one) and pa.types.is_map(other) and one.key_type == other.key_type:
        value = unified(one.item_type, other.item_type)
        return None if value is None else pa.map_(one.key_field, one.item_field.with_type(value))
    return None


def _struct(one: pa.StructType, other: pa.StructType) -> pa.StructType | None:
    fields = {field.name: field for field in one}
    for field in other:
        known = fields.get(field.name)
        kind = field.type if known is None else unified(known.type, field.type)
        if kind is None:
            return None
        fields[field.name] = (known or field).with_type(kind)
    return pa.struct(list(fields.values()))
