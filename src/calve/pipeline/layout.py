"""A pipeline's parts, built from its settings: source, sinks with their tables, and when things are due."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from calve.commit.catalog import Catalog
from calve.commit.storage import for_executors
from calve.convert.fields import Fields
from calve.expression import Format, compile_condition, compile_format
from calve.observe.log import Log
from calve.pipeline.committer import CommitSettings
from calve.pipeline.job import Job, Misfit, SinkJob, Target
from calve.pipeline.plugins import accepts, metadata_of, narrowed, open_source, origin_of
from calve.route.route import Gate, SinkRoute
from calve.settings import PipelineSettings, SinkEntry
from calve.sinks.iceberg.dead_letters import LetterTarget
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.iceberg.targets import SinkTargets
from calve.sources.source import Source
from calve.write.dead_letters import DeadLetterPlace

__all__ = ["Layout", "dead_letter_places", "replay_name", "sink_labels", "sink_places"]

_POOL = 8

CatalogOf = Callable[[Mapping[str, str]], tuple[str, Catalog]]
"""Gives a catalog, and the key under which receipts name it, for the properties of a sink."""


def replay_name(pipeline: str) -> str:
    """Name the run that sends a pipeline's dead letters again, which commits beside the pipeline itself."""
    return f"{pipeline}.replay"


def sink_labels(settings: PipelineSettings) -> list[str]:
    """Name the sinks in dead letters: by their plugin, or by their place where several are of one.

    Those of a pipeline that the first one feeds have its name before them: `errors.iceberg`.
    """
    names = [_within(settings, sink, sink.name) for sink in settings.sinks]
    places = sink_places(settings)
    return [name if names.count(name) == 1 else place for name, place in zip(names, places, strict=True)]


def sink_places(settings: PipelineSettings) -> list[str]:
    """Say where the sinks stand: `sink[1].iceberg`, or `errors.sink[1].iceberg` in a pipeline that is fed."""
    return [_within(settings, sink, sink.path) for sink in settings.sinks]


def _within(settings: PipelineSettings, sink: SinkEntry, name: str) -> str:
    return name if sink.pipeline == settings.name else f"{sink.pipeline}.{name}"


def dead_letter_places(settings: PipelineSettings, folder: Path) -> list[str]:
    """Say where each sink's dead letters go, or where their table is noted; `folder` is `<state>/<pipeline>`."""
    return [(sink.value.dlq_prefix or str(folder.absolute() / "dlq")).rstrip("/") for sink in settings.sinks]


def _letter_targets(targets: Sequence[SinkTargets], folder: Path, log: Log) -> dict[int, LetterTarget]:
    """Give the tables of dead letters of those sinks that have one."""
    return {
        number: LetterTarget(target.catalog, target.settings.dlq_table, folder, log)
        for number, target in enumerate(targets)
        if target.settings.dlq_table
    }


