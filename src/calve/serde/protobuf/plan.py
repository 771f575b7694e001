"""Plans the columns of a message: which field becomes which column, and what a missing field means (decision 31)."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import pyarrow as pa

from calve.event.typed_schema import annotated
from calve.serde.protobuf.descriptors import Enum, MessageField, MessageType
from calve.serde.protobuf.schema import Schema
from calve.serde.protobuf.tokens import ProtoError

__all__ = ["SCALARS", "Default", "MessageColumn", "arrow_type", "plan", "with_text_timestamps"]

SCALARS: Mapping[str, pa.DataType] = {
    "double": pa.float64(), "float": pa.float32(), "bool": pa.bool_(), "string": pa.large_string(),
    "bytes": pa.large_binary(), "int32": pa.int32(), "sint32": pa.int32(), "sfixed32": pa.int32(),
    "uint32": pa.int64(), "fixed32": pa.int64(), "int64": pa.int64(), "sint64": pa.int64(), "sfixed64": pa.int64(),
    "uint64": pa.decimal128(20), "fixed64": pa.decimal128(20),
}  # fmt: skip
"""The scalar types, and types of Iceberg that hold all their values."""
_LEAVES = {"Timestamp": "timestamp", "Duration": "duration"}
_JSON = {"Struct": "json-struct", "Value": "json-value", "ListValue": "json-list"}
_WELL_KNOWN = "google.protobuf."
_TIMESTAMP = pa.timestamp("us", "UTC")
_DEEPEST = 64
_MOST = 10_000
"""Columns of a message, those of structs included. A table has at most 1,000."""
Default = int | float | bytes | str | bool | None


@dataclass(frozen=True)
class MessageColumn:
    """A field, an element of a list, or a key or value of a map, as a column.

    Attributes:
        name: The field's name.
        number: Its number on the wire.
        kind: A scalar type; `enum`; `struct`; `list`; `map`; `timestamp`, `timestamp-text` (the same as ISO 8601),
            `duration`; `json-struct`, `json-value`, `json-list` (JSON text); `wrapper` (a message around one scalar);
            `empty` (a message without fields, as the text `{}`).
        missing: What a message without the field has: `null`, the `default`, or it is an error (`required`).
        default: The value of `default`; of an enum its name.
        oneof: The fields of one oneof share a number; -1: none.
        of: The fields of a struct; the element of a list; key and value of a map; the scalar of a wrapper.
        enum: The type of an enum.
        doc: The comment at the field.
        tags: The registry's tags of the field.
        is_declared: Whether the schema says the `default`, which a new column then has, too.
        message: The full name of a struct's message.
    """

    name: str
    number: int
    kind: str
    missing: Literal["null", "default", "required"] = "null"
    default: Default = None
    oneof: int = -1
    of: tuple[MessageColumn, ...] = ()
    enum: Enum | None = field(default=None, repr=False)
    doc: str = field(default="", compare=False)
    tags: tuple[str, ...] = field(default=(), compare=False)
    is_declared: bool = field(default=False, compare=False)
    message: str = field(default="", compare=False)

    @cached_property
    def by_number(self) -> Mapping[int, MessageColumn]:
        """The fields of a struct by their numbers."""
        return {column.number: column for column in self.of}


def plan(schema: Schema, message: MessageType) -> MessageColumn:
    """Return the columns of a message as a struct.

    Raises:
        ProtoError: It has fields of types that have no columns: groups, messages that contain themselves. Or no fields.
    """
    planner = _Planner(schema)
    columns = planner.struct(message, (message.name,))
    if not columns.of:
        raise ProtoError(f"Message {message.name} has no fields")
    return columns


def arrow_type(column: MessageColumn) -> pa.DataType:
    """Return the Arrow type of a column's values."""
    match column.kind:
        case "struct":
            return pa.struct([_arrow_field(child) for child in column.of])
        case "list":
            return pa.large_list(arrow_type(column.of[0]))
        case "map":
            return pa.map_(*map(arrow_type, column.of))
        case "wrapper":
            return arrow_type(column.of[0])
        case "timestamp":
            return _TIMESTAMP
    return SCALARS.get(column.kind, pa.large_string())


def _arrow_field(column: MessageColumn) -> pa.Field:
    default = column.default if column.is_declared else None
    return annotated(column.name, arrow_type(column), column.doc, default, column.tags)


