"""The options of the Iceberg sink: the keys of Data Prepper's RFC, and Calve's own."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from calve.columns.row_rule import RowRule
from calve.dead_letters.settings import prefix
from calve.route.by_table import ByTable
from calve.settings import Size, option
from calve.settings.catalog import catalog_folder, shown_catalog
from calve.sinks.iceberg.contradictions import contradictions, source_faults, unused_tables
from calve.sinks.iceberg.creation_settings import CreationSettings
from calve.sinks.iceberg.expect import Expectation, row_rules
from calve.sinks.iceberg.letters import DeadLetters
from calve.sinks.iceberg.maintenance import LEAST_RETENTION, LONGEST_RETENTION, RETENTION, Maintenance
from calve.sinks.iceberg.publish import Publish, check_branch
from calve.sinks.iceberg.row_settings import RowSettings
from calve.sinks.iceberg.table_options import FROM_KEY, TableOptions
from calve.table.limits import DEFAULTS, MaintenanceLimits

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["IcebergSettings"]

_JOINED = re.compile(r"""([^$]|\$(?!\{)|\$\{\s*getMetadata\(\s*"[^"/]+"\s*\)\s*\})*""")
"""A name that only joins texts and metadata."""


@dataclass(frozen=True)
class IcebergSettings(CreationSettings, RowSettings):
    """Writes events to Apache Iceberg tables, each exactly once."""

    has_tables = True

    maintenance: bool | Maintenance = option(
        True,
        "Keep the tables small and fast to read, in the background: compact small files, expire snapshots, remove "
        "orphans, when a table needs it. `false`: never.",
    )
    retention: timedelta | None = option(None, RETENTION, minimum=LEAST_RETENTION, maximum=LONGEST_RETENTION)
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
    commit_size: Size = option(
        Size(1 << 30), "Commit the largest tables earlier when this amount of data is written.", minimum=1
    )
    max_commits_per_second: float | None = option(
        None,
        "Maximum number of commits a second, of all tables; those whose rows have waited longest come first. For "
        "catalogs that limit calls: a commit makes two to three. Default: no limit.",
        minimum=0.01,
    )
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
    publish: Publish | None = option(
        None,
        "Commit to another branch, and move `main` forward to its commits only when rules hold. Readers of `main` see "
        "nothing else.",
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
    expect: list[Expectation] = option(
        [],
        "Rules that rows must follow, checked before they are written. What becomes of others, each rule says.",
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

    @cached_property
    def rules(self) -> tuple[RowRule, ...]:
        """The rules of `expect`; in a sink of several tables they are for those that have the columns."""
        return row_rules(self.expect, self.dynamic)

    @property
    def compares_rows(self) -> bool:
        """Whether a rule compares the rows of a batch, which one task then has all of."""
        return any(rule.unique for own in self.by_table.values() for rule in own.expect)

    @property
    def target_branch(self) -> str:
        """The branch that gets the commits of a table."""
        return self.publish.branch if self.publish else self.branch or "main"

    @property
    def gated_branch(self) -> tuple[Hashable, object] | None:
        """See `SinkSettings`."""
        if self.dynamic:
            return None
        own = self.of(self.table_identifier)
        return (frozenset((self.catalog or {}).items()), self.table_identifier, own.target_branch), own.publish

    @property
    def changes(self) -> bool:
        """Whether rows of a table may be updated and deleted by key, not only appended."""
        has_own = any(own.operation is not None or own.upsert for own in self.tables)
        return has_own or self.operation is not None or self.upsert or self.adds_keys

    @property
    def adds_keys(self) -> bool:
        """See `SinkSettings`."""
        return self.from_key or any(own.identifier_columns == FROM_KEY for own in self.tables)

    @property
    def has_full_rows(self) -> bool:
        """See `SinkSettings`."""
        return any(own.full_row for own in self.by_table.values())

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
        if not self.maintenance:
            return None
        limits = self.maintenance.limits if isinstance(self.maintenance, Maintenance) else DEFAULTS
        return replace(
            limits,
            retention=self.retention,
            time_column=self.event_time or "",
            keeps_waiting=self.publish is not None,
        )

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
        """Warn of settings of tables that are never used, and of rules that do less than they seem to."""
        yield from unused_tables(self)
        if self.expect:
            from calve.sinks.iceberg.expect_faults import expect_doubts

            yield from expect_doubts(self)

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
