"""What tasks know of an Iceberg sink's tables, and how events become their rows."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, cast

import pyarrow as pa

from calve.columns.fields import ALL_FIELDS, Fields
from calve.columns.row_rule import RowRule
from calve.convert.converter import Converter, ConvertOptions
from calve.convert.event_time import EventTimes
from calve.record.content_file import ContentFile
from calve.record.target import EQUALITY_DELETE, MERGE_ON_READ, Role, RowStream, WriteMode
from calve.record.written import CommitRejects, StagedFiles
from calve.reduce.full_rows import DeletedRows, FullRows
from calve.reduce.key import Key
from calve.reduce.reducer import Reducer
from calve.route.by_table import ByTable, TablePattern
from calve.sinks.iceberg.draft_rules import DraftRules
from calve.sinks.iceberg.metadata_columns import BatchMetadata
from calve.sinks.job import SinkJob
from calve.table.gate import CommitGate
from calve.table.loaded import Absent, Draft, Table
from calve.write.properties import written_as
from calve.write.writer import Written

__all__ = ["TaskTables"]


@dataclass(frozen=True)
class TaskTables(SinkJob):
    """The tables of a sink, and how events become their rows, for the tasks.

    Attributes:
        catalog: The catalog's key, which says where a table's files must be committed.
        tables: Every table that is known so far.
        branch: The branch of these tables that gets the events.
        fields: The fields of an event that are written; routes, table names and dead letters know them all.
        event_time: The column that says when an event happened.
        complete_micros: Through which time a table is complete, in microseconds since the epoch.
        changes: Whether rows are updated and deleted by key, not only appended.
        histories: Tables to which rows are only appended, although others are updated and deleted.
        full_rows: Tables without a key whose rows are found by all their columns.
        identifier_columns: The key; empty means the table's identifier fields.
        from_key: The key has the columns of the records' key.
        full_row: Rows have no key, as in `full_rows`, whatever the table is.
        upsert: An INSERT replaces an older row of the same key.
        write_mode: How deletes reach a table when they are committed.
        keep: An UPDATE leaves columns as they are that its event lacks.
        preserves_source_keys: Whether rows that differ in the key of their source table never change the same row.
        on_type_mismatch: As in the settings; None: as the table's columns came to be.
        frees_columns: Required columns that the schema of an event lacks become optional (`evolves`).
        rules: What the settings say of tables that are created from events.
        shuffle_below_bytes: Smaller parts of partitions are shuffled, to be written together.
        metadata_columns: The columns that get metadata, each with its attribute.
        batch: The attributes that all events share.
        row_rules: What rows must follow.
        gate: What commits must follow before they are published; None: nothing.
        own: Tables with other values of these attributes; the first match wins.
    """

    catalog: str
    tables: dict[str, Table | Absent | Draft]
    branch: str = "main"
    fields: Fields = ALL_FIELDS
    event_time: str | None = None
    complete_micros: Mapping[str, int] = field(default_factory=dict)
    infers: bool = False
    evolves: bool = False
    frees_columns: bool = False
    on_type_mismatch: Literal["null", "dlq"] | None = None
    rules: DraftRules = field(default_factory=DraftRules)
    timestamp_unit: Literal["s", "ms", "us", "ns", "auto"] | None = None
    timestamp_formats: tuple[str, ...] = ()
    case_insensitive: bool = False
    changes: bool = False
    histories: frozenset[str] = frozenset()
    full_rows: frozenset[str] = frozenset()
    identifier_columns: tuple[str, ...] = ()
    from_key: bool = False
    full_row: bool = False
    upsert: bool = False
    write_mode: WriteMode = EQUALITY_DELETE
    keep: bool = False
    preserves_source_keys: bool = True
    write_properties: dict[str, str] = field(default_factory=dict)
    shuffle_below_bytes: int = 0
    metadata_columns: tuple[tuple[str, str], ...] = ()
    batch: BatchMetadata = field(default_factory=BatchMetadata)
    row_rules: tuple[RowRule, ...] = ()
    gate: CommitGate | None = None
    own: tuple[tuple[TablePattern, Mapping[str, Any]], ...] = ()

    def of(self, table: str) -> Self:
        """Return the job with the attributes of one table."""
        return self._by_table.of(table) if self.own else self

    @cached_property
    def _by_table(self) -> ByTable[Self]:
        plain = replace(self, own=())
        return ByTable(plain, tuple((pattern, replace(plain, **values)) for pattern, values in self.own))

    @property
    def any_changes(self) -> bool:
        """Whether rows of a table may be updated and deleted by key."""
        return any(job.changes for job in self._by_table.values())

    def options(self, table: Table) -> ConvertOptions:
        """Return how events are converted for a table."""
        return self.of(table.identifier).own_options(table)

    def own_options(self, table: Table) -> ConvertOptions:
        """Return the same by these settings, whatever `tables` says."""
        return ConvertOptions(
            look_for_unknown=self.evolves,
            frees_columns=self.evolves and self.frees_columns,
            on_type_mismatch=self.on_type_mismatch or ("dlq" if table.is_inferred else "null"),
            timestamp_unit=self.timestamp_unit,
            timestamp_formats=self.timestamp_formats,
            declared=frozenset() if self.on_type_mismatch else self._declared(table),
            local_times=self._local_times(table) if table.is_inferred else frozenset(),
            case_insensitive=self.case_insensitive,
            fields=self.fields,
            count_ignored=not self.evolves,
            metadata=self.metadata_columns,
            types=self.rules.types,
            column_limit=self.rules.column_limit,
            overflow=self.rules.overflow,
            rules=self.row_rules,
        )

    def with_key(self, columns: Sequence[str]) -> Self:
        """Return the job for a new table whose key has these columns."""
        return replace(self, identifier_columns=tuple(columns), rules=self.rules.with_key(columns))

    def with_batch(self, events: pa.Table) -> pa.Table:
        """Return events with the attributes of their batch that become columns."""
        return self.batch.add_to(events, frozenset(attribute for _, attribute in self.metadata_columns))

    def _declared(self, table: Table) -> frozenset[str]:
        return frozenset(field.name for field in table.schema.fields if self.rules.types.of((field.name,)))

    def _local_times(self, table: Table) -> frozenset[str]:
        """Return the columns without a timestamp that the settings declare."""
        types = [(name.split("."), table.schema.find_type(name)) for name in table.schema.column_names]
        declared = {path[0] for path, kind in types if kind.is_primitive and self.rules.types.of(path)}
        return frozenset(field.name for field in table.schema.fields) - declared - self._declared(table)

    def appends(self, table: str) -> bool:
        """Return whether rows are appended to a table as they come."""
        own = self.of(table)
        return not own.changes or table in self.histories or self.has_full_rows(table)

    def has_full_rows(self, table: str) -> bool:
        """Return whether rows of a table are found by all their columns."""
        own = self.of(table)
        return own.full_row or (own.changes and not own.identifier_columns and table in self.full_rows)

    def converter(self, table: Table) -> Converter | Reducer | FullRows:
        """Make what turns the events of a table into rows, or into changes of rows."""
        own, options = self.of(table.identifier), self.options(table)
        if self.has_full_rows(table.identifier):
            return FullRows(table, options, self.deleted_rows(table))
        if self.appends(table.identifier):
            return Converter(table, options)
        return Reducer(table, Key(table, own.identifier_columns), options, own.upsert, self.keep, own.from_key)

    def deleted_rows(self, table: Table) -> DeletedRows:
        """Return how deletes of whole rows are staged: metadata differ between the INSERT and the DELETE of a row."""
        return DeletedRows(table, frozenset(name for name, _ in self.metadata_columns))

    def conversion_key(self, table: str) -> Hashable:
        """Return the columns and options of a table to which rows are only appended."""
        target = self.tables.get(table)
        if self.of(table).changes or self.compares_rows(table) or not isinstance(target, Table):
            return table
        return target.columns_json, target.draft and target.draft.columns_json, self.options(target)

    def compares_rows(self, table: str) -> bool:
        """Return whether a rule compares the rows of a table with each other, so that their order counts."""
        return any(rule.unique for rule in self.of(table).row_rules)

    def table_of(self, stream: RowStream) -> tuple[Table, dict[str, str]]:
        """Return the table of a stream, and its properties."""
        are_letters = stream.role is Role.DEAD_LETTERS
        table = self.dead_letters.table if are_letters else self.tables[stream.table]
        assert isinstance(table, Table)
        properties = {**table.properties, **({} if are_letters else self.write_properties)}
        gate = None if are_letters else self.of(stream.table).gate
        return table, gate.with_metrics(properties) if gate else properties

    def table_files(self, stream: RowStream, written: Written, run: str, times: EventTimes | None) -> StagedFiles:
        """Return what was written of a stream.

        Args:
            stream: The stream.
            written: Its files.
            run: Makes file names unique: pipeline, state and batch.
            times: The event times of its table.
        """
        are_letters, own = stream.role is Role.DEAD_LETTERS, self.of(stream.table)
        write_mode = MERGE_ON_READ if self.has_full_rows(stream.table) else own.write_mode
        return StagedFiles(
            catalog=self.catalog,
            table=stream.table,
            branch="main" if are_letters else own.branch,
            uuid=written.table.uuid,
            write_mode=EQUALITY_DELETE if are_letters else write_mode,
            files=cast("list[ContentFile]", written.files),
            rows=0 if stream.role is Role.DELETES else written.rows,
            bytes=written.size_bytes,
            event_times=dict(times.latest) if times else {},
            late=times.late if times and stream.role is Role.ROWS else 0,
            commit_rejects=self._commit_rejects(stream, run) if stream.role is Role.PARTIAL else None,
            write_as={} if are_letters else written_as({**written.table.properties, **self.write_properties}),
        )

    def _commit_rejects(self, stream: RowStream, run: str) -> CommitRejects:
        name = f"{run}-{stream.sink}-{zlib.crc32(stream.table.encode()):08x}-at-commit.ndjson"
        return CommitRejects(f"{self.dead_letters.location}/{name}", self.label)
