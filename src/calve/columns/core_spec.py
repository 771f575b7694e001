"""Describes a table to the compiled core, as texts (`core/src/spec.rs` reads them)."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.fields import Fields
from calve.columns.options import ConvertOptions
from calve.event.column_names import folded
from calve.table.kinds import primitive

__all__ = ["table_spec"]

_SCALES = {"s": "0", "ms": "3", "us": "6", "ns": "9", "auto": "auto"}


def table_spec(schema: Schema, options: ConvertOptions) -> list[str]:
    """Return the specification of a table's columns; the schema may be empty."""
    return [
        *_names(options.fields),
        _flag(options.case_insensitive),
        _flag(options.look_for_unknown),
        *_fields(schema.as_struct(), options, is_top=True),
    ]


def _names(fields: Fields) -> Iterator[str]:
    for names in (fields.include, fields.exclude):
        yield str(len(names))
        yield from names


def _fields(kind: iceberg.StructType, options: ConvertOptions, is_top: bool = False) -> Iterator[str]:
    yield str(len(kind.fields))
    for field in kind.fields:
        yield field.name
        yield folded(field.name)
        may_lack = is_top and field.name in options.may_lack
        of_column = options.of_column(field.name) if is_top else options
        yield from _column(field.field_type, field.required, of_column, may_lack, is_top and _defers(field, options))


def _defers(field: iceberg.NestedField, options: ConvertOptions) -> bool:
    """Return whether a value that the core cannot convert affects only itself: it becomes null, or another value."""
    is_nulled = options.on_type_mismatch == "null" or field.name in options.declared
    return is_nulled and not field.required and isinstance(field.field_type, iceberg.PrimitiveType)


def _column(
    kind: iceberg.IcebergType, required: bool, options: ConvertOptions, may_lack: bool = False, defers: bool = False
) -> Iterator[str]:
    yield from map(_flag, (required, may_lack, defers))
    row = primitive(kind)
    match kind:
        case iceberg.StructType():
            yield "struct"
            yield from _fields(kind, options)
        case iceberg.ListType():
            yield "list"
            yield from _column(kind.element_type, kind.element_required, options)
        case iceberg.MapType():
            yield "map"
            yield from _column(kind.key_type, True, options)
            yield from _column(kind.value_type, kind.value_required, options)
        case iceberg.DecimalType():
            yield from (row.core, str(kind.precision), str(kind.scale))
        case iceberg.FixedType():
            yield from (row.core, str(len(kind)))
        case _ if row.json == "timestamp":
            digits = str(len(str(row.per_second)) - 1)
            yield from (row.core, digits, *_numbers(options), _flag(row.is_zoned or not options.local_times))
        case _:
            yield row.core


def _numbers(options: ConvertOptions) -> tuple[str, str]:
    """Return what numbers in timestamp columns count, and whether digits in texts are surely numbers."""
    return _SCALES[options.timestamp_unit or "ms"], _flag(
        bool(options.timestamp_unit) and not options.timestamp_formats
    )


def _flag(value: bool) -> str:
    return "1" if value else "0"
