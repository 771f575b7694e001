"""The options of the Iceberg sink: the keys of Data Prepper's RFC, and Calve's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal

from pyiceberg.schema import Schema
from pyiceberg.types import UnknownType

from calve.convert.column_types import ColumnTypes
from calve.convert.date_formats import date_format
from calve.convert.definition import partition_spec_fields, schema_from_columns
from calve.convert.event_time import fault as faulty_time
from calve.convert.type_text import parse_type
from calve.errors import SettingsError
from calve.expression import Format, compile_format
from calve.route.names import fault
from calve.settings import Size, option
from calve.settings.catalog import catalog_faults
from calve.sinks.dead_letters import S3DeadLetters, prefix

__all__ = ["Column", "DeadLetters", "IcebergSettings", "PartitionField", "SchemaOf", "TableSchema"]

_LONGEST_BRANCH = 200
_BRANCH = re.compile(rf"[^\W_][\w./-]{{0,{_LONGEST_BRANCH - 1}}}")


def _check_table_name(text: str) -> Format:
    name = compile_format(text)
    if name.static is not None and (bad := fault(name.static)):
        raise SettingsError(bad)
    return name


def _check_letter_table(text: str) -> None:
    if "${" in text:
        raise SettingsError("the table of dead letters is one for all events: its name cannot have ${…}")
    if bad := fault(text):
        raise SettingsError(bad)


def _check_branch(text: str) -> None:
    if not _BRANCH.fullmatch(text) or text.isdecimal():
        raise SettingsError(
            f"{text[:100]!r} is no name of a branch: at most {_LONGEST_BRANCH} letters, digits, `_`, `-`, `.` and `/`, "
            "the first a letter or digit; and not digits alone, which readers take for a snapshot's number"
        )


def _check_key(columns: list[str]) -> None:
    repeated = [name for index, name in enumerate(columns) if name in columns[:index]]
    if repeated:
        raise SettingsError(f"the column {repeated[0]} is given a second time")


@dataclass(frozen=True)
class Column:
    """A column of a table that is created."""

    name: str = option(doc="Its name.", minimum=1)
    type: str = option(
        doc="Iceberg's name of the type, e.g. `long`, `timestamptz`, `decimal(9,2)`, `list<string>`, `variant`.",
        check=parse_type,
    )
    required: bool = option(False, "Whether an event without a value for it is rejected.")


@dataclass(frozen=True)
class PartitionField:
    """One field of a partition spec."""

    column: str = option(doc="The column it is made of.", minimum=1)
    transform: str = option(
        "identity",
        "`identity`, `year`, `month`, `day`, `hour`, `bucket[16]`, `truncate[4]` or `void`.",
        check=lambda text: partition_spec_fields([{"column": "…", "transform": text}]),
    )


@dataclass(frozen=True)
class TableSchema:
    """The table to create when it does not exist."""

    columns: list[Column] = option(doc="The columns.", minimum=1)
    partition_spec: list[PartitionField] = option([], "How the table is partitioned.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse a column that is named twice, and partitions that the columns do not allow."""
        names = [column.name for column in self.columns]
        repeated = [index for index, name in enumerate(names) if name in names[:index]]
        for index in repeated:
            yield f"columns[{index}].name", f"the column {names[index]} is given a second time"
        for index, column in enumerate(self.columns):
            if column.required and isinstance(parse_type(column.type), UnknownType):
                yield f"columns[{index}].required", "a column of type unknown holds nothing but null"
        if not repeated:
            schema = schema_from_columns([asdict(column) for column in self.columns])
            fields = [asdict(field) for field in self.partition_spec]
            yield from _check_partitions("partition_spec", fields, schema)


@dataclass(frozen=True)
class SchemaOf(TableSchema):
    """The columns of some of the tables that are named by events."""

    tables: str = option(doc="The tables, as a name or a pattern with `*` and `?`, e.g. `shop.order*`.", minimum=1)


