"""Declares the fields of typed rows, from their columns; metadata may have a description and a default."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from calve.event.envelope.schema import Field, text_of
from calve.event.json_text import value_texts

__all__ = ["annotated", "declaration", "described", "has_default", "without_empty_nanoseconds"]

_DOC, _DEFAULT, _TAGS = b"doc", b"default", b"tags"
"""The keys of a field's description, default and tags (JSON) in its Arrow metadata."""

_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_UNSIGNED_DIGITS = 20
_INT_BITS = 32


@functools.lru_cache(64)
def declaration(schema: pa.Schema) -> str:
    """Return the text for the column `_schema` of rows with these columns, without descriptions and defaults."""
    return text_of(_bare(_field("", pa.struct(list(schema)))))


def described(kind: pa.StructType) -> str:
    """Return the text for the column `_schema` of these rows, with the descriptions and defaults of their fields."""
    return text_of(_field("", kind))


def annotated(name: str, kind: pa.DataType, doc: str, default: Any = None, tags: Sequence[str] = ()) -> pa.Field:
    """Return a field with its description and tags, if there are any, and its default: a value of its type, or None."""
    metadata = ({_DOC: doc} if doc else {}) | ({_TAGS: json.dumps(tags)} if tags else {})
    if default is not None and not pa.types.is_nested(kind):
        text = value_texts(pa.array([default], kind))[0].as_py()
        metadata[_DEFAULT] = json.loads(text) if text.startswith(b'"') else text
    return pa.field(name, kind, metadata=metadata or None)


def has_default(field: pa.Field) -> bool:
    """Return whether `annotated` gave a default to a field."""
    return _DEFAULT in (field.metadata or {})


def _bare(field: Field) -> Field:
    return replace(field, doc="", default=None, fields=tuple(map(_bare, field.fields)))


def without_empty_nanoseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert each column of nanosecond timestamps that are all whole microseconds to microseconds."""
    for index, field in enumerate(batch.schema):
        kind = _micros(field.type)
        if kind != field.type:
            try:
                batch = batch.set_column(index, field.name, batch.column(index).cast(kind))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
    return batch


def _micros(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_micros(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _micros(kind.item_type))
    return pa.list_(_micros(kind.value_type)) if pa.types.is_list(kind) else kind


def _field(name: str, kind: pa.DataType) -> Field:
    if isinstance(kind, pa.BaseExtensionType):
        return Field(name, "uuid") if kind.extension_name == "arrow.uuid" else _field(name, kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _field(name, kind.value_type)
    if pa.types.is_struct(kind):
        return Field(name, "struct", fields=tuple(map(_described, kind)))
    if pa.types.is_map(kind):
        parts = _field("", kind.item_type), _field("", kind.key_type)
        return Field(name, "map", fields=parts, pairs=pa.types.is_nested(kind.key_type))
    if _is_one(kind, _LISTS):
        return Field(name, "array", fields=(_field("", kind.value_type),))
    return _number(name, kind) or Field(name, _kind(kind), precision=_length(kind))


def _described(field: pa.Field) -> Field:
    metadata = field.metadata or {}
    default = metadata[_DEFAULT].decode() if _DEFAULT in metadata else None
    doc, tags = metadata.get(_DOC, b"").decode(), tuple(json.loads(metadata.get(_TAGS, b"[]")))
    return replace(_field(field.name, field.type), doc=doc, default=default, tags=tags)


def _number(name: str, kind: pa.DataType) -> Field | None:
    if pa.types.is_decimal(kind):
        return Field(name, "decimal", scale=kind.scale, precision=kind.precision)
    if kind == pa.uint64():
        return Field(name, "decimal", precision=_UNSIGNED_DIGITS)
    if pa.types.is_integer(kind):
        bits = kind.bit_width + pa.types.is_unsigned_integer(kind)
        return Field(name, "int32" if bits <= _INT_BITS else "int64")
    if pa.types.is_floating(kind):
        return Field(name, "double" if pa.types.is_float64(kind) else "float")
    return None


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return "timestamptz" if kind.tz else "timestamp"
    if _is_one(kind, _BINARIES):
        return "fixed" if _length(kind) else "bytes"
    return "null" if pa.types.is_null(kind) else "string"


def _length(kind: pa.DataType) -> int:
    return int(kind.byte_width) if pa.types.is_fixed_size_binary(kind) else 0


def _is_one(kind: pa.DataType, tests: tuple[object, ...]) -> bool:
    return any(test(kind) for test in tests)  # type: ignore[operator]
