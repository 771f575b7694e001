"""Finds columns that are too narrow for a schema or a value, and that Iceberg can widen (`Wider`), at any depth.

Required columns are never widened: keys are required, and readers of older equality deletes would no longer match a
wider key.
"""

from __future__ import annotations

import struct
from functools import reduce
from typing import Any

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.node import Kind, Node, join
from calve.event.column_names import ELEMENT, VALUE
from calve.table.kinds import primitive, widest_type

__all__ = ["needed", "widened", "widest"]

_NOTHING = Node(Kind.NULL)


def widened(node: Node, kind: Any) -> Node:
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
    match primitive(kind).wider:
        case "long":
            return Node(Kind.LONG) if node.kind in (Kind.LONG, Kind.WIDE_LONG) else _NOTHING
        case "double":
            return node if node.kind is Kind.DOUBLE else _NOTHING
        case "digits":
            fits = node.kind is not Kind.DECIMAL or node.digits[1] != kind.scale or sum(node.digits) <= kind.precision
            return _NOTHING if fits else node
        case "":
            return _NOTHING


def widest(schema: Schema) -> Schema:
    """Return a schema in which each column that may be widened has its widest type."""
    return Schema(*_widest(schema.as_struct()).fields)


def needed(value: Any, kind: Any) -> Node:
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
    match primitive(kind).wider:
        case "long":
            return _NOTHING if -(2**31) <= value < 2**31 else Node(Kind.LONG)
        case "double":
            return _NOTHING if _is_float(value) else Node(Kind.DOUBLE)
        case "digits":
            digits = value.adjusted() + 1 if value else 0
            fits = digits <= kind.precision - kind.scale
            return _NOTHING if fits else Node(Kind.DECIMAL, digits=(digits, kind.scale))
        case "":
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
    return widest_type(kind)


def _is_float(value: float) -> bool:
    """Return whether a float holds a number, but for digits of a fraction."""
    try:
        (narrow,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return False
    return bool(narrow == value or not value.is_integer())