class Layout:
    """The parts of one pipeline; runs on the driver.

    Args:
        settings: As parsed.
        folder: `<state>/<pipeline>`.
        catalog_of: Opens catalogs; sinks with equal properties share one.
        rejects: Gives dead letters in place of the source's events, to send them again.
    """

    def __init__(
        self, settings: PipelineSettings, folder: Path, catalog_of: CatalogOf, rejects: Source | None = None
    ) -> None:
        self.name = replay_name(settings.name) if rejects else settings.name
        self._pipeline = settings.name
        self._replays = rejects is not None
        self.feeds = () if rejects else settings.feeds
        names = metadata_of(settings)
        self._sinks: list[IcebergSettings] = [sink.value for sink in settings.sinks]
        self._labels = sink_labels(settings)
        self._fields = [Fields(frozenset(sink.include_keys), frozenset(sink.exclude_keys)) for sink in settings.sinks]
        self._routes = [
            SinkRoute(
                compile_format(sink.value.table_identifier, names), _gates(sink, names), _operation(sink.value, names)
            )
            for sink in settings.sinks
        ]
        log = Log(self.name)
        self._targets: list[SinkTargets] = []
        self._keys: list[str] = []
        self.catalogs: dict[str, Catalog] = {}
        for sink, route in zip(self._sinks, self._routes, strict=True):
            key, catalog = catalog_of(sink.catalog or {})
            self._keys.append(key)
            self.catalogs[key] = catalog
            self._targets.append(SinkTargets(catalog, sink, route.table.static, log))
        self._places = [
            DeadLetterPlace(place, for_executors(target.catalog.properties))
            for place, target in zip(dead_letter_places(settings, folder), self._targets, strict=True)
        ]
        self.dead_letters = list(dict.fromkeys(place.location for place in self._places))
        self._letters = _letter_targets(self._targets, folder.absolute() / "dlq", log)
        self.letter_tables = frozenset(one.identifier for one in self._letters.values())
        self.source: Source = rejects or open_source(settings, folder)
        used = [route.metadata for route in self._routes]
        self._nonce = uuid.uuid4().hex[:6]  # what a killed run left behind has other names
        reader = self.source.reader
        self._reader = reader if rejects else narrowed(settings, reader, frozenset().union(*used))
        self._origin = () if rejects else origin_of(settings)
        self.source_accepts = not rejects and accepts(settings)
        self.in_order = any(sink.changes for sink in self._sinks)
        self.flush_seconds = min(sink.flush_interval.total_seconds() for sink in self._sinks)
        self.max_batch_bytes = min(int(sink.max_batch_bytes) for sink in self._sinks)
        self.commits = CommitSettings(
            min(sink.commit_interval.total_seconds() for sink in self._sinks),
            min(int(sink.commit_size) for sink in self._sinks),
        )

    def open_tables(self) -> None:
        """Reach the catalogs; find or create the static tables."""
        for catalog in self.catalogs.values():
            catalog.open()
        for target in self._targets:
            target.open()
        self.open_dead_letters()

    def open_dead_letters(self) -> None:
        """Find or create the tables of dead letters."""
        for letters in self._letters.values():
            letters.open()

    def note_dead_letters(self) -> None:
        """Write down where the tables of dead letters are."""
        for letters in self._letters.values():
            letters.note()

    def begin_batch(self) -> None:
        """Look anew for tables that were absent.

        Raises:
            CalveError: Rejects cannot be written any more where they are to go.
        """
        for letters in self._letters.values():
            _ = letters.table
        for target in self._targets:
            target.begin_batch()

    def refresh(self, catalog: str, table: str) -> None:
        """Load a table again that was committed to."""
        for number, (key, target) in enumerate(zip(self._keys, self._targets, strict=True)):
            letters = self._letters.get(number)
            if key == catalog:
                target.refresh(table)
            if key == catalog and letters and letters.identifier == table:
                letters.refresh()

    def fit(self, misfits: list[Misfit]) -> None:
        """Create or evolve tables side by side."""
        with ThreadPoolExecutor(_POOL) as pool:
            for outcome in [
                pool.submit(self._targets[misfit.target[0]].fit, misfit.target[1], misfit.inferred)
                for misfit in misfits
            ]:
                outcome.result()

    def io_properties(self) -> dict[str, dict[str, str]]:
        """Give what a FileIO needs for dead letters, by their location."""
        return {place.location: place.io_properties for place in self._places}

    def job(self, state_id: str, batch: int, number: int, only: Mapping[int, frozenset[Target]] | None) -> Job:
        """Make the job of one pass over a batch."""
        sinks = tuple(self._sink_job(index) for index in range(len(self._sinks)))
        return Job(
            pipeline=self._pipeline,
            run=f"{self.name}-{state_id[:8]}-{batch:08d}-{self._nonce}",
            reader=self._reader,
            sinks=sinks,
            max_open_writers=min(sink.max_open_writers for sink in self._sinks),
            origin=self._origin,
            number=number,
            only=only,
        )

    def _sink_job(self, index: int) -> SinkJob:
        sink, target, letters = self._sinks[index], self._targets[index], self._letters.get(index)
        place = self._places[index]
        return SinkJob(
            label=self._labels[index],
            catalog=self._keys[index],
            route=self._routes[index],
            tables=target.known(),
            dead_letters=replace(place, table=letters.table) if letters else place,
            branch=sink.branch or "main",
            fields=self._fields[index],
            event_time=None if self._replays else sink.event_time,  # dead letters are late
            infers=sink.auto_create,
            evolves=sink.schema_evolution,
            on_type_mismatch=sink.on_type_mismatch,
            case_insensitive=sink.case_insensitive,
            changes=sink.changes,
            identifier_columns=tuple(sink.identifier_columns),
            upsert=sink.upsert,
            write_mode=sink.write_mode,
            write_properties=dict(sink.write_properties),
            refused=dict(target.refused),
        )


def _gates(sink: SinkEntry, names: Collection[str]) -> tuple[Gate, ...]:
    return tuple(
        Gate(
            gate.pipeline, {name: compile_condition(text, names) for name, text in gate.conditions.items()}, gate.routes
        )
        for gate in sink.gates
    )


def _operation(sink: IcebergSettings, names: Collection[str]) -> Format | None:
    return None if sink.operation is None else compile_format(sink.operation, names)
