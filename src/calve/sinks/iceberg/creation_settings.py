"""Options of the Iceberg sink: tables and columns that Calve creates.

The module with Iceberg's types (`declared_types`) is imported only if a configuration has types or partitions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from calve.convert.date_formats import date_format
from calve.settings import option
from calve.sinks.iceberg.new_table import ObjectType, OverflowColumn, SchemaOf, TableSchema
from calve.sinks.iceberg.table_options import SORT_BY
from calve.sinks.settings import SinkSettings

if TYPE_CHECKING:
    from calve.columns.declared_types import ColumnTypes

__all__ = ["CreationSettings"]


@dataclass(frozen=True)
class CreationSettings(SinkSettings):
    """Which tables and columns Calve creates, and how."""

    auto_create: bool = option(
        False, "Create a missing table from `schema` or, without one, from the events of the first batch."
    )
    schema_evolution: bool = option(False, "Add a column for each new field.")
    on_dropped_column: Literal["keep", "optional", "drop"] | None = option(
        None,
        "What becomes of a column that a later version of the schema lacks, with `schema_evolution`: `optional`, rows "
        "without it are NULL; `keep`, it stays as it is, also if it is required; `drop`, it is removed with its values "
        "(copies of databases and Iceberg tables). Default: `optional` for these copies, otherwise `keep`.",
    )
    schema: TableSchema | None = option(
        None, "The schema of the table to create; only for a `table_identifier` without `${…}`."
    )
    schemas: list[SchemaOf] = option(
        [],
        "Schemas of tables that `auto_create` creates, by table name. The first entry whose `tables` matches is "
        "used. Tables without a match are created from events.",
    )
    column_types: dict[str, str] = option(
        {},
        "Types of columns that Calve creates, in new tables and by `schema_evolution`, e.g. `{total: "
        '"decimal(12,2)", "*_at": timestamptz, "items.element.price": double}`. Keys are dotted names or patterns '
        "with `*` and `?`; an exact name has priority, then the first matching pattern. A type may have a default "
        "(format version 3): `decimal(12,2) default 0.00`. Existing columns do not change.",
    )
    objects: ObjectType | dict[str, ObjectType] = option(
        "struct",
        "What objects become in new columns: `struct` (a column for each field), `map` (`map<string, string>`), "
        "`variant` (format version 3) or `string` (JSON); by dotted name or pattern, too: `{attributes: map, "
        '"*_json": variant}`, where the others are structs.',
    )
    max_columns: int = option(
        1_000, "Maximum number of columns, fields of structs included, that events give a table.", minimum=1
    )
    overflow: OverflowColumn | None = option(
        None,
        "A column for fields that have no column and get none. Default: with `schema_evolution` such an event is "
        "a dead letter; otherwise the fields are counted, and not written.",
    )
    infer_timestamps: bool = option(
        True,
        "Texts that are all ISO 8601 date-times become a `timestamptz`, without offsets a `timestamp`; false: text.",
    )
    timestamp_unit: Literal["s", "ms", "us", "ns", "auto"] | None = option(
        None,
        "The unit of numbers (since 1970) in timestamp columns, and of digits in texts; doubles are rounded to the "
        "column's digits. `auto`: seconds below 10^11, then ms below 10^14, us below 10^17, ns. Default: ms, no texts.",
    )
    timestamp_formats: list[str] = option(
        [],
        "Java date patterns, tried in order, for texts in timestamp and date columns that are not ISO 8601, e.g. "
        "`dd/MMM/yyyy:HH:mm:ss Z`. A text without an offset or a zone is in UTC.",
        check=lambda patterns: [date_format(pattern) for pattern in patterns],
    )
    partition_by: list[str] = option(
        [],
        'Partitions of tables that are created from events, e.g. `["day(ts)", "bucket(16, id)"]`. A column with a '
        "time transform becomes a `timestamptz`.",
    )
    sort_by: list[str] = option([], SORT_BY)
    table_properties: dict[str, str] = option({}, "Iceberg table properties of new tables.")
    table_location: str | None = option(None, "The location of a new table. Default: the catalog decides.", minimum=1)

    @property
    def inferred_types(self) -> ColumnTypes:
        """The types of columns that are created from events."""
        from calve.columns.declared_types import ColumnTypes

        objects = self.objects if isinstance(self.objects, dict) else {"*": self.objects}
        return ColumnTypes(self.column_types, self.infer_timestamps, objects)

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns of `schema` for `table.definition.schema_from_columns`; empty without a schema."""
        return [asdict(column) for column in self.schema.columns] if self.schema else []

    @property
    def partition_fields(self) -> list[Any]:
        """The partition spec of a new table for `table.definition.partition_spec_fields`: texts or maps."""
        spec = self.schema.partition_spec if self.schema else []
        return [asdict(field) for field in spec] or list(self.partition_by)
