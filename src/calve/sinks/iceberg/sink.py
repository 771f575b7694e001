"""An Iceberg sink on the driver: its catalog, its tables, and its part of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from calve.catalog.catalog import Catalog
from calve.catalog.storage import for_executors
from calve.columns.fields import Fields
from calve.columns.infer import Inferred
from calve.commit.compare import Comparison
from calve.dead_letters.open_table import LetterTarget
from calve.dead_letters.rejects import DeadLetterLocation
from calve.expression import compile_format
from calve.object_store import state_folder_at
from calve.record.target import EQUALITY_DELETE, BranchRef
from calve.record.written import TableFiles
from calve.reduce.key import Key
from calve.route.gates import gates
from calve.route.route import SinkRoute, certain_targets, names_by_table
from calve.sinks.iceberg.epoch import read_as_milliseconds
from calve.sinks.iceberg.job import TableJob
from calve.sinks.iceberg.metadata_columns import BatchMetadata, MetadataColumns
from calve.sinks.iceberg.mirrors import Mirrors
from calve.sinks.iceberg.probe import probe
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.iceberg.targets import SinkTargets
from calve.sinks.sink import CommitSettings, Opening, Order, Sink
from calve.sources.source import SourceTable
from calve.table.loaded import Table
from calve.table.schema import path_of, read_schema

__all__ = ["GATHERED_BYTES", "IcebergSink", "open", "probe"]

GATHERED_BYTES = {"none": 0, "auto": 512 << 10, "hash": 32 << 20}
"""Parts with less bytes in memory are handed on, by `distribution`; about four times their size in a file."""
_BATCH_BYTES = 256 << 20


class IcebergSink:
    """The Iceberg sink and its tables (`Sink`, `SinkTables`); runs on the driver.

    Args:
        opening: Its settings and tools.

    Attributes:
        branch: The branch of its tables that it writes.
    """

    def __init__(self, opening: Opening) -> None:
        entry, metadata, log = opening.entry, opening.metadata, opening.log
        settings: IcebergSettings = entry.value
        if settings.operation is None and opening.operation is not None:
            settings = replace(settings, operation=opening.operation)
        if settings.on_type_mismatch is None and opening.is_copy:
            settings = replace(settings, on_type_mismatch="dlq")
        self._settings = settings
        self._label = opening.label
        kept = settings.metadata_columns  # no field of an event is written into them
        self._fields = Fields(frozenset(entry.include_keys), frozenset(entry.exclude_keys) | frozenset(kept))
        operation = None if settings.operation is None else compile_format(settings.operation, metadata)
        self._route = SinkRoute(compile_format(settings.table_identifier, metadata), gates(entry, metadata), operation)
        self.static: str | None = self._route.table.static
        self._key, self.catalog = opening.catalog_of(settings.catalog or {})
        self.catalogs: Mapping[str, Catalog] = {self._key: self.catalog}
        self._log = log
        self._warned_times: set[tuple[str, str]] = set()
        self._mirrors = Mirrors(self._fields, settings.inferred_types)
        columns = MetadataColumns(kept, metadata)
        self._targets = SinkTargets(self.catalog, settings, self.static, log, self._mirrors, columns)
        letters = settings.dlq_table
        self.letters = (
            LetterTarget(self.catalog, letters, state_folder_at(opening.dead_letters), log) if letters else None
        )
        storage = opening.state_storage or for_executors(self.catalog.properties)
        self.dead_letters = DeadLetterLocation(opening.dead_letters, storage, limits=opening.letters_limits)
        self.branch = settings.branch or "main"
        self.order = Order.BY_KEY if settings.changes else Order.ANY
        self.always_gathers = settings.distribution == "hash"
        self.max_open_writers = settings.max_open_writers
        self.equality_delete_limit = settings.equality_delete_limit or 0
        self.limits = settings.limits
        self.flush_seconds = settings.flush_interval.total_seconds()
        self.max_batch_bytes = int(settings.max_batch_bytes or _BATCH_BYTES)
        self.may_grow = settings.max_batch_bytes is None
        self.commits = CommitSettings(settings.commit_interval.total_seconds(), int(settings.commit_size))

    @property
    def tables(self) -> IcebergSink:
        """Its tables, to which the driver commits."""
        return self

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes that it reads."""
        return self._route.metadata | set(self._settings.metadata_columns.values())

    @property
    def key_fields(self) -> frozenset[str]:
        """The top-level fields that may be in the key of a known table."""
        tables = [table for table in self._targets.known().values() if isinstance(table, Table)]
        names = [name for table in tables for name in table.schema.identifier_field_names()]
        names = [*self._settings.identifier_columns, *names]
        return frozenset(names) | frozenset(name.partition(".")[0] for name in names)

    def open(self) -> None:
        """Find or create the static table."""
        self._targets.open()
        if self._settings.changes and self._settings.write_mode == EQUALITY_DELETE:
            self._log.info(
                "rows are changed by equality deletes, which Spark, Trino, Flink and DuckDB read, and PyIceberg and "
                "Snowflake do not; for these set write_mode: merge-on-read"
            )

    def begin_batch(self, tables: Sequence[SourceTable]) -> None:
        """Load absent tables again; let mirrors follow the source tables of the batch.

        Raises:
            CalveError: Dead letters can no longer be written.
        """
        if self.letters:
            _ = self.letters.table
        self._mirrors.set(tables, names_by_table(self._route.table, tables))
        self._targets.begin_batch()

    def lacking(self, tables: Sequence[SourceTable]) -> list[str]:
        """Return the targets that get all rows of some source tables, and are not known yet."""
        known = self._targets.known()
        return [name for name in certain_targets(self._route, tables) if name not in known]

    def may_write(self, target: BranchRef) -> bool:
        """Return whether its events may go to a branch of a table; its dead letters do not count as its events."""
        is_letters = self.letters is not None and self.letters.identifier == target.table
        return (
            (target.catalog, target.branch) == (self._key, self.branch)
            and self.static in (None, target.table)
            and not is_letters
        )

    def has(self, catalog: str, table: str) -> bool:
        """Return whether a table is one of the sink's known tables."""
        return catalog == self._key and self._targets.has(table)

    def targets_of(self, tables: Sequence[SourceTable]) -> list[BranchRef]:
        """Return where the rows of source tables go, as far as the tables alone decide it."""
        names = dict.fromkeys(names_by_table(self._route.table, tables).values())
        return [BranchRef(self._key, name, self.branch) for name in names]

    def comparison(self, table: SourceTable, target: BranchRef) -> Comparison | str | None:
        """Return how a target is compared with a source table, or why it cannot be; None: there is no such target."""
        settings = self._settings
        if target not in self.targets_of([table]):
            return None
        if not settings.changes:
            return "its rows are only appended"
        if (found := self.catalog.load(target.table)) is None:
            return None
        key = Key(found, settings.identifier_columns)
        paths = tuple(path_of(found.schema, number) for number in key.ids)
        columns = frozenset(read_schema(table.schema_json).column_names)
        return key.fault or Comparison(paths, settings.write_mode, columns, frozenset(settings.metadata_columns))

    def maintains(self, catalog: str, table: str) -> bool:
        """Return whether a table is one of the sink's, the one for its dead letters included."""
        is_letters = self.letters is not None and self.letters.identifier == table
        return self.has(catalog, table) or (catalog == self._key and is_letters)

    def refresh(self, catalog: str, table: str, found: Table | None) -> None:
        """Set a table to its state after a commit, or load it again; the table of dead letters is always loaded."""
        if catalog == self._key:
            self._targets.refresh(table, found)
        if catalog == self._key and self.letters and self.letters.identifier == table:
            self.letters.refresh()

    def check_times(self, entries: Iterable[TableFiles]) -> None:
        """Warn once about each column whose numbers look like seconds but were read as milliseconds."""
        known = self._targets.known()
        for entry in entries if self._settings.timestamp_unit in (None, "ms") else ():
            table = known.get(entry.table) if entry.catalog == self._key else None
            for name in read_as_milliseconds(table.schema, entry.files) if isinstance(table, Table) else ():
                if (entry.table, name) not in self._warned_times:
                    self._warned_times.add((entry.table, name))
                    self._log.warning(
                        f"{entry.table}: the times in {name} are all before 20 February 1970; perhaps the events' "
                        "numbers are seconds that were read as milliseconds",
                        table=entry.table,
                        hint="If so, set timestamp_unit: s",
                    )

    def fit(self, table: str, inferred: Inferred | None) -> None:
        """Create or evolve a table."""
        self._targets.fit(table, inferred)

    def wrote(self, tables: Iterable[str]) -> None:
        """Note the tables that earlier runs have written."""
        self._targets.written = frozenset(tables)

    def find(self, table: str) -> bool:
        """Load a table if it is not known and exists; return whether it is known."""
        return self._targets.find(table)

    def job(self, batch: int, time_tenths: int, prefix: str, replays: bool) -> TableJob:
        """Return its part of the job of a batch; event times of a replay do not count, because they are late."""
        settings, location, tables = self._settings, self.dead_letters, self._targets.known()
        return TableJob(
            label=self._label,
            catalog=self._key,
            route=self._route,
            tables=tables,
            dead_letters=replace(location, table=self.letters.table) if self.letters else location,
            branch=self.branch,
            fields=self._fields,
            event_time=None if replays else settings.event_time,
            infers=settings.auto_create,
            evolves=settings.schema_evolution,
            on_type_mismatch=settings.on_type_mismatch,
            rules=self._targets.rules,
            timestamp_unit=settings.timestamp_unit,
            timestamp_formats=tuple(settings.timestamp_formats),
            case_insensitive=settings.case_insensitive,
            changes=settings.changes,
            histories=frozenset(
                name for name, one in tables.items() if isinstance(one, Table) and self._mirrors.is_history(one)
            ),
            identifier_columns=tuple(settings.identifier_columns),
            upsert=settings.upsert,
            write_mode=settings.write_mode,
            keep=settings.partial_updates == "keep",
            keeps_keys=not settings.changes or self._mirrors.keep_keys(tables, settings.identifier_columns),
            write_properties=dict(settings.write_properties),
            gathers_bytes=GATHERED_BYTES[settings.distribution],
            metadata_columns=tuple(settings.metadata_columns.items()),
            batch=BatchMetadata(batch, time_tenths),
        )


def open(opening: Opening) -> Sink:
    """Create an Iceberg sink; it connects in `Sink.open`."""
    return IcebergSink(opening)
