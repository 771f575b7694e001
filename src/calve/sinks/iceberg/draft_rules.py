"""What the settings say of tables that are created from events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from calve.columns.declared_types import ColumnTypes
from calve.columns.evolve import is_contended
from calve.columns.infer import Inferred
from calve.errors import CalveError
from calve.event.column_names import COLUMN_LIMIT
from calve.reduce.key import identified
from calve.sinks.iceberg.inferred import fitted
from calve.sinks.iceberg.metadata_columns import NONE, MetadataColumns
from calve.table.defaults import DEFAULTS_SINCE, without_defaults
from calve.table.loaded import INFERRED, Table
from calve.table.schema import read_schema

if TYPE_CHECKING:
    from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["DraftRules"]

_UNPARTITIONED = '{"spec-id":0,"fields":[]}'


@dataclass(frozen=True)
class DraftRules:
    """What the settings say of tables that are created from events.

    Attributes:
        types: The declared types of columns.
        case_insensitive: Whether fields that differ by case only share a column.
        key_columns: The key.
        partition_fields: The partitions.
        event_time: The column that is the event time.
        metadata: The columns that get metadata.
        declared: Patterns of tables whose columns are declared.
        evolves: Whether events with a field that cannot become a column are rejected.
        has_defaults: Whether new columns have defaults.
        column_limit: The most columns that events give a table.
    """

    types: ColumnTypes = field(default_factory=ColumnTypes)
    case_insensitive: bool = False
    key_columns: tuple[str, ...] = ()
    partition_fields: tuple[object, ...] = ()
    event_time: str | None = None
    metadata: MetadataColumns = NONE
    declared: tuple[str, ...] = ()
    evolves: bool = False
    has_defaults: bool = False
    column_limit: int = COLUMN_LIMIT

    @staticmethod
    def of(settings: IcebergSettings, metadata: MetadataColumns) -> DraftRules:
        """Return the rules of a sink."""
        return DraftRules(
            settings.inferred_types,
            settings.case_insensitive,
            tuple(settings.key_columns),
            tuple(settings.partition_by),
            settings.event_time,
            metadata,
            tuple(schema.tables for schema in settings.schemas),
            settings.schema_evolution,
            int(settings.table_properties.get("format-version", 2)) >= DEFAULTS_SINCE,
            settings.max_columns,
        )

    def schema(self, inferred: Inferred) -> Schema:
        """Return the columns of a new table, with defaults if its version has them; none without values."""
        schema = inferred.to_schema(self.column_limit, self.types, self.case_insensitive)
        if self.has_defaults:
            return schema
        return read_schema(json.dumps(without_defaults(json.loads(schema.model_dump_json()))))

    @property
    def overflow(self) -> str:
        """The column of fields that get none; empty: there is none."""
        return self.metadata.overflow[0] if self.metadata.overflow else ""

    @property
    def may_reject(self) -> bool:
        """Whether an event can be rejected although its fields have the columns that were inferred from them."""
        return bool(self.types.types or self.key_columns or self.partition_fields or self.event_time)

    def with_key(self, columns: Sequence[str]) -> DraftRules:
        """Return the rules for a table with another key."""
        return replace(self, key_columns=tuple(columns))

    def identified(self, schema: Schema) -> Schema:
        """Return the schema of a new table with the key as its identifier fields.

        Raises:
            SchemaConflictError: It lacks a column of the key, or one cannot be in a key.
        """
        return identified(schema, self.key_columns) if self.key_columns else schema

    def is_declared(self, name: str) -> bool:
        """Return whether events do not decide the columns of a table."""
        return any(fnmatchcase(name, pattern) for pattern in self.declared)

    def is_contended(self, inferred: Inferred) -> bool:
        """Return whether fields compete for a name or a place."""
        return is_contended(inferred.root, self.types, self.case_insensitive, self.column_limit)

    def contended(self, name: str, inferred: Inferred) -> Table | None:
        """Return the draft of a table whose fields compete, so that not all of their events can be written."""
        return self.draft(name, inferred) if self.evolves and self.is_contended(inferred) else None

    def draft(self, name: str, inferred: Inferred) -> Table | None:
        """Return the table with columns for all fields; None if it cannot be created."""
        schema = self.schema(inferred)
        if not schema.fields:
            return None
        schema = self.metadata.complete(schema)
        missing = [key for key in self.key_columns if "." not in key and key not in schema.column_names]
        ids = range(schema.highest_field_id + 1, 2**31)
        fields = [
            NestedField(number, key, StringType(), required=False) for number, key in zip(ids, missing, strict=False)
        ]
        try:
            schema = fitted(Schema(*schema.fields, *fields), self, self.types)
            schema = self.identified(schema)
        except CalveError:
            return None
        marks = {} if inferred.is_declared else INFERRED
        return Table(name, "", "", schema.model_dump_json(), _UNPARTITIONED, properties=dict(marks))
