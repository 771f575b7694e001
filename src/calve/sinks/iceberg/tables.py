"""The tables of an Iceberg sink on the driver, to which staged files are committed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

from calve.acknowledge.periods import period_at, unit_of
from calve.acknowledge.watermark import to_datetime
from calve.catalog.catalog import Catalog
from calve.columns.infer import Inferred
from calve.commit.compare import Comparison
from calve.dead_letters.open_table import LetterTarget
from calve.observe.log import Log
from calve.record.target import BranchRef
from calve.record.written import StagedFiles
from calve.reduce.key import Key
from calve.route.by_table import ByTable, TablePattern
from calve.route.sink_route import SinkRoute
from calve.route.source_tables import certain_targets, names_by_table
from calve.sinks.iceberg.epoch import read_as_milliseconds
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.iceberg.targets import SinkTargets
from calve.sinks.sink import CommitSettings
from calve.sources.source import SourceTable
from calve.table.completeness import Completeness
from calve.table.gate import CommitGate
from calve.table.limits import MaintenanceLimits
from calve.table.loaded import Table
from calve.table.schema import path_of, read_schema

__all__ = ["IcebergTables"]

T = TypeVar("T")


class IcebergTables:
    """Implements `SinkTables`.

    Args:
        settings: The sink's settings.
        route: Where its events go.
        key: The key of its catalog in receipts.
        targets: Loads, creates and evolves the tables.
        letters: The table of its dead letters, if it has one.
        log: The pipeline's log.
    """

    def __init__(
        self,
        settings: IcebergSettings,
        route: SinkRoute,
        key: str,
        targets: SinkTargets,
        letters: LetterTarget | None,
        log: Log,
    ) -> None:
        self._settings = settings
        self._route = route
        self._key = key
        self._catalog = targets.catalog
        self._targets = targets
        self._log = log
        self.letters = letters
        self.static = route.table.static
        self.catalogs: Mapping[str, Catalog] = {key: targets.catalog}
        intervals = settings.by_table.map(
            lambda own: (own.commit_within if own.commit_on == "watermark" else own.commit_interval).total_seconds()
        )
        by_watermark = settings.by_table.map(lambda own: own.commit_on == "watermark")
        self.commits = CommitSettings(
            intervals.default,
            int(settings.commit_size),
            (self._of_own(intervals, math.inf),),
            (self._of_own(by_watermark, False),),
            settings.max_commits_per_second or math.inf,
        )
        self.complete_micros: dict[str, int] = {}
        self.may_grow = settings.max_batch_bytes is None and not settings.compares_rows
        self.always_shuffles = settings.distribution == "hash"
        self.max_open_writers = settings.max_open_writers
        self.equality_delete_limit = settings.equality_delete_limit or 0
        self.may_index_keys = settings.key_index == "auto"
        self.keeps_row_ids = settings.keep_row_ids

    @property
    def key_fields(self) -> frozenset[str]:
        """The top-level fields that may be in the key of a known table."""
        tables = [table for table in self._targets.known().values() if isinstance(table, Table)]
        names = [name for table in tables for name in table.schema.identifier_field_names()]
        names = [*(name for own in self._settings.by_table.values() for name in own.key_columns), *names]
        return frozenset(names) | frozenset(name.partition(".")[0] for name in names)

    def lacking(self, tables: Sequence[SourceTable]) -> list[str]:
        """Return the targets that get all rows of some source tables, and are not known yet."""
        names = self._targets.known()
        return [name for name in certain_targets(self._route, tables) if name not in names]

    def _of_own(self, values: ByTable[T], other: T) -> ByTable[T]:
        """Return the values of the sink's tables, and another one for tables that it never writes."""
        if self.static is None:
            return values
        return ByTable(other, ((TablePattern(re.escape(self.static), is_regex=True), values.of(self.static)),))

    def may_write(self, target: BranchRef) -> bool:
        """Return whether its events may go to a branch of a table; its dead letters do not count as its events."""
        is_letters = self.letters is not None and self.letters.identifier == target.table
        return (
            (target.catalog, target.branch) == (self._key, self._branch(target.table))
            and self.static in (None, target.table)
            and not is_letters
        )

    def has(self, catalog: str, table: str) -> bool:
        """Return whether a table is one of the sink's known tables."""
        return catalog == self._key and self._targets.has(table)

    def targets_of(self, tables: Sequence[SourceTable]) -> list[BranchRef]:
        """Return where the rows of source tables go, as far as the tables alone decide it."""
        names = dict.fromkeys(names_by_table(self._route.table, tables).values())
        return [BranchRef(self._key, name, self._branch(name)) for name in names]

    def _branch(self, table: str) -> str:
        return self._settings.of(table).target_branch

    def gate(self, table: str) -> CommitGate | None:
        """Return when commits of a table are published; None: they need not be."""
        publish = self._settings.of(table).publish
        return publish.gate if publish else None

    def comparison(self, table: SourceTable, target: BranchRef) -> Comparison | str | None:
        """Return how a target is compared with a source table, or why it cannot be; None: there is no such target."""
        settings = self._settings.of(target.table)
        if target not in self.targets_of([table]):
            return None
        if not settings.changes:
            return "its rows are only appended"
        if (loaded := self._catalog.load(target.table)) is None:
            return None
        key = Key(loaded, settings.key_columns)
        paths = tuple(path_of(loaded.schema, number) for number in key.ids)
        columns = frozenset(read_schema(table.schema_json).column_names)
        return key.fault or Comparison(paths, settings.write_mode, columns, frozenset(settings.metadata_columns))

    def limits(self, table: str) -> MaintenanceLimits | None:
        """Return when a table needs maintenance; None: never."""
        return self._settings.of(table).limits

    def completeness(self, table: str) -> Completeness:
        """Return how it is decided through which time a table is complete."""
        own = self._settings.of(table)
        lateness = own.allowed_lateness // timedelta(microseconds=1)
        idle_seconds = own.idle_after.total_seconds()
        return Completeness(own.event_time, lateness, idle_seconds, own.commit_on == "watermark")

    def advance(self, table: str, micros: int) -> bool:
        """Record through which time the staged batches complete a table; return whether a partition is now complete."""
        before, self.complete_micros[table] = self.complete_micros.get(table), micros
        if before is None or before == micros or self._settings.of(table).commit_on != "watermark":
            return False
        loaded = self._targets.known().get(table)
        unit = unit_of(loaded, self._settings.of(table).event_time) if isinstance(loaded, Table) else "day"
        return period_at(unit, to_datetime(before)) != period_at(unit, to_datetime(micros))

    def maintains(self, catalog: str, table: str) -> bool:
        """Return whether a table is one of the sink's, the one for its dead letters included."""
        is_letters = self.letters is not None and self.letters.identifier == table
        return self.has(catalog, table) or (catalog == self._key and is_letters)

    def refresh(self, catalog: str, table: str, loaded: Table | None) -> None:
        """Set a table to its state after a commit, or load it again; the table of dead letters is always loaded."""
        if catalog == self._key:
            self._targets.refresh(table, loaded)
        if catalog == self._key and self.letters and self.letters.identifier == table:
            self.letters.refresh()

    def use(self, tables: Iterable[str]) -> None:
        """Note the tables that the events of a batch were for; others are forgotten when there are many."""
        self._targets.use(tables)

    def check_times(self, entries: Iterable[StagedFiles]) -> None:
        """Warn once about each column whose numbers look like seconds but were read as milliseconds."""
        tables = self._targets.known()
        for entry in entries if self._settings.timestamp_unit in (None, "ms") else ():
            table = tables.get(entry.table) if entry.catalog == self._key else None
            for name in read_as_milliseconds(table.schema, entry.files) if isinstance(table, Table) else ():
                self._log.warning_once(
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
