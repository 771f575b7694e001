"""A pipeline's parts, built from its settings: source, sinks with their targets, and when things are due."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from calve.dead_letters.pending import PendingLetters
from calve.dead_letters.room import Room, RoomLimits
from calve.event.envelope.decoder import RECORD_KEY, Envelopes
from calve.event.envelope.exact import RequestedAttributes
from calve.event.envelope.shape import IMPLIED_OPERATION, OPERATION_ATTRIBUTE, change_stream
from calve.event.keyed.decoder import RecordKeys
from calve.observe.blueprint import Blueprint
from calve.observe.log import Log
from calve.pipeline.announcer import Announcer, subscriptions
from calve.pipeline.batch_size import FIRST_BYTES
from calve.pipeline.blueprint import blueprint_of
from calve.pipeline.branches import CompiledProcessors
from calve.pipeline.letters import PipelineLetters, letter_topics
from calve.pipeline.lineage import lineage_of
from calve.pipeline.masking import masks_of
from calve.pipeline.plugins import (
    declared,
    narrowed,
    open_sink,
    open_source,
    source_kind,
)
from calve.pipeline.row_changes import changed_table
from calve.pipeline.tables import PipelineTables
from calve.record.receipt import Misfit
from calve.record.target import TableRef
from calve.settings import PipelineSettings, SinkEntry
from calve.settings.otlp import OtlpSettings
from calve.sinks.sink import CatalogOf, Opening, Order, Sink
from calve.sources.kafka.settings import RECORD
from calve.sources.settings import SourceSettings
from calve.sources.source import OfTables, Planned, Position, Source, SourceTable
from calve.state.folder import StateFolder
from calve.task.job import Job
from calve.task.record_times import RecordTime

__all__ = ["PipelineParts", "dead_letter_locations", "replay_name", "sink_labels", "sink_paths"]


def replay_name(pipeline: str) -> str:
    """Return the name of a pipeline's replay, which commits beside the pipeline itself."""
    return f"{pipeline}.replay"


def sink_labels(settings: PipelineSettings) -> list[str]:
    """Return the sinks' names in dead letters: the plugin, or the position if several sinks have the same plugin.

    Sinks of a fed pipeline have its name as prefix: `errors.iceberg`.
    """
    names = [_within(settings, sink, sink.name) for sink in settings.sinks]
    locations = sink_paths(settings)
    return [name if names.count(name) == 1 else location for name, location in zip(names, locations, strict=True)]


def sink_paths(settings: PipelineSettings) -> list[str]:
    """Return the sinks' positions: `sink[1].iceberg`, or `errors.sink[1].iceberg` in a fed pipeline."""
    return [_within(settings, sink, sink.path) for sink in settings.sinks]


def _within(settings: PipelineSettings, sink: SinkEntry, name: str) -> str:
    return name if sink.pipeline == settings.name else f"{sink.pipeline}.{name}"


def dead_letter_locations(settings: PipelineSettings, folder: StateFolder) -> list[str]:
    """Return the folder of each sink's dead letters, or of the note of their table or topic.

    Args:
        settings: As parsed.
        folder: `<state>/<pipeline>`.
    """
    places = [folder / "dlq" / (sink.value.dlq_topic.topic if sink.value.dlq_topic else "") for sink in settings.sinks]
    chosen = [sink.value.dlq_prefix or str(place) for sink, place in zip(settings.sinks, places, strict=True)]
    return [_absolute(location).rstrip("/") for location in chosen]


def _limits(settings: PipelineSettings, folder: StateFolder) -> dict[str, RoomLimits]:
    locations = dead_letter_locations(settings, folder)
    return {location: sink.value.dlq_limits for location, sink in zip(locations, settings.sinks, strict=True)}


def _absolute(location: str) -> str:
    """Make a local folder absolute: workers may run in another one."""
    return location if "://" in location else str(Path(location).expanduser().absolute())


def _record_keys(settings: PipelineSettings) -> RecordKeys | None:
    """Return how the keys of records become columns of the rows of a pipeline; None: no sink wants them."""
    columns = [sink.value.key_column for sink in settings.sinks if sink.value.adds_keys]
    return RecordKeys(columns[0]) if columns else None


