"""Writes the default of a field, which a schema has as JSON, as a value in Avro's encoding."""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from typing import Any

from calve.event.reject import cut
from calve.serde.avro.schema import EXACT, NO_DEFAULT, Type
from calve.serde.format import UnsupportedSchemaError

__all__ = ["column_default", "encoded"]

_ERRORS = (KeyError, TypeError, ValueError, AttributeError, OverflowError, struct.error)


def encoded(kind: Type, default: Any) -> bytes:
    """Return the bytes of a default.

    Raises:
        UnsupportedSchemaError: The default is no value of its type.
    """
    try:
        return _value(kind, default)
    except _ERRORS:
        raise UnsupportedSchemaError(f"the default {cut(default)} is no {kind.short_name}") from None


def column_default(kind: Type, default: Any) -> Any:
    """Return a default as a value that Arrow takes for the type's column; None: the column has none."""
    if default is NO_DEFAULT or default is None:
        return None
    try:
        _value(kind, default)
    except _ERRORS:
        return None  # it is an error only where a record needs it
    if kind.kind == "union":
        branches = [branch for branch in kind.parts if branch.kind != "null"]
        return column_default(branches[0], default) if len(branches) == 1 else None
    if kind.logical == "decimal":
        unscaled = int.from_bytes(default.encode("latin-1"), "big", signed=True)
        return Decimal(unscaled).scaleb(-kind.digits[1], EXACT) if abs(unscaled) < 10 ** kind.digits[0] else None
    if kind.logical == "uuid":
        return uuid.UUID(default).bytes if kind.kind == "string" else default.encode("latin-1")
    if kind.logical == "duration" or kind.kind in ("array", "map", "record"):
        return None
    return default.encode("latin-1") if kind.kind in ("bytes", "fixed") else default


def _value(kind: Type, value: Any) -> bytes:
    match kind.kind:
        case "null" if value is None:
            return b""
        case "boolean" if isinstance(value, bool):
            return bytes([value])
        case "int" | "long" if isinstance(value, int) and not isinstance(value, bool):
            return _long(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "string":
            return _sized(value.encode())
        case "bytes":
            return _sized(value.encode("latin-1"))
        case "fixed" if len(value) == kind.size:
            return bytes(value.encode("latin-1"))
        case "enum":
            return _long(kind.symbols.index(value))
        case "array" if isinstance(value, list):
            return _block([_value(kind.parts[0], item) for item in value])
        case "map":
            return _block([_sized(key.encode()) + _value(kind.parts[0], item) for key, item in value.items()])
        case "record" if isinstance(value, dict):
            return b"".join(_value(item.type, _of(value, item.name, item.default)) for item in kind.fields)
        case "union":
            return _branch(kind, value)
    raise ValueError


def _branch(kind: Type, value: Any) -> bytes:
    """Write a default as the first branch that has such values."""
    for number, branch in enumerate(kind.parts):
        try:
            return _long(number) + _value(branch, value)
        except _ERRORS:
            continue
    raise ValueError


def _of(value: Any, name: str, default: Any) -> Any:
    field_value = value.get(name, default)
    if field_value is NO_DEFAULT:
        raise KeyError(name)
    return field_value


def _long(value: int) -> bytes:
    bits, out = (value << 1) ^ (value >> 63), bytearray()
    if not 0 <= bits < 1 << 64:
        raise ValueError
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    out.append(bits)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return _long(len(data)) + data


def _block(items: list[bytes]) -> bytes:
    return (_long(len(items)) + b"".join(items) if items else b"") + b"\0"
