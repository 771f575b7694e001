"""Columns that get the metadata of events instead of their fields (`metadata_columns`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.evolve import Evolution, NewColumn
from calve.event.column_names import folded
from calve.table.kinds import OTHER, by_arrow

__all__ = ["NONE", "BatchMetadata", "MetadataColumns"]

_OF_BATCH = {"ingestion_time": pa.timestamp("us", tz="UTC"), "batch": pa.int64()}
"""The types of `settings.OF_BATCH`."""
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
    """

    attributes: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)

    def complete(self, schema: Schema) -> Schema:
        """Return a schema with the columns that it lacks, all optional; without columns that differ by case only."""
        folds = {folded(name) for name in self.attributes}
        kept = [field for field in schema.fields if field.name in self.attributes or folded(field.name) not in folds]
        highest, names = schema.highest_field_id, {field.name for field in kept}
        new = [name for name in self.attributes if name not in names]
        fields = [
            iceberg.NestedField(highest + number, name, self._type(name), required=False)
            for number, name in enumerate(new, 1)
        ]
        return Schema(*kept, *fields, identifier_field_ids=schema.identifier_field_ids) if new else schema

    def lacking(self, schema: Schema) -> Evolution:
        """Return the columns to add to an existing table."""
        names = {field.name for field in schema.fields}
        return Evolution([NewColumn((), name, str(self._type(name))) for name in self.attributes if name not in names])

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
        return None

    def _type(self, column: str) -> iceberg.IcebergType:
        kind = {**self.kinds, **_OF_BATCH}.get(self.attributes[column])
        row = by_arrow(kind)
        return iceberg.StringType() if row is OTHER else row.kind()


NONE = MetadataColumns()
