"""Finds columns that are too narrow for a schema or a value, and that Iceberg can widen.

Iceberg widens int to long, float to double, and the precision of a decimal, at any depth. Required columns are never
widened: keys are required, and readers of older equality deletes would no longer match a wider key.
"""

from __future__ import annotations

import struct
from functools import reduce
from typing import Any

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.node import Kind, Node, join
from calve.event.column_names import ELEMENT, VALUE

__all__ = ["needed", "widened", "widest"]

_NOTHING = Node(Kind.NULL)
_MOST_DIGITS = 38


def widened(node: Node, kind: iceberg.IcebergType) -> Node:
    """Return the fields of a node whose columns are too narrow, below `known` ones; `null` if there are none."""
    match kind:
        case iceberg.StructType() if node.kind not in (Kind.LIST, Kind.MAP):
            types = _optional(kind)
            return _known({name: widened(child, types[name]) for name, child in node.fields.items() if name in types})
        case iceberg.ListType() if ELEMENT in node.fields and node.kind is not Kind.STRUCT:
            return _known({ELEMENT: widened(node.fields[ELEMENT], kind.element_type)})
        case iceberg.MapType() if node.kind is not Kind.LIST:
            below = [node.fields[VALUE]] if node.kind is Kind.MAP else node.fields.values()
            values = (widened(child, kind.value_type) for child in below)
            return _known({VALUE: reduce(join, values, _NOTHING)})
        case iceberg.IntegerType() if node.kind in (Kind.LONG, Kind.WIDE_LONG):
            return Node(Kind.LONG)
        case iceberg.FloatType() if node.kind is Kind.DOUBLE:
            return node
        case iceberg.DecimalType(precision=precision, scale=scale) if node.kind is Kind.DECIMAL:
            return node if node.digits[1] == scale and sum(node.digits) > precision else _NOTHING
    return _NOTHING


def widest(schema: Schema) -> Schema:
    """Return a schema in which each column that may be widened has its widest type."""
    return Schema(*_widest(schema.as_struct()).fields)


def needed(value: Any, kind: iceberg.IcebergType) -> Node:
    """Return the fields of a typed value (of the widest schema) that need a wider type, as `widened` does."""
    if value is None:
        return _NOTHING
    match kind:
        case iceberg.StructType():
            types = _optional(kind)
            return _known({name: needed(child, types[name]) for name, child in value.items() if name in types})
        case iceberg.ListType():
            return _known({ELEMENT: reduce(join, (needed(child, kind.element_type) for child in value), _NOTHING)})
        case iceberg.MapType():
            values = (needed(child, kind.value_type) for _, child in value)
            return _known({VALUE: reduce(join, values, _NOTHING)})
        case iceberg.IntegerType() if not -(2**31) <= value < 2**31:
            return Node(Kind.LONG)
        case iceberg.FloatType() if not _is_float(value):
            return Node(Kind.DOUBLE)
        case iceberg.DecimalType(precision=precision, scale=scale):
            integer_digits = value.adjusted() + 1 if value else 0
            return (
                Node(Kind.DECIMAL, digits=(integer_digits, scale)) if integer_digits > precision - scale else _NOTHING
            )
    return _NOTHING


def _optional(kind: iceberg.StructType) -> dict[str, iceberg.IcebergType]:
    return {field.name: field.field_type for field in kind.fields if not field.required}


def _known(fields: dict[str, Node]) -> Node:
    narrow = {name: child for name, child in fields.items() if child.kind is not Kind.NULL}
    return Node(Kind.KNOWN, narrow) if narrow else _NOTHING


def _widest(kind: Any) -> Any:
    match kind:
        case iceberg.StructType():
            fields = [
                field if field.required else field.model_copy(update={"field_type": _widest(field.field_type)})
                for field in kind.fields
            ]
            return iceberg.StructType(*fields)
        case iceberg.ListType():
            return iceberg.ListType(kind.element_id, _widest(kind.element_type), kind.element_required)
        case iceberg.MapType():
            value = _widest(kind.value_type)
            return iceberg.MapType(kind.key_id, kind.key_type, kind.value_id, value, kind.value_required)
        case iceberg.IntegerType():
            return iceberg.LongType()
        case iceberg.FloatType():
            return iceberg.DoubleType()
        case iceberg.DecimalType(scale=scale):
            return iceberg.DecimalType(_MOST_DIGITS, scale)
    return kind


def _is_float(value: float) -> bool:
    """Return whether a float holds a number, but for digits of a fraction."""
    try:
        (narrow,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return False
    return bool(narrow == value or not value.is_integer())