def with_text_timestamps(column: MessageColumn) -> MessageColumn:
    """Return columns that have all nine digits of timestamps, as texts; the same columns if there are no timestamps."""
    if column.kind == "timestamp":
        return replace(column, kind="timestamp-text")
    of = tuple(map(with_text_timestamps, column.of))
    return column if of == column.of else replace(column, of=of)


class _Planner:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._count = 0

    def struct(self, message: MessageType, path: tuple[str, ...]) -> MessageColumn:
        """Return a message's columns; `path` has the full names of the messages that it is in, itself the last."""
        if len(path) > _DEEPEST:
            raise ProtoError(f"Message {path[0]} is nested more than {_DEEPEST} levels deep")
        oneofs = {
            name: at for at, name in enumerate(dict.fromkeys(field.oneof for field in message.fields if field.oneof))
        }
        columns = tuple(self._field(field, message, oneofs.get(field.oneof, -1), path) for field in message.fields)
        return MessageColumn("", 0, "struct", of=columns, message=message.name)

    def _field(self, declared: MessageField, message: MessageType, oneof: int, path: tuple[str, ...]) -> MessageColumn:
        self._count += 1
        if self._count > _MOST:
            raise ProtoError(f"Message {path[0]} has more than {_MOST} columns")
        if declared.kind == "group":
            raise ProtoError(f"Field {declared.name} of message {message.name} is a group, which is not supported")
        value = self._value(declared.kind, message, path, declared.name)
        named = {"name": declared.name, "number": declared.number, "doc": declared.doc, "tags": declared.tags}
        if declared.key:
            key = replace(self._value(declared.key, message, path, "key"), name="key", number=1, missing="default")
            item = replace(value, name="value", number=2, missing="default")
            return MessageColumn(kind="map", of=(_zero(key), _zero(item)), **named)  # type: ignore[arg-type]
        if declared.label == "repeated":
            return MessageColumn(kind="list", of=(value,), **named)  # type: ignore[arg-type]
        column = replace(value, oneof=oneof, **named)  # type: ignore[arg-type]
        if declared.label == "required":
            return replace(column, missing="required")
        is_scalar = column.kind in SCALARS or column.kind == "enum"
        if is_scalar and declared.default is not None:
            default = _default(column.kind, declared.default)
            return replace(column, missing="default", default=default, is_declared=True)
        has_presence = not message.is_proto3 or declared.label or declared.oneof or not is_scalar
        return column if has_presence else _zero(replace(column, missing="default"))

    def _value(self, kind: str, scope: MessageType, path: tuple[str, ...], name: str) -> MessageColumn:
        if kind in SCALARS:
            return MessageColumn(name, 0, kind)
        resolved = self._schema.resolve(kind, scope.name)
        if isinstance(resolved, Enum):
            return MessageColumn(name, 0, "enum", enum=resolved)
        return self._message(resolved, scope, path, name)

    def _message(self, message: MessageType, scope: MessageType, path: tuple[str, ...], name: str) -> MessageColumn:
        well_known = message.name.removeprefix(_WELL_KNOWN) if message.name.startswith(_WELL_KNOWN) else ""
        if well_known in _LEAVES or well_known in _JSON:
            return MessageColumn(name, 0, (_LEAVES | _JSON)[well_known])
        if well_known.endswith("Value"):
            return MessageColumn(
                name, 0, "wrapper", of=(_zero(MessageColumn("value", 1, message.fields[0].kind, "default")),)
            )
        if message.name in path:
            raise ProtoError(
                f"Field {name} of message {scope.name} makes {message.name} contain itself, which has no columns"
            )
        inner = self.struct(message, (*path, message.name))
        return replace(inner, name=name) if inner.of else MessageColumn(name, 0, "empty")


def _zero(column: MessageColumn) -> MessageColumn:
    """Return a column with the default of its type; a missing message in a map is an empty one."""
    if column.enum:
        return replace(column, default=column.enum.values[0][0])
    zeros: dict[str, Default] = {"bool": False, "string": "", "bytes": b"", "double": 0.0, "float": 0.0}
    return replace(column, default=zeros.get(column.kind, 0 if column.kind in SCALARS else None))


def _default(kind: str, declared: int | float | bytes | str) -> Default:
    """Return the value that `[default = …]` means."""
    if kind == "bool":
        return declared == "true"
    if kind == "string" and isinstance(declared, bytes):
        return declared.decode("utf-8", "replace")
    if kind == "float":
        return _single(float(declared))
    return float(declared) if kind == "double" else declared


def _single(value: float) -> float:
    """Return the nearest value of 32 bits."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded
