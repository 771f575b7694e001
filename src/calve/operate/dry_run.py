"""Shows what a pipeline would do with some events. It uses the parts of a real run, but writes nothing."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pyarrow as pa

from calve import structs
from calve.catalog.catalog import Catalog, embedded
from calve.catalog.sqlite import SqliteCatalog, sqlite_file
from calve.engine import session
from calve.engine.engine import Engine
from calve.errors import SchemaConflictError, SettingsError
from calve.event.columns import EVENT, JSON, MALFORMED, SCHEMA, VERSION
from calve.event.document_version import versions
from calve.event.envelope.decoder import RECORD_KEY
from calve.event.envelope.shape import OPERATION_ATTRIBUTE
from calve.event.validate_json import validated
from calve.expression.scope import TAGS
from calve.observe import tally
from calve.operate.dry_run_catalog import DryRunCatalog
from calve.pipeline.pipeline_parts import PipelineParts, sink_labels
from calve.pipeline.plugins import declared
from calve.pipeline.spark_needs import needs_s3
from calve.processors.chain import Chain
from calve.record.receipt import Misfit
from calve.record.target import TableRef
from calve.settings import PipelineSettings
from calve.sinks.job import SinkJob
from calve.state.local_folder import LocalFolder
from calve.table.ddl import add_columns, create_table, set_identifier_fields, widen_column, write_ordered_by
from calve.task.job import Job
from calve.task.path import EventPath
from calve.task.step_clock import StepClock

__all__ = ["Destination", "EventFate", "Processing", "RejectReason", "TableFate", "Trial", "dry_run"]

_LINE = "_line"
"""The position of an event's sample, as decoding and processors change how many events there are."""
_PASSES = 5
"""A pass for an unknown table and one for new fields, as in a run; there are no other writers."""


@dataclass(frozen=True)
class Destination:
    """A table, and the sink that writes it."""

    sink: str
    table: str


@dataclass(frozen=True)
class RejectReason:
    """Why an event would become a dead letter: its target sink and table (empty: unknown), and the reason."""

    sink: str
    table: str
    code: str
    field: str
    reason: str


@dataclass(frozen=True)
class Processing:
    """What one processor did to an event.

    Attributes:
        processor: Its name and its number in the list.
        before: The event before it, as JSON; several after `split_event`.
        after: The event after it; empty if it was dropped or rejected.
        tags: The tags of each event after it.
    """

    processor: str
    before: list[str]
    after: list[str]
    tags: list[list[str]]


@dataclass
class EventFate:
    """The result for one event; without tables and rejects, no route selects it.

    Attributes:
        number: Its place among the samples, from 1.
        line: Its line in the file, from 1; None if that is unknown, or the file has no lines.
        tables: The tables that would get it as a row, each with its sink.
        rejects: Why other tables would reject it.
        processed: The processors that change it, in order.
        dropped: How many events a processor would drop: itself, or some of those into which it was split.
    """

    number: int
    line: int | None
    tables: list[Destination] = field(default_factory=list)
    rejects: list[RejectReason] = field(default_factory=list)
    processed: list[Processing] = field(default_factory=list)
    dropped: int = 0


@dataclass
class TableFate:
    """The result for one table.

    Attributes:
        catalog: The catalog's name.
        table: Its identifier.
        rows: How many rows it would get.
        statements: How it would be changed first, as SQL; empty: not at all.
        created: Whether it would be created.
        nulled: How many values of each column would become null because they do not fit its type.
        ignored: How many events have each field that has no column and would not be written.
        failed_rules: How many rows each rule would reject, tag or change; 0: all follow it.
        verdicts: What each rule of `publish` would say of a commit with these rows alone.
        documents: Whether it is an index of documents; its mapping is not checked.
    """

    catalog: str
    table: str
    rows: int = 0
    statements: list[str] = field(default_factory=list)
    created: bool = False
    nulled: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    failed_rules: dict[str, int] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    documents: bool = False