def _envelopes(source: SourceSettings, sinks: Sequence[SinkEntry], keeps_empty: bool) -> Envelopes | None:
    wanted = RequestedAttributes(full_rows=any(sink.value.has_full_rows for sink in sinks))
    return Envelopes(source.envelope, wanted, source.unavailable_value, keeps_empty) if source.envelope else None


def _used(sinks: Iterable[Sink], settings: PipelineSettings, names: Iterable[str]) -> frozenset[str]:
    """Return the metadata that sinks and dead letters use; only a topic keeps keys and headers of these."""
    used = frozenset[str]().union(*(sink.metadata for sink in sinks))
    return used | ({RECORD} & {*names} if any(sink.value.dlq_topic for sink in settings.sinks) else set())


def _described(
    settings: PipelineSettings, is_replay: bool
) -> tuple[tuple[str, ...], Blueprint | None, OtlpSettings | None]:
    """Return the pipelines that run as a part of a pipeline, its description, and its collector; none of a replay."""
    return ((), None, None) if is_replay else (settings.feeds, blueprint_of(settings), settings.otlp)


class PipelineParts:
    """The parts of one pipeline; runs on the driver.

    Args:
        settings: As parsed.
        folder: `<state>/<pipeline>`.
        catalog_of: Opens catalogs; sinks with equal properties share one.
        rejects: A source of dead letters instead of the pipeline's own, for a replay.
    """

    def __init__(
        self, settings: PipelineSettings, folder: StateFolder, catalog_of: CatalogOf, rejects: Source | None = None
    ) -> None:
        self.name = replay_name(settings.name) if rejects else settings.name
        self._pipeline = settings.name
        self._replays = rejects is not None
        self.feeds, self.blueprint, self.otlp = _described(settings, is_replay=rejects is not None)
        source = declared(settings)
        self._keys, is_change = _record_keys(settings), change_stream(source.envelope) is not None
        is_keyed = self._keys is not None
        self._serde = replace(source.serde, is_keyed=is_keyed) if source.serde else None
        self._envelopes = _envelopes(source, settings.sinks, is_keyed and not is_change)
        names = {**source.metadata, **(self._envelopes.metadata if self._envelopes else {})}
        names |= {OPERATION_ATTRIBUTE: pa.string()} if is_keyed else {}
        self._masks = masks_of(settings)
        names = {name: kind for name, kind in names.items() if not self._masks or name not in self._masks.hidden}
        self._processors = CompiledProcessors(settings, names)
        implied = IMPLIED_OPERATION if is_change or is_keyed or source.emits_changes else None
        log, is_copy, defaults = Log(self.name), source.emits_changes, source.table_defaults
        locations = dead_letter_locations(settings, folder)
        self._sinks: list[Sink] = [
            open_sink(Opening(sink, label, names, location, catalog_of, log, implied, is_copy, not rejects, defaults))
            for (sink, names), label, location in zip(
                map(self._processors.before, settings.sinks), sink_labels(settings), locations, strict=True
            )
        ]
        self.tables = PipelineTables(self._sinks)
        receivers = [] if rejects else subscriptions(settings)
        self.announcer = Announcer(lineage_of(settings, self.name), receivers, folder, self.tables)
        self.letters = PipelineLetters(self._sinks, letter_topics(settings, locations, self.name))
        self.room = Room({} if rejects else _limits(settings, folder))  # a replay makes room
        self.pending = None if rejects else PendingLetters(str(folder), settings.name).count
        self.source: Source = rejects or open_source(settings, folder, catalog_of)
        self._used = _used(self._sinks, settings, names) | ({RECORD_KEY} if is_change or is_keyed else set())
        self._used = (self._used | self._processors.metadata) - self._processors.sets
        self._nonce = uuid.uuid4().hex[:6]  # files of a killed run have other names
        reader = self.source.reader
        self._origin = () if rejects else source.origin
        time = "" if rejects else source.record_time
        self._record_time = RecordTime(time, self._origin, time in self._used) if time else None
        self._reader = reader if rejects else narrowed(reader, self._used | {time} if time else self._used)
        self.source_kind = "dead letters" if rejects else source_kind(settings)
        self.source_accepts, self.source_keeps = (False, False) if rejects else (source.accepts, source.keeps_events)
        is_typed = isinstance(self.source, OfTables)  # then tables are made before their first batch is read
        self._learns_tables = bool(self.tables.by_sink) and not is_typed
        self.in_order = any(sink.order is Order.BY_KEY for sink in self._sinks)
        self.memory = None if rejects else self._processors.memory
        self.one_task = any(sink.order is Order.ONE_TASK for sink in self._sinks) or self.memory is not None
        self.flush_seconds = min(sink.flush_seconds for sink in self._sinks)
        self.max_batch_bytes = min(sink.max_batch_bytes for sink in self._sinks)

    @property
    def may_grow(self) -> bool:
        """Whether batches of a backlog may be larger: not row changes and keys, which tasks keep in memory."""
        return (
            not self.in_order
            and self.memory is None
            and all(sink.tables is not None and sink.tables.may_grow for sink in self._sinks)
        )

    def open(self, written: Iterable[str] = ()) -> None:
        """Reach catalogs and clusters; find or create the static tables.

        Args:
            written: The tables that earlier runs have written.
        """
        self.tables.wrote(written)
        self.open_tables()
        for sink in self._sinks:
            if sink.tables is None:
                sink.open()

    def open_tables(self) -> None:
        """Reach the catalogs; find or create the static tables."""
        for catalog in self.tables.catalogs.values():
            catalog.open()
        for sink in self._sinks:
            if sink.tables is not None:
                sink.open()
        self.letters.open()

    def begin_batch(self, planned: Planned) -> None:
        """Look again for tables that were absent; let mirrors follow what they mirror.

        Raises:
            CalveError: Rejects cannot be written any more where they are to go.
        """
        for sink, tables in zip(self._sinks, self._source_tables(planned), strict=True):
            sink.begin_batch(tables)

    def lacking(self, planned: Planned) -> list[Misfit]:
        """Return the tables that the rows of a load need, whatever they are, and that are not known yet."""
        return self.tables.lacking(self._source_tables(planned))

    def survey(self, position: Position | None, tables_of: Callable[[Planned], set[TableRef]]) -> tuple[int, int]:
        """Load the tables that the first events after a position need, side by side, before a batch needs them.

        Args:
            position: Where the first batch of a run begins.
            tables_of: Returns the tables of the first events of a batch.

        Returns:
            How many of them exist, and how many do not; none if they are made before events are read.

        Raises:
            CalveError: The source or a catalog does not answer.
        """
        if not self._learns_tables:
            return 0, 0
        targets = self.tables.static
        if len(targets) < len(self.tables.by_sink) and (planned := self.source.plan(position, FIRST_BYTES)):
            targets |= {target for target in tables_of(planned) if target.sink in self.tables.by_sink}
        return self.tables.find(targets)

    def _source_tables(self, planned: Planned) -> list[list[SourceTable]]:
        """Return for each sink the tables of the source as its rows are."""
        tables = self.source.tables(planned) if isinstance(self.source, OfTables) else []
        return [
            [changed_table(table, self._masks, effects) for table in tables] for effects in self._processors.effects
        ]

    def _key_fields(self) -> frozenset[str]:
        """Return the fields of events from which columns of keys come."""
        keys = self.tables.key_fields
        return keys.union(*(effects.sources(keys) for effects in self._processors.effects if effects))

    def job(
        self, state_id: str, batch: int, time_tenths: int, number: int, only: Mapping[int, frozenset[TableRef]] | None
    ) -> Job:
        """Make the job of one pass over a batch."""
        return Job(
            pipeline=self._pipeline,
            run=f"{self.name}-{state_id[:8]}-{batch:08d}-{self._nonce}",
            reader=self._reader,
            sinks=tuple(
                sink.job(batch, time_tenths, f"{state_id[:8]}-{index}-", self._replays)
                for index, sink in enumerate(self._sinks)
            ),
            max_open_writers=self.tables.max_open_writers,
            origin=self._origin,
            number=number,
            only=only,
            time_tenths=time_tenths,
            serde=self._serde,
            masks=self._masks,
            record_keys=self._keys,
            processors=self._processors.first,
            branches=self._processors.branches,
            record_time=self._record_time,
            envelopes=self._envelopes.asked(self._used, self._key_fields()) if self._envelopes else None,
        )
