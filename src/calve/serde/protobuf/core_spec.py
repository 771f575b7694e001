"""Describes the columns of a message to the compiled core, as texts (`core/src/protobuf/plan.rs` reads them)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from calve.serde.protobuf.descriptors import Enum
from calve.serde.protobuf.plan import MessageColumn

__all__ = ["message_spec"]

_BITS = (1 << 64) - 1


def message_spec(message: MessageColumn) -> list[str]:
    """Return the specification of a message's fields."""
    return list(_struct(message))


def _struct(column: MessageColumn) -> Iterator[str]:
    yield str(len(column.of))
    for field in column.of:
        yield from _field(field)


def _field(column: MessageColumn) -> Iterator[str]:
    yield from (str(column.number), str(column.oneof), *_missing(column), column.kind)
    if column.kind == "struct":
        yield from _struct(column)
    elif column.enum:
        yield from _enum(column.enum)
    else:
        for field in column.of:
            yield from _field(field)


def _missing(column: MessageColumn) -> tuple[str, ...]:
    if column.missing != "default":
        return (column.missing,)
    match column.default:
        case None:
            return ("empty",)
        case str() | bytes() as text:
            return "text", (text.encode() if isinstance(text, str) else text).hex()
        case float() as value:
            wide = column.kind == "double"
            return "number", str(int.from_bytes(struct.pack("<d" if wide else "<f", value), "little"))
        case value:
            return "number", str(int(value) & _BITS)


def _enum(enum: Enum) -> Iterator[str]:
    yield "1" if enum.is_closed else "0"
    yield str(len(enum.names))
    for number, name in enum.names.items():
        yield from (str(number), name)