@dataclass(frozen=True)
class Trial:
    """The result of a dry run.

    Attributes:
        events: In their order.
        tables: The tables that would get rows or be created, in the order of their first event.
        missing_metadata: By route, `table_identifier` or `operation`: the metadata that it needs and the samples lack.
        has_unused_schema: Whether the source's topics have a schema that the samples, plain JSON, were not read with.
        wrapped: The new tables whose events look like Kafka Connect's JSON with schema.
    """

    events: list[EventFate]
    tables: list[TableFate]
    missing_metadata: dict[str, list[str]]
    has_unused_schema: bool = False
    wrapped: list[str] = field(default_factory=list)


def dry_run(
    settings: PipelineSettings,
    events: pa.Table,
    metadata: Mapping[str, int | str] | None = None,
    is_encoded: bool = False,
) -> Trial:
    """Process events like the first batch of a run, without writing anything; runs only on the driver.

    Spark starts only if a catalog is not on SQLite.

    Args:
        settings: The pipeline.
        events: `EVENT`, `MALFORMED`, perhaps `SCHEMA` and `RECORD_KEY`, and `file_row`, the line of each; other columns
            are ignored.
        metadata: The metadata of every event; all other metadata is missing.
        is_encoded: The events are values with a schema, as in the source's topics; otherwise they are JSON.

    Raises:
        SettingsError: The source has no such metadata.
        CalveError: The pipeline would not start, or a catalog or a schema registry does not answer.
    """
    kinds = declared(settings).metadata
    given = {*(metadata or {}), *({RECORD_KEY} & set(events.column_names))}
    if unknown := sorted(given - kinds.keys()):
        message = f"The source {settings.source.name} has no metadata {unknown[0]}"
        raise SettingsError(message, step="settings", hint=f"It has: {', '.join(sorted(kinds)) or 'none'}")
    typed = {name: _typed(name, value, kinds[name]) for name, value in (metadata or {}).items()}
    with contextlib.ExitStack() as stack:
        return _DryRun(settings, _DryRunCatalogs(settings, stack)).run(events, typed, is_encoded)


def _typed(name: str, value: int | str, kind: pa.DataType) -> int | str:
    """Return the value of a metadata attribute as its kind; that of a command line is a text."""
    if not pa.types.is_integer(kind):
        return str(value)
    try:
        return int(value)
    except ValueError:
        raise SettingsError(f"The metadata {name} is a whole number, not {value!r}", step="settings") from None


class _DryRunCatalogs:
    """The catalogs of a pipeline that only seem to change, by the keys of a run; all share one session."""

    def __init__(self, settings: PipelineSettings, stack: contextlib.ExitStack) -> None:
        self.made: dict[str, DryRunCatalog] = {}
        self._settings = settings
        self._stack = stack
        self._spark: Engine | None = None

    def get(self, properties: Mapping[str, str]) -> tuple[str, Catalog]:
        """Return the catalog for a sink's properties; it has all methods of a catalog that a pipeline calls."""
        key = repr(sorted(properties.items()))
        if key not in self.made:
            self.made[key] = self._make(dict(properties) or embedded(Path("lakehouse")))
        return key, cast(Catalog, self.made[key])

    def _make(self, properties: dict[str, str]) -> DryRunCatalog:
        name = properties.get("name", "iceberg")
        file = sqlite_file(properties)
        if file:
            return DryRunCatalog(name, properties, SqliteCatalog(file, properties).load)
        if properties.get("type", "").lower() == "jdbc":  # it would create its tables, or migrate them
            properties.pop("jdbc.schema-version", None)
            properties["jdbc.init-catalog-tables"] = "false"
        return DryRunCatalog(name, properties, Catalog(self._session(), properties).load)

    def _session(self) -> Engine:
        if self._spark is None:
            self._spark = session.start(needs_s3=needs_s3([self._settings]))
            self._stack.callback(session.stop, self._spark)
        return self._spark


