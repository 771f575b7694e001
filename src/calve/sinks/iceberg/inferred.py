"""Columns that were inferred: those that must be times, and those that are strings for a reason worth telling."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from calve.convert.column_types import ColumnTypes
from calve.convert.definition import partition_spec_fields
from calve.convert.evolve import unclear
from calve.convert.infer import Inferred
from calve.convert.node import Kind
from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["unclear_columns", "with_moments"]

_WHY_TEXT = {
    Kind.DIGITS: ("as a double or long does not keep all digits of the numbers", '"decimal(38,9)"'),
    Kind.MIXED: ("as their values are of several types", "double"),
    Kind.NANOS: ("as their date-times are finer than microseconds", "timestamptz_ns"),
}
"""Why a column is a string although its values are no plain texts, and what type it may have instead."""


def unclear_columns(table: str, inferred: Inferred, types: ColumnTypes) -> Iterator[str]:
    """Yield sentences on new columns that are strings although their values are no plain texts, with the way out."""
    found: dict[Kind, list[str]] = {}
    for column, kind in unclear(inferred.root, types):
        found.setdefault(kind, []).append(column)
    for kind, columns in found.items():
        names = ", ".join(columns[:5]) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
        why, better = _WHY_TEXT[kind]
        way_out = f"column_types: {{{columns[0]}: {better}}} gives a column that is created another type"
        yield f"these columns of the table {table} are strings, {why}: {names}. {way_out}"


def with_moments(schema: Schema, settings: IcebergSettings) -> Schema:
    """Make timestamps of inferred columns that must be times: JSON has texts and numbers only."""
    partitions = partition_spec_fields(settings.partition_fields)
    moments = {column for column, transform in partitions if transform in ("year", "month", "day", "hour")}
    return Schema(*(_as_moment(field, {*moments, settings.event_time}) for field in schema.fields))


def _as_moment(field: NestedField, moments: set[str | None]) -> NestedField:
    if field.name in moments and isinstance(field.field_type, (StringType, LongType)):
        return field.model_copy(update={"field_type": TimestamptzType()})
    return field
