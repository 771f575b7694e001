"""An Iceberg sink on the driver: its catalog, its tables, and its part of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calve.catalog.storage import for_executors
from calve.columns.fields import Fields
from calve.dead_letters.open_table import LetterTarget
from calve.dead_letters.rejects import DeadLetterLocation
from calve.expression import compile_format
from calve.record.target import EQUALITY_DELETE
from calve.route.gates import gates
from calve.route.sink_route import SinkRoute
from calve.route.source_tables import names_by_table
from calve.sinks.iceberg.draft_rules import DraftRules
from calve.sinks.iceberg.job import TableJob
from calve.sinks.iceberg.metadata_columns import BatchMetadata, MetadataColumns
from calve.sinks.iceberg.mirrors import Mirrors
from calve.sinks.iceberg.probe import probe
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.iceberg.tables import IcebergTables
from calve.sinks.iceberg.targets import SinkTargets
from calve.sinks.sink import Opening, Order, Sink
from calve.sources.source import SourceTable
from calve.state.location import state_folder_at
from calve.table.loaded import Table

__all__ = ["SHUFFLE_BELOW_BYTES", "IcebergSink", "open", "probe"]

SHUFFLE_BELOW_BYTES = {"none": 0, "auto": 512 << 10, "hash": 32 << 20}
"""Smaller parts, in bytes of memory, are shuffled, by `distribution`; about four times their size in a file."""
_BATCH_BYTES = 256 << 20


class IcebergSink:
    """Implements `Sink`.

    Args:
        opening: Its settings and tools.
    """

    def __init__(self, opening: Opening) -> None:
        entry, metadata, log = opening.entry, opening.metadata, opening.log
        settings: IcebergSettings = entry.value
        if settings.operation is None and opening.operation is not None:
            settings = replace(settings, operation=opening.operation)
        if settings.on_type_mismatch is None and opening.is_copy:
            settings = replace(settings, on_type_mismatch="dlq")
        if not settings.dynamic:
            settings = settings.of(settings.table_identifier)
        self._settings = settings
        self._label = opening.label
        kept = settings.metadata_columns  # no field of an event is written into them
        self._fields = Fields(frozenset(entry.include_keys), frozenset(entry.exclude_keys) | frozenset(kept))
        self._route = SinkRoute(
            compile_format(settings.table_identifier, metadata),
            gates(entry, metadata),
            settings.by_table.map(
                lambda own: None if own.operation is None else compile_format(own.operation, metadata)
            ),
            settings.by_table.map(lambda own: own.full_row),
        )
        self._key, catalog = opening.catalog_of(settings.catalog or {})
        self._log = log
        self._mirrors = Mirrors(self._fields, settings.by_table.map(lambda own: own.inferred_types))
        rest = settings.overflow
        columns = MetadataColumns(kept, metadata, (rest.column, rest.type) if rest else ())
        self._options = settings.by_table.map(lambda own: _options_of(own, columns))
        self._targets = SinkTargets(catalog, settings, self._route.table.static, log, self._mirrors, columns)
        self._targets.defaults = opening.table_defaults
        self._letters = (
            LetterTarget(catalog, settings.dlq_table, state_folder_at(opening.dead_letters), log)
            if settings.dlq_table
            else None
        )
        self.tables = IcebergTables(settings, self._route, self._key, self._targets, self._letters, log)
        storage = opening.letters_storage(for_executors(catalog.properties))
        self.dead_letters = DeadLetterLocation(opening.dead_letters, storage, limits=opening.letters_limits)
        self.order = Order.BY_KEY if settings.changes else Order.ONE_TASK if settings.compares_rows else Order.ANY
        self.flush_seconds = settings.flush_interval.total_seconds()
        self.max_batch_bytes = int(settings.max_batch_bytes or _BATCH_BYTES)

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes that it reads."""
        return self._route.metadata | set(self._settings.metadata_columns.values())

    def open(self) -> None:
        """Find or create the static table."""
        self._targets.open()
        if any(own.changes and own.write_mode == EQUALITY_DELETE for own in self._settings.by_table.values()):
            self._log.info(
                "rows are changed by equality deletes, which Spark, Trino, Flink and DuckDB read, and PyIceberg and "
                "Snowflake do not; for these remove write_mode: equality-delete"
            )

    def begin_batch(self, tables: Sequence[SourceTable]) -> None:
        """Load absent tables again; let mirrors follow the source tables of the batch.

        Raises:
            CalveError: Dead letters can no longer be written.
        """
        if self._letters:
            _ = self._letters.table
        self._mirrors.set(tables, names_by_table(self._route.table, tables))
        self._targets.begin_batch()

    def job(self, batch: int, time_tenths: int, prefix: str, replays: bool) -> TableJob:
        """Return its part of the job of a batch; event times of a replay do not count, because they are late."""
        settings, location, tables = self._settings, self.dead_letters, self._targets.known()
        return TableJob(
            label=self._label,
            catalog=self._key,
            route=self._route,
            tables=tables,
            dead_letters=replace(location, table=self._letters.table) if self._letters else location,
            fields=self._fields,
            event_time=None if replays else settings.event_time,
            complete_micros={name: at for name, at in self.tables.complete_micros.copy().items() if name in tables},
            infers=settings.auto_create,
            evolves=settings.schema_evolution,
            timestamp_unit=settings.timestamp_unit,
            timestamp_formats=tuple(settings.timestamp_formats),
            case_insensitive=settings.case_insensitive,
            histories=frozenset(
                name for name, table in tables.items() if isinstance(table, Table) and self._mirrors.is_history(table)
            ),
            full_rows=frozenset(
                name
                for name, table in tables.items()
                if isinstance(table, Table) and self._mirrors.has_full_rows(table)
            ),
            keep=settings.partial_updates == "keep",
            preserves_source_keys=not settings.changes
            or self._mirrors.preserve_source_keys(tables, settings.by_table.map(lambda own: own.key_columns)),
            write_properties=dict(settings.write_properties),
            shuffle_below_bytes=SHUFFLE_BELOW_BYTES[settings.distribution],
            metadata_columns=tuple(settings.metadata_columns.items()),
            batch=BatchMetadata(batch, time_tenths),
            own=self._options.own,
            **self._options.default,
        )


def _options_of(settings: IcebergSettings, metadata: MetadataColumns) -> dict[str, Any]:
    """Return the attributes of `TaskTables` that differ by table."""
    return {
        "branch": settings.target_branch,
        "rules": DraftRules.of(settings, metadata),
        "on_type_mismatch": settings.on_type_mismatch,
        "frees_columns": settings.on_dropped_column in ("optional", "drop"),
        "changes": settings.changes,
        "identifier_columns": tuple(settings.key_columns),
        "upsert": settings.upsert or settings.from_key,
        "from_key": settings.from_key,
        "full_row": settings.full_row,
        "write_mode": settings.write_mode,
        "row_rules": settings.rules,
        "gate": settings.publish.gate if settings.publish else None,
    }


def open(opening: Opening) -> Sink:
    """Create an Iceberg sink; it connects in `Sink.open`."""
    return IcebergSink(opening)