@dataclass(frozen=True)
class DeadLetters:
    """Where rejected events go, if it is more than a path."""

    s3: S3DeadLetters | None = option(None, "A folder in S3; the same as the text `s3://bucket/prefix`.")
    table: str | None = option(
        None,
        "An Iceberg table in the sink's catalog, as `namespace.table`: each rejected event is a row of it, exactly "
        "once. Made where it does not exist, partitioned by the day of `timestamp`.",
        check=_check_letter_table,
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse a map that names no place, or two."""
        if not self.s3 and not self.table:
            yield "", "name a place: a path, `s3: {bucket: …}` or `table: namespace.table`"
        if self.s3 and self.table:
            yield "table", "cannot be given beside `s3`; keep one"


@dataclass(frozen=True)
class IcebergSettings:
    """Writes events to Apache Iceberg tables, each exactly once."""

    table_identifier: str = option(
        doc="The table, as `namespace.table`. With `${…}` (`logs.${/kind}`) it is found for each event.",
        check=_check_table_name,
    )
    catalog: dict[str, str] | None = option(
        None,
        "Iceberg's catalog properties: `type` or `catalog-impl`, `uri`, `warehouse` and so on, and `name` (default "
        "`iceberg`). Absent: a catalog of Calve's own in `./lakehouse`.",
        secret=True,
    )
    operation: str | None = option(
        None,
        "What each event does to its row, e.g. `${/op}`: `index`, `insert`, `create`, `c`, `i`, `r` or empty inserts; "
        "`update`, `u` updates; `delete`, `d` deletes; whatever the case. Absent: every event is inserted.",
        check=compile_format,
    )
    identifier_columns: list[str] = option(
        [],
        "The key that updates and deletes find a row by, dotted where nested; absent: the table's identifier fields. "
        "A table that is created gets them as its identifier fields.",
        check=_check_key,
    )
    upsert: bool = option(False, "An INSERT replaces an existing row of the same key.")
    write_mode: Literal["equality-delete", "merge-on-read", "copy-on-write"] = option(
        "equality-delete",
        "How updates and deletes are written: as the keys of rows that go, as position deletes or deletion vectors, or "
        "by rewriting the files that have these rows. May be changed at any time.",
    )
    partial_updates: Literal["null", "keep"] = option(
        "null",
        "What columns become that the event of an UPDATE lacks: null, or `keep`, what the older row has. `keep` needs "
        "`write_mode: merge-on-read` or `copy-on-write`.",
    )
    equality_delete_limit: int | None = option(
        500_000,
        "Rows of equality deletes beyond which a table's are converted, in the pipeline's process and beside its "
        "batches; 0 or null: never.",
        minimum=0,
    )
    auto_create: bool = option(
        False, "Create a table that does not exist: from `schema`, or else from the events of the first batch."
    )
    schema_evolution: bool = option(False, "Add a column for each field that the table does not have.")
    schema: TableSchema | None = option(None, "The table to create; only for a `table_identifier` without `${…}`.")
    schemas: list[SchemaOf] = option(
        [],
        "Schemas for tables that `auto_create` makes, by their names: the first one whose `tables` matches is used. "
        "Tables without a match are created from events.",
    )
    column_types: dict[str, str] = option(
        {},
        "Types of columns that are created from events, for new tables and by `schema_evolution`, e.g. "
        '`{total: "decimal(12,2)", "*_at": timestamptz, "items.element.price": double}`: dotted names, or patterns '
        "with `*` and `?`; an exact name wins, then the first pattern. Columns that exist stay as they are.",
    )
    infer_timestamps: bool = option(
        True, "Texts that are all ISO 8601 date-times become a `timestamptz` column; false: a `string`."
    )
    timestamp_unit: Literal["s", "ms", "us", "ns", "auto"] = option(
        "ms",
        "What numbers count since 1970 in columns of timestamps. `auto` goes by their size: below 10^11 seconds, below "
        "10^14 milliseconds, below 10^17 microseconds, else nanoseconds.",
    )
    timestamp_formats: list[str] = option(
        [],
        "Java's date patterns, e.g. `dd/MMM/yyyy:HH:mm:ss Z`, tried in order for texts in columns of timestamps and "
        "dates that are no ISO 8601; UTC where the text has no offset.",
        check=lambda patterns: [date_format(pattern) for pattern in patterns],
    )
    partition_by: list[str] = option(
        [],
        'Partitions of tables that are created from events, e.g. `["day(ts)", "bucket(16, id)"]`; a column that is '
        "partitioned by time becomes a `timestamptz`.",
    )
    table_properties: dict[str, str] = option({}, "Iceberg table properties of tables that are created.")
    table_location: str | None = option(
        None, "Where a table that is created is stored; absent: the catalog decides.", minimum=1
    )
    commit_interval: timedelta = option(
        timedelta(minutes=5),
        "How often written events become visible in the table. A run's first rows of a table do at once, and so does a "
        "backlog when it is read to its end.",
    )
    flush_interval: timedelta = option(
        timedelta(minutes=5),
        "How long events wait at most before they are written. What waits when the pipeline starts is read at once.",
    )
    ack_poll_interval: timedelta = option(
        timedelta(seconds=5), "Accepted for compatibility; a commit acknowledges its events at once."
    )
    commit_size: Size = option(Size(1 << 30), "Commit earlier when this much is written.", minimum=1)
    max_batch_bytes: Size = option(Size(256 << 20), "The most that one batch reads from its source.", minimum=1)
    on_type_mismatch: Literal["null", "dlq"] | None = option(
        None,
        "What becomes of a value that does not fit an optional column: `null` sets it to null, `dlq` makes its event a "
        "dead letter. Absent: `dlq` for tables whose columns Calve inferred from values, `null` for all others.",
    )
    case_insensitive: bool = option(False, "Match fields to columns whatever their case, if the exact name is missing.")
    branch: str | None = option(
        None,
        "The branch of the table to write to; absent: `main`. One that does not exist begins where `main` is then.",
        check=_check_branch,
    )
    write_properties: dict[str, str] = option({}, "Iceberg's write properties, in place of the table's own.")
    max_open_writers: int = option(
        256, "Files that one task keeps open; beyond it the largest idle one is closed.", minimum=1
    )
    distribution: Literal["auto", "none", "hash"] = option(
        "auto",
        "Who writes small parts of a partition or table that several tasks of a batch have: `none`, each task its own; "
        "`hash`, one task all of them, as one file; `auto`, as `hash`, below about 128 kB, if that saves files.",
    )
    event_time: str | None = option(
        None,
        "The column of type timestamp, timestamptz or date (`at`, or `place.at` in a struct) that says when an event "
        "happened; snapshots then tell through which time the table is complete.",
        minimum=1,
    )
    dlq: str | DeadLetters | None = option(
        None,
        "Where rejected events go: a folder, an object-store prefix, or a `table`. Absent: `<state>/<pipeline>/dlq`.",
    )

    @property
    def changes(self) -> bool:
        """Whether rows are updated and deleted by their key, and not only appended."""
        return self.operation is not None or self.upsert

    @property
    def dynamic(self) -> bool:
        """Whether the table is found for each event."""
        return "${" in self.table_identifier

    @property
    def inferred_types(self) -> ColumnTypes:
        """The types of columns that are created from events."""
        return ColumnTypes(self.column_types, self.infer_timestamps)

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns of `schema` as `convert.schema_from_columns` takes them; empty without a schema."""
        return [asdict(column) for column in self.schema.columns] if self.schema else []

    @property
    def partition_fields(self) -> list[Any]:
        """The partition spec of a new table as `convert.partition_spec_fields` takes it: texts or maps."""
        spec = self.schema.partition_spec if self.schema else []
        return [asdict(field) for field in spec] or list(self.partition_by)

    @property
    def dlq_prefix(self) -> str | None:
        """Where files of rejected events go, or None for the folder in the state."""
        return prefix(self.dlq.s3 if isinstance(self.dlq, DeadLetters) else self.dlq)

    @property
    def places(self) -> dict[str, str]:
        """Where the sink stores things, and how, as catalog properties."""
        return {**(self.catalog or {}), "dlq": self.dlq_prefix or "", "location": self.table_location or ""}

    @property
    def dlq_table(self) -> str | None:
        """The table that rejected events go to, or None for files."""
        return self.dlq.table if isinstance(self.dlq, DeadLetters) else None

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse what cannot be meant: a bad name, half a catalog, keys that exclude each other."""
        yield from catalog_faults(self.catalog)
        if self.schema and self.dynamic:
            yield (
                "schema",
                "needs a table_identifier without ${…}: tables named by events are created from their events",
            )
        if self.schema and self.event_time and (bad := faulty_time(schema_from_columns(self.columns), self.event_time)):
            yield "event_time", bad
        for name, kind in self.column_types.items():
            yield from _check_type(f"column_types.{name}", kind)
        yield from _check_partitions("partition_by", self.partition_by)
        yield from self._check_format_version()
        if self.schema and self.partition_by:
            yield "partition_by", "is for tables without a schema here; use schema.partition_spec"
        if self.schema:
            columns = {column.name: column.type for column in self.schema.columns}
            for index, name in enumerate(self.identifier_columns):
                if not {name, name.partition(".")[0]} & columns.keys():
                    yield f"identifier_columns[{index}]", f"schema.columns has no column {name}"
                elif columns.get(name, "").strip().lower() == "variant":
                    yield f"identifier_columns[{index}]", f"{name} is a variant, which cannot be a key"
        if self.partial_updates == "keep" and self.write_mode == "equality-delete":
            why = "keep needs the older row, which equality deletes never look for"
            yield "partial_updates", f"{why}; set write_mode: merge-on-read or copy-on-write"
        if self.dlq == "":
            yield "dlq", "names no place; leave it out for <state>/<pipeline>/dlq"
        if self.dlq_table == self.table_identifier:
            yield "dlq.table", "is the table that the events go to; name another one"

    def _check_format_version(self) -> Iterator[tuple[str, str]]:
        version = self.table_properties.get("format-version", "2")
        if version not in ("1", "2", "3"):
            yield "table_properties.format-version", f"must be 1, 2 or 3, found {version}"
        elif version == "1" and self.changes:
            yield "table_properties.format-version", "must be 2 or 3: version 1 knows no row-level deletes"

    def needs(self) -> dict[str, str]:
        """Give the fields without which every event is rejected, as far as the settings tell, and what they are for.

        With `case_insensitive` a field may be spelled in many ways, and none is named.
        """
        if self.case_insensitive:
            return {}
        required = self.schema.columns if self.schema else []
        found = {column.name: f"the required column {column.name}" for column in required if column.required}
        if self.changes:
            found |= {name.partition(".")[0]: f"the identifier column {name}" for name in self.identifier_columns}
        return found


def _check_type(key: str, kind: str) -> Iterator[tuple[str, str]]:
    try:
        parse_type(kind)
    except SettingsError as error:
        yield key, str(error)


def _check_partitions(
    key: str, entries: Sequence[str | Mapping[str, Any]], schema: Schema | None = None
) -> Iterator[tuple[str, str]]:
    for index, entry in enumerate(entries):
        if entry in entries[:index]:
            yield f"{key}[{index}]", "this partition field is given a second time"
        try:
            partition_spec_fields([entry], schema)
        except SettingsError as error:
            yield f"{key}[{index}]", str(error)
