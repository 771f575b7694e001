"""The options of the Iceberg sink: the keys of Data Prepper's RFC, and Calve's own.

The module with Iceberg's types (`declared`) is imported only if a configuration has types or partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from calve.convert.date_formats import date_format
from calve.dead_letters.settings import prefix
from calve.expression import compile_format
from calve.route.by_table import ByTable
from calve.settings import Size, option
from calve.settings.catalog import catalog_doubts, catalog_folder, shown_catalog
from calve.sinks.iceberg.contradictions import contradictions, source_faults, unused_tables
from calve.sinks.iceberg.letters import DeadLetters
from calve.sinks.iceberg.maintenance import Maintenance
from calve.sinks.iceberg.new_table import ObjectType, OverflowColumn, SchemaOf, TableSchema
from calve.sinks.iceberg.table_options import (
    FROM_KEY,
    RECORD_KEY,
    SORT_BY,
    TableOptions,
    check_branch,
    check_key,
    check_table_name,
)
from calve.sinks.settings import SinkSettings
from calve.table.limits import DEFAULTS, MaintenanceLimits

if TYPE_CHECKING:
    import pyarrow as pa

    from calve.columns.declared_types import ColumnTypes

__all__ = ["IcebergSettings"]

_JOINED = re.compile(r"""([^$]|\$(?!\{)|\$\{\s*getMetadata\(\s*"[^"/]+"\s*\)\s*\})*""")
"""A name that only joins texts and metadata."""


@dataclass(frozen=True)
class IcebergSettings(SinkSettings):
    """Writes events to Apache Iceberg tables, each exactly once."""

    has_tables = True

    table_identifier: str = option(
        doc="The table, as `namespace.table`. With `${…}` (`logs.${/kind}`) each event selects its table.",
        check=check_table_name,
    )
    catalog: dict[str, str] | None = option(
        None,
        "Iceberg's catalog properties: `type` or `catalog-impl`, `uri`, `warehouse` and so on, and `name` (default "
        "`iceberg`). Default: the embedded catalog in `./lakehouse`.",
        secret=True,
        check=catalog_doubts,
    )
    operation: str | None = option(
        None,
        "The operation of each event, e.g. `${/op}`. `index`, `insert`, `create`, `c`, `i`, `r` or an empty value "
        "insert; `update`, `u` update; `delete`, `d` delete; in any case. Default: every event is inserted.",
        check=compile_format,
    )
    identifier_columns: list[str] | Literal["from_key"] = option(
        [],
        "The key of a row for updates and deletes; nested fields are dotted. Default: the table's identifier fields. "
        "A new table gets these columns as its identifier fields. `from_key`: those of the key of Kafka's records.",
        check=check_key,
    )
    key_column: str = option(
        RECORD_KEY, "With `from_key`: the column for a key that is a single value, not an object.", minimum=1
    )
    upsert: bool = option(False, "An INSERT replaces an existing row with the same key.")
    write_mode: Literal["equality-delete", "merge-on-read", "copy-on-write"] = option(
        "merge-on-read",
        "How older rows are removed: by position (position deletes, or deletion vectors on format version 3), by "
        "equality deletes, or by rewriting their files. May be changed at any time.",
    )
    key_index: Literal["auto", "never"] = option(
        "auto",
        "How a commit with `write_mode: merge-on-read` finds older rows. `auto`: by a scan of the key's columns while "
        "that is cheap, in a large table by an index of the keys on the local disk, about 25 bytes a row. `never`: "
        "always by a scan.",
    )
    partial_updates: Literal["null", "keep"] = option(
        "null",
        "Columns that the event of an UPDATE lacks: `null` sets them to null, `keep` keeps the values of the older "
        "row. `keep` does not go with `write_mode: equality-delete`.",
    )
    equality_delete_limit: int | None = option(
        500_000,
        "If a table has more rows of equality deletes, the pipeline converts them, in parallel with its batches. 0 "
        "or null: never.",
        minimum=0,
    )
    maintenance: bool | Maintenance = option(
        True,
        "Keep the tables small and fast to read, in the background: compact small files, expire snapshots, remove "
        "orphans, when a table needs it. `false`: never.",
    )
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
    tables: list[TableOptions] = option(
        [],
        "Settings by table. The first entry whose `name` or `regex` matches replaces the sink's settings for a table.",
    )
    commit_interval: timedelta = option(
        timedelta(minutes=5),
        "Interval at which written events become visible in the table. The first rows of a run's first ten "
        "tables, and the end of a backlog, are committed at once; while a backlog is read, commits pause for twice "
        "what they take.",
    )
    flush_interval: timedelta = option(
        timedelta(minutes=5),
        "Maximum time that events wait before they are written. Events that wait when the pipeline starts are read "
        "at once.",
    )
    ack_poll_interval: timedelta = option(
        timedelta(seconds=5),
        "Accepted for compatibility with Data Prepper; no effect, because a commit acknowledges its events at once.",
    )
    commit_size: Size = option(Size(1 << 30), "Commit earlier when this amount of data is written.", minimum=1)
    max_batch_bytes: Size | None = option(
        None,
        "Maximum amount of data that one batch reads from its source. Default: 256mb, and up to 2gb of a backlog as "
        "long as its files are smaller than 4 MB.",
        minimum=1,
    )
    on_type_mismatch: Literal["null", "dlq"] | None = option(
        None,
        "A value that does not fit an optional column: `null` sets it to null, `dlq` makes its event a dead letter. "
        "Default: `dlq` for copies of databases and where Calve inferred the columns from values, otherwise `null`.",
    )
    case_insensitive: bool = option(False, "Match fields to columns in any case, if no column has the exact name.")
    branch: str | None = option(
        None,
        "The branch of the table to write to. Default: `main`. A missing branch is created from the current `main`.",
        check=check_branch,
    )
    write_properties: dict[str, str] = option({}, "Iceberg write properties that override the table's own.")
    max_open_writers: int = option(
        256,
        "Maximum number of files that one task keeps open; beyond it the task closes the largest idle file.",
        minimum=1,
    )
    distribution: Literal["auto", "none", "hash"] = option(
        "auto",
        "How small parts of a partition or table are written if several tasks of a batch have some: `none`, each "
        "task writes its own file; `hash`, one task writes all parts as one file; `auto`, like `hash` for parts "
        "below about 128 kB, if this saves files.",
    )
    event_time: str | None = option(
        None,
        "The column with the time of an event (`at`, or `place.at` in a struct), of type timestamp, timestamptz or "
        "date. Each snapshot then has the time through which the table is complete. Default: the time of the record, "
        "where the source has one (Kafka, HTTP, the commit of a database).",
        minimum=1,
    )
    allowed_lateness: timedelta = option(
        timedelta(0), "A table counts as complete through a time only when an event this much later has been read."
    )
    idle_after: timedelta = option(
        timedelta(0),
        "How long a Kafka partition without new events still holds back completeness at its last event. Default: it "
        "does not, unless records wait in it.",
    )
    commit_on: Literal["interval", "watermark"] = option(
        "interval",
        "When files are committed: `interval`, or `watermark`: when a partition of the table (hour, day, month or year "
        "of `event_time`) is complete, at the latest after `commit_within`.",
    )
    commit_within: timedelta = option(
        timedelta(hours=1),
        "With `commit_on: watermark`: how long a commit waits at most. `commit_size`, 2,000 staged batches and the end "
        "of a run commit at once, too.",
    )
    metadata_columns: dict[str, str] = option(
        {},
        "Columns that get metadata instead of a field: the name of the column and the metadata attribute, e.g. "
        "`{_ingested_at: ingestion_time, _topic: kafka_topic, _offset: kafka_offset}`. `ingestion_time` (when the "
        "batch was begun, a `timestamptz`) and `batch` (its number) always exist. New tables get the columns, existing "
        "ones with `schema_evolution`.",
    )
    dlq: str | DeadLetters | None = option(
        None,
        "The destination of rejected events: a folder, an object-store prefix, or a `table`. Default: "
        "`<state>/<pipeline>/dlq`.",
    )

    @cached_property
    def by_table(self) -> ByTable[IcebergSettings]:
        """The settings of each table: those of the sink, with those of the first matching entry of `tables`."""
        plain = replace(self, tables=[])
        return ByTable(plain, tuple((entry.pattern, replace(plain, **entry.over(plain))) for entry in self.tables))

    def of(self, table: str) -> IcebergSettings:
        """Return the settings of one table."""
        return self.by_table.of(table)

    @property
    def changes(self) -> bool:
        """Whether rows of a table may be updated and deleted by key, not only appended."""
        has_own = any(own.operation is not None or own.upsert for own in self.tables)
        return has_own or self.operation is not None or self.upsert or self.adds_keys

    @property
    def from_key(self) -> bool:
        """Whether the columns of a table's key are those of the records' key."""
        return self.identifier_columns == FROM_KEY

    @property
    def adds_keys(self) -> bool:
        """See `SinkSettings`."""
        return self.from_key or any(own.identifier_columns == FROM_KEY for own in self.tables)

    @property
    def key_columns(self) -> list[str]:
        """The named columns of the key."""
        return [] if isinstance(self.identifier_columns, str) else self.identifier_columns

    @property
    def dynamic(self) -> bool:
        """Whether each event selects its table."""
        return "${" in self.table_identifier

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

    @property
    def target_name(self) -> str | None:
        """See `SinkSettings`."""
        return self.table_identifier

    @property
    def dlq_prefix(self) -> str | None:
        """The location of dead letters in files, or None for the folder in the state."""
        return prefix(self.dlq)

    @property
    def locations(self) -> dict[str, str]:
        """The catalog properties with the sink's storage."""
        return {**(self.catalog or {}), "dlq": self.dlq_prefix or "", "location": self.table_location or ""}

    @property
    def dlq_table(self) -> str | None:
        """The table of dead letters, or None for files."""
        return self.dlq.table if isinstance(self.dlq, DeadLetters) else None

    @property
    def stores(self) -> tuple[str, ...]:
        """The locations of a catalog in a file, and of new tables."""
        tables = self.table_location or (self.catalog or {}).get("warehouse", "")
        return catalog_folder(self.catalog), tables if self.auto_create else ""

    @property
    def shown_location(self) -> str:
        """The catalog's location, for messages."""
        return shown_catalog(self.catalog)

    @property
    def limits(self) -> MaintenanceLimits | None:
        """When its tables need maintenance; None: never."""
        if isinstance(self.maintenance, Maintenance):
            return self.maintenance.limits
        return DEFAULTS if self.maintenance else None

    @property
    def evaluates(self) -> bool:
        """Whether the table of an event depends on its fields, or events are changes, whose keys may be anything."""
        return self.changes or (self.dynamic and not _JOINED.fullmatch(self.table_identifier))

    def faults(
        self, stream: str | None, has_keys: bool, metadata: Mapping[str, pa.DataType]
    ) -> Iterator[tuple[str, str]]:
        """Refuse new tables without a key, if rows are changed by key, and metadata that the source does not have."""
        return source_faults(self, stream, has_keys, metadata)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse contradictions: a bad name, an incomplete catalog, options that exclude each other."""
        return contradictions(self)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Warn of settings of tables that are never used."""
        return unused_tables(self)

    def needs(self) -> dict[str, str]:
        """Return the fields without which every event is rejected, and why, as far as the settings have them.

        With `case_insensitive` the spelling is unknown, so the result is empty.
        """
        if self.case_insensitive:
            return {}
        columns = [column for column in (self.schema.columns if self.schema else []) if column.required]
        names = [column.name for column in columns if column.name not in self.metadata_columns]
        needs = {name: f"the required column {name}" for name in names}
        if self.changes and not self.tables:
            needs |= {name.partition(".")[0]: f"the identifier column {name}" for name in self.key_columns}
        return needs


SETTINGS = IcebergSettings
