"""What the compiled core is told of a table, as texts (`core/src/spec.rs` reads them)."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.convert.column_names import folded
from calve.convert.fields import Fields
from calve.convert.options import ConvertOptions

__all__ = ["table_spec"]

_SCALES = {"s": "0", "ms": "3", "us": "6", "ns": "9", "auto": "auto"}


def table_spec(schema: Schema, options: ConvertOptions) -> list[str]:
    """Return the specification of a table's columns, or of none at all."""
    return [
        *_names(options.fields),
        _flag(options.case_insensitive),
        *_fields(schema.as_struct(), options, options.may_lack),
    ]


def _names(fields: Fields) -> Iterator[str]:
    for names in (fields.include, fields.exclude):
        yield str(len(names))
        yield from names


def _fields(kind: iceberg.StructType, options: ConvertOptions, may_lack: frozenset[str]) -> Iterator[str]:
    yield str(len(kind.fields))
    for each in kind.fields:
        yield each.name
        yield folded(each.name)
        yield from _column(each.field_type, each.required, options, each.name in may_lack)


def _column(
    kind: iceberg.IcebergType, required: bool, options: ConvertOptions, may_lack: bool = False
) -> Iterator[str]:
    yield _flag(required)
    yield _flag(may_lack)
    match kind:
        case iceberg.StructType():
            yield "struct"
            yield from _fields(kind, options, frozenset())
        case iceberg.ListType():
            yield "list"
            yield from _column(kind.element_type, kind.element_required, options)
        case iceberg.MapType():
            yield "map"
            yield from _column(kind.key_type, True, options)
            yield from _column(kind.value_type, kind.value_required, options)
        case iceberg.DecimalType():
            yield from ("decimal", str(kind.precision), str(kind.scale))
        case iceberg.FixedType():
            yield from ("fixed", str(len(kind)))
        case iceberg.TimestampType() | iceberg.TimestamptzType():
            yield from ("timestamp", "6", _SCALES[options.timestamp_unit])
        case iceberg.TimestampNanoType() | iceberg.TimestamptzNanoType():
            yield from ("timestamp", "9", _SCALES[options.timestamp_unit])
        case _:
            yield str(kind)


def _flag(value: bool) -> str:
    return "1" if value else "0"
