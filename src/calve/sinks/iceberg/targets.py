"""Loads, creates and evolves the tables of one Iceberg sink, as its events need them; runs on the driver."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from typing import Any

from pyiceberg.schema import Schema

from calve.catalog.catalog import Catalog
from calve.columns.evolve import plan_evolution
from calve.columns.evolved import evolved
from calve.columns.infer import Inferred
from calve.commit.mirror_schema import noted
from calve.convert.event_time import fault as faulty_time
from calve.errors import (
    CalveError,
    CommitError,
    NoTargetError,
    SchemaConflictError,
    SettingsError,
    UnsupportedError,
    Verdict,
)
from calve.event.reject import Code
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.record.target import MERGE_ON_READ
from calve.sinks.iceberg.check_table import check_has_key, check_table, key_fault, missing
from calve.sinks.iceberg.draft_rules import DraftRules
from calve.sinks.iceberg.existing_tables import ExistingTables
from calve.sinks.iceberg.idle_tables import IdleTables
from calve.sinks.iceberg.ignored_options import ignored_options, other_pipelines
from calve.sinks.iceberg.inferred import absent_partitions, changes, fitted, unclear_columns
from calve.sinks.iceberg.metadata_columns import NONE as NO_METADATA
from calve.sinks.iceberg.metadata_columns import MetadataColumns
from calve.sinks.iceberg.mirrors import NONE, Mirrors
from calve.sinks.iceberg.settings import IcebergSettings
from calve.table.definition import partition_spec_fields, schema_from_columns, sort_fields
from calve.table.loaded import INFERRED, Absent, Draft, Table
from calve.write.writer import check

__all__ = ["SinkTargets"]


class SinkTargets:
    """All known tables of a sink, for its tasks. Called by the pipeline's thread; `refresh` by any thread.

    Args:
        catalog: The sink's catalog.
        settings: The sink's settings.
        static: The one table of a sink whose `table_identifier` has no `${…}`.
        log: Logs that a table was created or changed, or has invalid properties.
        mirrors: The source tables of the sink's mirrors.
        metadata: The columns that get the metadata of events.

    Attributes:
        defaults: `partition_by` and `sort_by` of tables that are created from events, where the settings have neither.
        written: The tables that earlier runs have written.
        rules: What the settings say of tables that are created from events, by table.
    """

    def __init__(
        self,
        catalog: Catalog,
        settings: IcebergSettings,
        static: str | None,
        log: Log,
        mirrors: Mirrors = NONE,
        metadata: MetadataColumns = NO_METADATA,
    ) -> None:
        self.catalog = catalog
        self.settings = settings
        self.mirrors = mirrors
        self._metadata = metadata
        self.rules = settings.by_table.map(lambda own: DraftRules.of(own, metadata))
        self._static = static
        self._log = log
        self._lock = threading.Lock()
        self._tables: dict[str, Table | Absent | Draft] = {}
        self._warned_time = False
        self.written = frozenset[str]()
        self.defaults: Mapping[str, Sequence[str]] = {}
        self._existing = ExistingTables(catalog, settings, mirrors, metadata, log)
        self._idle, self._names = IdleTables(), set[str]()

    def open(self) -> None:
        """Load the static table, or create it if its schema is set; called before the source starts.

        Raises:
            NoTargetError: It does not exist, and `auto_create` is off.
            SchemaConflictError: It cannot be created with these settings, or its `event_time` is not a time (unless its
                columns were inferred from events).
            UnsupportedError: It requires files that Calve cannot write.
        """
        if self._static is None:
            return
        table, own = self._existing.load(self._static), self.settings.of(self._static)
        if table is None and not own.auto_create:
            raise missing(self._static, self.catalog.name)
        if table is None and own.schema is not None:
            table = self._create(self._static, schema_from_columns(own.columns), own.partition_fields)
        if table is None:
            return
        if own.changes and (fault := key_fault(table, own, self.mirrors)):
            hint = "Set identifier_columns to the columns that identify an event's row"
            raise SchemaConflictError(f"Rows cannot be updated: {fault}", step="start", target=self._static, hint=hint)
        # of an inferred table events decided the type, and this must not stop the pipeline
        if not table.is_inferred and (bad := self._faulty_time(table)):
            hint = "Set another column, or add this one to the table"
            message = f"event_time of the table {self._static}: {bad}"
            raise SchemaConflictError(message, step="start", target=self._static, hint=hint)
        self._check(table)
        self._keep(self._static, table)

    def known(self) -> dict[str, Table | Absent | Draft]:
        """Return a copy of the known tables, for the tasks of a batch."""
        with self._lock:
            return dict(self._tables)

    def has(self, name: str) -> bool:
        """Return whether the sink has loaded a table, perhaps long ago."""
        with self._lock:
            return name in self._names

    def use(self, names: Iterable[str]) -> None:
        """Note the tables that the events of a batch were for."""
        with self._lock:
            self._idle.use(name for name in names if name in self._tables)

    def begin_batch(self) -> None:
        """Forget absent tables, which may exist by now, and idle ones; let mirrors follow their source tables.

        Raises:
            CommitError: A mirror cannot be changed.
        """
        with self._lock:
            self._tables = {name: table for name, table in self._tables.items() if isinstance(table, Table)}
            for name in self._idle.next_batch(self._tables.keys() - {self._static}):
                del self._tables[name]
                self._existing.forget(name)
            mirrored = [name for name in self.mirrors.names() if name in self._tables]
        for name in mirrored:
            if not self._existing.is_as_followed(name):
                self._existing.follow(name)
                self.refresh(name)

    def refresh(self, name: str, loaded: Table | None = None) -> None:
        """Update a known table after a commit, because others may have changed it.

        The committer's threads and the pipeline's thread, which adds columns, do this at the same time: a loaded table
        replaces the known one only if no other change happened since its load, so that no column is forgotten.

        Args:
            name: The table's identifier.
            loaded: The table after the commit, if the commit changed only marks; None: load it.
        """
        with self._lock:
            before = self._tables.get(name)
        if not isinstance(before, Table):
            return  # another sink's table: else each commit would cost one load per sink
        if loaded is not None and before.differs_by_marks_only(loaded):
            return  # keep the cached results for its columns
        table = self._existing.load(name)
        try:
            self._check(table)
        except UnsupportedError:
            table = None  # the next batch treats it as unknown
        newer = None if table is None else self._keyed(table)
        with self._lock:
            is_newer = self._tables.get(name) is before
            if is_newer and newer is not None:
                self._tables[name] = newer
            elif is_newer:
                del self._tables[name]
        if not is_newer:
            self.refresh(name)

    def find(self, name: str) -> bool:
        """Load a table if it is not known and exists; return whether it is known.

        Raises:
            CalveError: The catalog does not answer.
        """
        with self._lock:
            if isinstance(self._tables.get(name), Table):
                return True
        try:
            table = self._existing.find(name)
            self._check(table)
        except CalveError as error:
            if error.verdict is Verdict.AGAIN:
                raise
            return False  # `fit` tells
        if table is not None:
            self._keep(name, table)
        return table is not None

    def fit(self, name: str, inferred: Inferred | None) -> None:
        """Fit a table to the fields that tasks found: load or create an unknown table, add columns to a known one.

        Raises:
            CalveError: The catalog does not answer, or the sink's only table cannot be written.
        """
        with self._lock:
            before = self._tables.get(name)
        if isinstance(before, Table):
            self._fit_known(before, inferred)
            return
        self._existing.forget(name)
        try:
            target = self._existing.find(name) or self._make(name, inferred, isinstance(before, Draft))
            self._check(target)
        except UnsupportedError as error:
            if self._static is not None:
                raise
            self._log.warning_once(f"{error.message}; its events are rejected. {error.hint}", table=name)
            target = Absent(Code.SINK_REFUSED.value, error.message)
        except CalveError as error:
            if not self._concerns_only_this_table(name, error):
                raise
            target = Absent(Code.NO_SUCH_TABLE.value, f"the table {name} cannot be created: {error.message}")
        self._keep(name, target)

    def _concerns_only_this_table(self, name: str, error: CalveError) -> bool:
        """Return whether an error comes from this table's name or events, so that other tables can be created.

        Raises:
            CalveError: No table can be created.
        """
        if self._static is not None:
            return False
        if isinstance(error, NoTargetError):
            self.catalog.check_warehouse()  # without it, the catalog says of every namespace that it is missing
        if isinstance(error, (NoTargetError, SchemaConflictError, SettingsError)):  # e.g. no column for `partition_by`
            return True
        if not isinstance(error, CommitError) or error.verdict is not Verdict.ASK:
            return False
        settings = self.settings.of(name)  # the catalog refused something: check whether it refuses every table
        self.catalog.try_storing(name.rpartition(".")[0], settings.table_properties, settings.table_location)
        return True

    def _fit_known(self, table: Table, inferred: Inferred | None) -> None:
        try:
            self._keep(table.identifier, self._evolve(table, inferred) if inferred else table)
        except NoTargetError:  # dropped meanwhile: the next pass treats it as unknown
            with self._lock:
                self._tables.pop(table.identifier, None)

    def _make(self, name: str, inferred: Inferred | None, is_drafted: bool) -> Table | Absent | Draft:
        own, rules = self.settings.of(name), self.rules.of(name)
        if own.auto_create and (mirrored := self.mirrors.schema(name)) is not None:
            return self._make_mirror(name, mirrored)
        if not own.auto_create or inferred is None:
            return Absent(Code.NO_SUCH_TABLE.value, f"the table {name} does not exist and auto_create is off")
        rules = rules.with_key(inferred.key_columns) if own.from_key else rules
        for given in own.schemas:
            if fnmatchcase(name, given.tables):
                columns = schema_from_columns([asdict(column) for column in given.columns])
                return self._create(name, rules.identified(columns), [asdict(field) for field in given.partition_spec])
        if not is_drafted and (draft := rules.contended(name, inferred)):
            return Draft(draft)
        schema = rules.schema(inferred)
        if not schema.fields:
            what = f"no field with a value can become a column, so the table {name} cannot be created"
            return Absent(Code.NO_MATCHING_FIELDS.value, what)
        schema = self._metadata.complete(schema)
        if lacking := [key for key in rules.key_columns if key not in schema.column_names]:
            return Absent(Code.NO_KEY.value, f"no event has {lacking[0]}, which is in the key of the new table {name}")
        chosen = fitted(schema, rules, rules.types)
        marks = {} if inferred.is_declared and chosen == schema else INFERRED
        partitions, order = self._arrangement(own, chosen)
        table = self._create(name, rules.identified(chosen), partitions, marks, order)
        for line in unclear_columns(table, inferred, rules.types):
            self._log.info(line)
        for column in absent_partitions(schema, own):
            kind = chosen.find_type(column)
            self._log.warning_once(
                f"no event has {column} of partition_by; {name} has the column all the same, a {kind}", table=name
            )
        return table

    def _arrangement(self, own: IcebergSettings, schema: Schema) -> tuple[Sequence[str], Sequence[str]]:
        """Return partitions and sort order of a table from events; the source's only where they fit its columns."""
        if own.partition_by or own.sort_by:
            return own.partition_by, own.sort_by
        partitions, order = (self.defaults.get(name, ()) for name in ("partition_by", "sort_by"))
        columns = [column for column, _ in (*partition_spec_fields(partitions), *sort_fields(order))]
        return (partitions, order) if set(columns) <= set(schema.column_names) else ((), ())

    def _make_mirror(self, name: str, schema: Schema) -> Table | Absent:
        if fault := self.mirrors.names_fault(name):
            self._log.warning_once(f"the table {name} cannot be created: {fault}; its events are rejected", table=name)
            return Absent(Code.AMBIGUOUS_FIELD.value, f"the table {name} cannot be created: {fault}")
        sources, own = self.mirrors.of(name), self.settings.of(name)
        schema = Schema(*schema.fields) if own.full_row else schema  # without the key of the source
        table = self._create(name, schema, own.partition_fields, self.mirrors.marks(name))
        if {*map(noted, sources)} <= table.properties.items():  # it is as it was asked for, and nothing is to be added
            self._existing.has_followed(name)
            return table
        self._existing.follow(name)
        return self._existing.load(name) or Absent(Code.NO_SUCH_TABLE.value, f"the table {name} was dropped")

    def _create(
        self,
        name: str,
        schema: Schema,
        partitions: Sequence[Any],
        marks: Mapping[str, str] | None = None,
        sort_by: Sequence[str] | None = None,
    ) -> Table:
        own = self.settings.of(name)
        schema = self.rules.of(name).identified(self._metadata.complete(schema))
        fields = partition_spec_fields(partitions, schema)
        order = sort_fields(own.sort_by if sort_by is None else sort_by)
        if absent := [column for column, _ in order if column not in schema.column_names]:
            self._log.warning_once(
                f"{name} is created without {', '.join(absent)} of sort_by: no event has it", table=name
            )
        order = [(column, way) for column, way in order if column not in absent]
        properties = {**own.table_properties, **(marks or {})}
        table = self.catalog.create(name, schema.model_dump_json(), fields, properties, own.table_location, order)
        if name in self.written:
            self._log.warning_once(
                f"{name}, which earlier runs have written, was gone: it has no row from before now", table=name
            )
        self._log.info(f"created the table {name} with {many(len(table.schema.fields), 'column')}")
        return self._existing.ready(table)

    def _evolve(self, table: Table, inferred: Inferred) -> Table:
        types = self.rules.of(table.identifier).types
        ignores_case = self.settings.case_insensitive
        evolution = plan_evolution(table, inferred.root, types, ignores_case, free=inferred.absent)
        if not evolution.add and not evolution.widen and not evolution.free:
            return table
        if evolution.is_contended and table.draft is None:
            return replace(table, draft=evolved(table, evolution)[0])
        changed = self._existing.ready(self.catalog.evolve(table.identifier, evolution))
        for line in (*changes(table, evolution), *(unclear_columns(changed, inferred, types) if evolution.add else ())):
            self._log.info(line)
        return changed

    def _check(self, table: Table | Absent | Draft | None) -> None:
        """Check the properties of a table that configure its writer; log invalid ones once."""
        if not isinstance(table, Table):
            return
        own = self.settings.of(table.identifier)
        check_table(table, own, self._metadata)
        if own.full_row or (own.changes and not own.key_columns and self.mirrors.has_full_rows(table)):
            check_has_key(table, own)
        for complaint in check(table, {**table.properties, **self.settings.write_properties}):
            self._log.warning_once(f"the table {table.identifier} has {complaint}", table=table.identifier)
        for sentence in ignored_options(table, own):
            self._log.warning_once(sentence, table=table.identifier)
        if not self.written and (sentence := other_pipelines(table, self._log.pipeline)):
            self._log.warning_once(sentence, table=table.identifier)

    def _keep(self, name: str, table: Table | Absent | Draft) -> None:
        bad, kept = self._faulty_time(table) if isinstance(table, Table) else None, self._keyed(table)
        with self._lock:
            self._tables[name] = kept
            if isinstance(kept, Table):
                self._idle.use([name])
                self._names.add(name)
            tell, self._warned_time = bad and not self._warned_time, self._warned_time or bool(bad)
        if tell:
            self._log.info(f"the table {name} has no event time: {bad} (logged only for the first table)")

    def _faulty_time(self, table: Table) -> str | None:
        return faulty_time(table.schema, self.settings.event_time) if self.settings.event_time else None

    def _keyed(self, table: Table | Absent | Draft) -> Table | Absent | Draft:
        """Return a table, or an absent one if its rows must be changed but it has no key, or not that of its source."""
        own = self.settings.of(table.identifier) if isinstance(table, Table) else self.settings
        if not isinstance(table, Table) or not own.changes or self.mirrors.is_history(table):
            return table
        has_full_rows = self.mirrors.has_full_rows(table) and not own.key_columns
        if has_full_rows and own.write_mode != MERGE_ON_READ:
            self._log.warning_once(f"{table.identifier} has no key: its rows go by position", table=table.identifier)
        bad = key_fault(table, own, self.mirrors)
        if bad and not has_full_rows:
            self._log.warning_once(f"{bad}; its events are rejected", table=table.identifier)
        return Absent(Code.NO_KEY.value, bad) if bad and not has_full_rows else table
