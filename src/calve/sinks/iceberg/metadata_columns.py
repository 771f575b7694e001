"""Columns that get the metadata of events instead of their fields (`metadata_columns`)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.declared_types import OBJECTS
from calve.columns.evolve import Evolution, NewColumn
from calve.event.column_names import folded
from calve.table.kinds import OTHER, by_arrow
from calve.table.type_text import declared

__all__ = ["NONE", "BatchMetadata", "MetadataColumns"]

_OF_BATCH = {"ingestion_time": pa.timestamp("us", tz="UTC"), "batch": pa.int64()}
"""The types of `contradictions.OF_BATCH`."""
_ALSO: dict[iceberg.IcebergType, iceberg.IcebergType] = {
    iceberg.IntegerType(): iceberg.LongType(),
    iceberg.TimestamptzType(): iceberg.TimestampType(),
}
"""Another type that a column may have; every column may be a string."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class BatchMetadata:
    """The attributes that all events of a batch share. They are in the ledger, so a replay has the same.

    Attributes:
        batch: The number of the batch.
        time_tenths: Its time, in tenths of a second since the epoch.
    """

    batch: int = 0
    time_tenths: int = 0

    def add_to(self, events: pa.Table, attributes: frozenset[str]) -> pa.Table:
        """Append the requested attributes (`_OF_BATCH`) as columns."""
        values = {"ingestion_time": _EPOCH + timedelta(seconds=self.time_tenths / 10), "batch": self.batch}
        for name in sorted(attributes & _OF_BATCH.keys()):
            events = events.append_column(name, pa.repeat(pa.scalar(values[name], _OF_BATCH[name]), len(events)))
        return events


@dataclass(frozen=True)
class MetadataColumns:
    """The metadata columns of a sink's tables.

    Attributes:
        attributes: The attribute of each column.
        kinds: The Arrow types of the attributes.
        overflow: The name and type of the column for fields that have none; empty: there is none.
    """

    attributes: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)
    overflow: tuple[str, str] | tuple[()] = ()

    @property
    def names(self) -> list[str]:
        """The names of all columns that are no fields of events."""
        return [*self.attributes, *self.overflow[:1]]

    def complete(self, schema: Schema) -> Schema:
        """Return a schema with the columns that it lacks, all optional; without columns that differ by case only."""
        folds = {folded(name) for name in self.names}
        kept = [field for field in schema.fields if field.name in self.attributes or folded(field.name) not in folds]
        names = {field.name for field in kept}
        new = [name for name in self.names if name not in names]
        next_id = itertools.count(schema.highest_field_id + 1).__next__
        fields = [iceberg.NestedField(next_id(), name, self._type(name, next_id), required=False) for name in new]
        return Schema(*kept, *fields, identifier_field_ids=schema.identifier_field_ids) if new else schema

    def lacking(self, schema: Schema) -> Evolution:
        """Return the columns to add to an existing table."""
        names = {field.name for field in schema.fields}
        new = {name: self._type(name) for name in self.names if name not in names}
        return Evolution([NewColumn((), name, json.loads(kind.model_dump_json())) for name, kind in new.items()])

    def fault(self, schema: Schema) -> str | None:
        """Return why the columns of a table cannot get their metadata; None if they can."""
        columns = {field.name: field for field in schema.fields}
        for name, attribute in self.attributes.items():
            column, kind = columns.get(name), self._type(name)
            if column is None:
                return f"it has no column {name} for the metadata {attribute}"
            if column.field_type not in (kind, _ALSO.get(kind), iceberg.StringType()):
                return f"its column {name} is a {column.field_type}, and the metadata {attribute} a {kind}"
            if column.required and attribute not in _OF_BATCH:
                return f"its column {name} is required, and an event may lack the metadata {attribute}"
        return self._overflow_fault(columns)

    def _overflow_fault(self, columns: Mapping[str, iceberg.NestedField]) -> str | None:
        if not self.overflow:
            return None
        name, word = self.overflow
        kind = columns[name].field_type if name in columns else None
        expected = self._type(name)
        if kind is None:
            return f"it has no column {name} for overflow; set schema_evolution: true, or add a {expected}"
        if type(kind) is not type(expected) or (isinstance(kind, iceberg.MapType) and str(kind) != str(expected)):
            return f"its column {name} is a {kind}, and overflow.type: {word} needs a {expected}"
        return f"its column {name} is required, and has no values of most events" if columns[name].required else None

    def _type(self, column: str, next_id: Callable[[], int] | None = None) -> iceberg.IcebergType:
        if column not in self.attributes:
            return declared(OBJECTS[self.overflow[1]], next_id)[0]  # type: ignore[misc]
        kind = {**self.kinds, **_OF_BATCH}.get(self.attributes[column])
        row = by_arrow(kind)
        return iceberg.StringType() if row is OTHER else row.kind()


NONE = MetadataColumns()