class _DryRun:
    """Runs the driver's and the tasks' part of a batch, on catalogs that only seem to change."""

    def __init__(self, settings: PipelineSettings, catalogs: _DryRunCatalogs) -> None:
        self._catalogs = catalogs
        self._parts = PipelineParts(settings, LocalFolder(Path("calve-state")) / settings.name, catalogs.get)
        self._labels = sink_labels(settings)
        self._time_tenths = int(time.time() * 10)
        self._events: list[EventFate] = []
        self._tables: dict[tuple[str, str], TableFate] = {}
        self._wrapped: set[str] = set()

    def run(self, events: pa.Table, metadata: Mapping[str, int | str], is_encoded: bool) -> Trial:
        fates = self._events = [EventFate(*place) for place in enumerate(events["file_row"].to_pylist(), 1)]
        self._parts.open_tables()
        for key, catalog in self._catalogs.made.items():
            for name in catalog.created:
                self._table(key, name)
        job = replace(self._parts.job("", 0, self._time_tenths, 0, None), memory=self._parts.memory)
        needed = self._needed_metadata(job)
        chains = [branch.processors for branch in job.branches] + ([job.processors] if job.processors else [])
        added = {TAGS, *(name for processors in chains for name in processors.sets)}
        added |= {OPERATION_ATTRIBUTE} if job.record_keys else set()
        known_metadata = (
            metadata.keys()
            | ({RECORD_KEY} & set(events.column_names))
            | (job.envelopes.metadata.keys() if job.envelopes else set())
            | added
        )
        missing = {user: sorted(names - known_metadata) for user, names in needed.items() if names - known_metadata}
        nulls = {name: None for names in missing.values() for name in names}
        samples = _with_metadata(events, {**nulls, **metadata})
        self._write(self._route(job if is_encoded else replace(job, serde=None), samples))
        for (key, name), table in self._tables.items():
            if key in self._catalogs.made:
                _explain(self._catalogs.made[key], name, table)
        has_unused_schema = job.serde is not None and not is_encoded
        return Trial(fates, list(self._tables.values()), missing, has_unused_schema, sorted(self._wrapped))

    def _needed_metadata(self, job: Job) -> dict[str, frozenset[str]]:
        """Return the metadata that each route, table name and operation needs."""
        needed: dict[str, frozenset[str]] = {}
        for label, sink in zip(self._labels, job.sinks, strict=True):
            for gate in sink.route.gates:
                of = "" if gate.pipeline == job.pipeline else f" of {gate.pipeline}"
                needed |= {f"the route {name}{of}": condition.metadata for name, condition in gate.conditions.items()}
            needed[f"the {sink.route.field} of {label}"] = sink.route.table.metadata
            if sink.route.operations:
                used = [text.metadata for _, text, _ in sink.route.operations]
                needed[f"the operation of {label}"] = frozenset().union(*used)
        for branch in job.branches:
            conditions = [condition for gate in branch.gates for condition in gate.conditions.values()]
            needed[f"a route to {branch.name}"] = frozenset().union(*(condition.metadata for condition in conditions))
            needed[f"a processor of {branch.name}"] = branch.processors.metadata
        if job.processors:
            needed["a processor"] = job.processors.metadata
        if job.record_keys:
            needed["identifier_columns: from_key"] = frozenset({RECORD_KEY})
        return needed

    def _route(self, job: Job, samples: pa.Table) -> dict[TableRef, pa.Table]:
        """Return the events of each table, with the position of their sample as `_LINE`."""
        path = EventPath(job, 0, self._reject, StepClock(), needs_text=True, notes=self._note_processing)
        events = path.decode(samples.append_column(_LINE, pa.array(range(len(samples)), pa.int64())))
        if not len(events):
            return {}
        events = path.process(events)
        parts = [(routed.rows, *share) for routed in path.full_route(events) for share in routed.shares]
        parts.sort(key=lambda part: (part[1].sink, 0 if part[2] is None else part[2][0].as_py()))
        return {target: rows if at is None else rows.take(at) for rows, target, at in parts}

    def _note_processing(self, chain: Chain, events: pa.Table) -> None:
        rows = events if JSON in events.column_names else validated(events).rows
        fates = [self._events[line] for line in rows[_LINE].to_pylist()]
        before = [[text] for text in rows[JSON].to_pylist()]
        texts = rows[TAGS].to_pylist() if TAGS in rows.column_names else [None] * len(rows)
        tags = [[[] if text is None else structs.decode(text, list[str])] for text in texts]
        for label, working in chain.each(rows):
            after: list[list[str]] = [[] for _ in fates]
            tags_after: list[list[list[str]]] = [[] for _ in fates]
            for row in working.alive:
                after[working.origins[row]].append(working.json_text(row))
                tags_after[working.origins[row]].append(working.tags.get(row, []))
            failed = Counter(working.origins[reject.row] for reject in working.rejects)
            for number, fate in enumerate(fates):
                if (before[number], tags[number]) != (after[number], tags_after[number]):
                    fate.processed.append(Processing(label, before[number], after[number], tags_after[number]))
                if after[number] or not failed[number]:
                    fate.dropped += max(len(before[number]) - len(after[number]) - failed[number], 0)
            working.rejects.clear()
            before, tags = after, tags_after

    def _write(self, parts: dict[TableRef, pa.Table]) -> None:
        """Create and evolve tables, and convert their events, in passes as in a batch."""
        for _ in range(_PASSES):
            sinks = self._parts.job("", 0, self._time_tenths, 0, None).sinks
            outcomes = [self._write_part(sinks[target.sink], target, rows) for target, rows in parts.items()]
            misfits = [misfit for misfit in outcomes if misfit]
            self._wrapped |= {
                misfit.target.table for misfit in misfits if misfit.inferred and misfit.inferred.is_wrapped
            }
            if not misfits:
                return
            self._parts.tables.fit(misfits)
            parts = {misfit.target: parts[misfit.target] for misfit in misfits}
        names = ", ".join(sorted(name for _, name in parts))
        message = f"The events still do not fit after {_PASSES} passes: {names}"
        raise SchemaConflictError(message, step="convert", target=names)

    def _write_part(self, sink: SinkJob, target: TableRef, rows: pa.Table) -> Misfit | None:
        name, lines = target.table, rows[_LINE].to_pylist()
        preview = sink.preview(name, rows.append_column(VERSION, versions(0, (0, 1), 0, len(rows))))
        if preview.is_misfit:
            return Misfit(target, preview.inferred)
        self._reject(target, rows, preview.rejects)
        if preview.is_absent:
            return None
        accepted = sorted(set(range(len(rows))) - set(preview.rejects["row"].to_pylist()))
        table = self._table(preview.catalog, name) if preview.catalog else self._index(sink.label, name)
        table.rows += len(accepted)
        tally.add(table.nulled, preview.nulled)
        tally.add_bounded(table.ignored, preview.ignored)
        tally.add(table.failed_rules, preview.failed_rules)
        table.verdicts |= preview.verdicts
        for row in accepted:
            self._events[lines[row]].tables.append(Destination(self._labels[target.sink], name))
        return None

    def _table(self, catalog: str, name: str) -> TableFate:
        return self._tables.setdefault((catalog, name), TableFate(self._catalogs.made[catalog].name, name))

    def _index(self, sink: str, name: str) -> TableFate:
        return self._tables.setdefault((sink, name), TableFate(sink, name, documents=True))

    def _reject(self, target: TableRef, events: pa.Table, rejects: pa.Table) -> None:
        lines = events[_LINE].to_pylist()
        for row in rejects.to_pylist():
            reject = RejectReason(self._labels[target.sink], target.table, row["code"], row["field"], row["reason"])
            self._events[lines[row["row"]]].rejects.append(reject)


def _with_metadata(events: pa.Table, metadata: Mapping[str, int | str | None]) -> pa.Table:
    """Return the events with exactly this metadata; None is a column of nulls."""
    bare = events.select([name for name in (EVENT, MALFORMED, SCHEMA, RECORD_KEY) if name in events.column_names])
    for name, value in sorted(metadata.items()):
        if name in bare.column_names:
            continue  # each record has its own
        kind = pa.int64() if isinstance(value, int) else pa.string()
        bare = bare.append_column(name, pa.repeat(pa.scalar(value, kind), len(events)))
    return bare


def _explain(catalog: DryRunCatalog, name: str, table: TableFate) -> None:
    whole = f"{catalog.name}.{name}"
    created, added = catalog.created.get(name), catalog.added.get(name)
    if created:
        table.created = True
        table.statements.append(
            create_table(whole, created.schema, created.partition_fields, created.properties, created.location)
        )
        later = [set_identifier_fields(whole, created.schema), write_ordered_by(whole, created.sort_fields)]
        table.statements += filter(None, later)
    if added:
        table.statements.append(add_columns(whole, added))
    table.statements += [widen_column(whole, *widening) for widening in catalog.widened.get(name, [])]
