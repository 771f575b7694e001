"""Fits inferred columns to the settings, and explains which of them are strings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    UnknownType,
)

from calve.columns.declared_types import ColumnTypes
from calve.columns.evolve import Evolution, unclear
from calve.columns.infer import Inferred
from calve.columns.node import Kind
from calve.event.column_names import PLAIN
from calve.event.envelope.shape import WRAPPED
from calve.observe.humanize import listed
from calve.table.definition import partition_spec_fields
from calve.table.kinds import Limit, primitive
from calve.table.loaded import Table

__all__ = ["NewTableSettings", "absent_partitions", "changes", "fitted", "unclear_columns"]

_TIMES = ("year", "month", "day", "hour")

_WHY_TEXT = {
    Kind.DIGITS: ("as a double or long does not keep all digits of the numbers", '"decimal(38,9)"', ""),
    Kind.MIXED: ("as their values are of several types", "double", "; values of other types do not fit it"),
    Kind.ZONES: ("as some of their date-times have an offset and some have none", "timestamptz", ""),
    Kind.NANOS: (
        "as their date-times are finer than microseconds",
        "timestamptz_ns",
        " in a table of format version 3",
    ),
}
"""Why a column is a string although its values are not plain texts, a possible other type, and what it needs."""
_NO_DEFAULT = {"initial_default": None, "write_default": None}
"""Of a column with another type than its schema's."""
_MIXED_KEY = "long"
"""The possible other type of such a column in the key or a partition: a double cannot be there."""


def changes(table: Table, evolution: Evolution) -> Iterator[str]:
    """Yield sentences about the changes to a table's columns."""
    if evolution.add:
        names = listed([".".join((*column.path, column.name)) for column in evolution.add], 5)
        yield f"added to the table {table.identifier}: {names}"
    for name, kind in evolution.widen:
        yield f"the column {name} of the table {table.identifier} is now of type {kind}"
    for name in evolution.free:
        yield f"the column {name} of the table {table.identifier} is optional now: the schema of events lacks it"


def unclear_columns(table: Table, inferred: Inferred, types: ColumnTypes) -> Iterator[str]:
    """Yield sentences about new columns that are probably not what is wanted, with a hint."""
    if inferred.is_wrapped:
        yield f"the events of the table {table.identifier} consist of schema and payload: {WRAPPED}"
    strings: dict[Kind, list[str]] = {}
    for column, kind in unclear(inferred.root, types):
        if isinstance(_type_of(table.schema, column), StringType):
            strings.setdefault(kind, []).append(column)
    keys = {table.schema.find_column_name(number) for number in _key_ids(table)}
    for kind, columns in strings.items():
        why, better, needs = _WHY_TEXT[kind]
        better = _MIXED_KEY if kind is Kind.MIXED and columns[0] in keys else better
        column = columns[0] if PLAIN(columns[0]) else json.dumps(columns[0], ensure_ascii=False)
        hint = f"column_types: {{{column}: {better}}} sets the type of a new column{needs}"
        yield f"these columns of the table {table.identifier} are strings, {why}: {listed(columns, 5)}. {hint}"


def _type_of(schema: Schema, column: str) -> IcebergType | None:
    return schema.find_type(column) if column in schema.column_names else None


def _key_ids(table: Table) -> set[int]:
    """Return the fields of the key and of the partitions."""
    return {*table.schema.identifier_field_ids, *(field.source_id for field in table.spec.fields)}


class NewTableSettings(Protocol):
    """What the settings say of tables that are created from events."""

    @property
    def partition_fields(self) -> Sequence[Any]:
        """The partitions."""

    @property
    def event_time(self) -> str | None:
        """The column that is the event time."""

    @property
    def key_columns(self) -> Sequence[str]:
        """The key."""


def fitted(schema: Schema, settings: NewTableSettings, types: ColumnTypes) -> Schema:
    """Return inferred columns that can be the settings' partitions, event time and key, whatever the first events have.

    A column with a time partition, or the event time, becomes a timestamptz. A column that cannot be partitioned or
    be a key, such as a double, becomes a string. Partition columns that no event has are added. Columns of
    `column_types` stay as they are.

    Args:
        schema: The inferred columns.
        settings: The sink's settings.
        types: The types of columns in the settings.
    """
    partitions: dict[str, list[str]] = {}
    for name, transform in partition_spec_fields(settings.partition_fields):
        partitions.setdefault(name, []).append(transform)
    fields = []
    for field in schema.fields:
        kind = _fitted(field, partitions.get(field.name, []), settings) if types.of([field.name]) is None else None
        fields.append(field.model_copy(update={"field_type": kind, **_NO_DEFAULT}) if kind else field)
    highest = schema.highest_field_id
    for name in absent_partitions(schema, settings):
        highest += 1
        new = NestedField(highest, name, types.of([name]) or UnknownType(), required=False)
        kind = _fitted(new, partitions[name], settings)
        fields.append(new.model_copy(update={"field_type": kind}) if kind else new)
    return Schema(*fields)


def absent_partitions(schema: Schema, settings: NewTableSettings) -> list[str]:
    """Return the columns of `partition_by` that inferred columns lack: `fitted` adds them."""
    names = dict.fromkeys(name for name, _ in partition_spec_fields(settings.partition_fields))
    return [name for name in names if "." not in name and name not in schema.column_names]


def _fitted(field: NestedField, transforms: list[str], settings: NewTableSettings) -> IcebergType | None:
    """Return the type that a column must have, or None to keep its own."""
    kind = field.field_type
    if field.name == settings.event_time and isinstance(kind, (StringType, LongType)):
        return TimestamptzType()
    if impossible := [transform for transform in transforms if not _can(transform, kind)]:
        return TimestamptzType() if set(impossible) & set(_TIMES) else StringType()
    if field.name in settings.key_columns and (Limit.NO_KEY in primitive(kind).limits or not kind.is_primitive):
        return StringType()
    return None


def _can(transform: str, kind: IcebergType) -> bool:
    is_null = Limit.ALWAYS_NULL in primitive(kind).limits
    return kind.is_primitive and not is_null and parse_transform(transform).can_transform(kind)
