"""A pipeline's parts, built from its settings: source, sinks with their targets, and when things are due."""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from calve.catalog.catalog import Catalog
from calve.columns.infer import Inferred
from calve.credentials import in_short
from calve.dead_letters.room import Room, RoomLimits
from calve.dead_letters.table import LetterTable
from calve.errors import CalveError, InvariantError, UnprocessableError
from calve.event.envelope.decoder import RECORD_KEY, Envelopes
from calve.event.envelope.exact import Wanted
from calve.event.envelope.shape import IMPLIED_OPERATION
from calve.expression.scope import TAGS
from calve.object_store import StateFolder
from calve.observe.log import Log
from calve.pipeline.batch_size import FIRST_BYTES
from calve.pipeline.plugins import declared, narrowed, open_sink, open_source, source_kind
from calve.processors.chain import compiled
from calve.record.receipt import Misfit
from calve.record.target import BranchRef, TableRef, beside
from calve.record.written import TableFiles
from calve.settings import PipelineSettings, SinkEntry
from calve.sinks.sink import CatalogOf, CommitSettings, Opening, Order, Sink, SinkTables
from calve.sources.source import OfTables, Planned, Position, Source
from calve.stop_point import meet
from calve.table.limits import Limits
from calve.table.loaded import Table
from calve.task.job import Job

__all__ = ["Wiring", "dead_letter_locations", "replay_name", "sink_labels", "sink_paths"]

_POOL = 8
_AT_ONCE = CommitSettings(0.0, 0)
"""Where no sink has anything to commit."""


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
    """Return the folder of each sink's dead letters, or of their table's note; `folder`: `<state>/<pipeline>`."""
    return [_absolute(sink.value.dlq_prefix or str(folder / "dlq")).rstrip("/") for sink in settings.sinks]


def _limits(settings: PipelineSettings, folder: StateFolder) -> dict[str, RoomLimits]:
    locations = dead_letter_locations(settings, folder)
    return {location: sink.value.dlq_limits for location, sink in zip(locations, settings.sinks, strict=True)}


def _absolute(location: str) -> str:
    """Make a local folder absolute: workers may run in another one."""
    return location if "://" in location else str(Path(location).expanduser().absolute())


class Wiring:
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
        self.feeds = () if rejects else settings.feeds
        source = declared(settings)
        format, self._serde = source.envelope, source.serde
        self._envelopes = Envelopes(format, unavailable=source.unavailable_value) if format else None
        names = {**source.metadata, **(self._envelopes.metadata if self._envelopes else {})}
        self._processors = compiled(settings.processors, names)
        names |= {TAGS: pa.string()} if self._processors and self._processors.tags else {}
        implied = IMPLIED_OPERATION if format or source.emits_changes else None
        log, is_copy = Log(self.name), source.emits_changes
        self._sinks: list[Sink] = [
            open_sink(Opening(sink, label, names, location, catalog_of, log, implied, is_copy, not rejects))
            for sink, label, location in zip(
                settings.sinks, sink_labels(settings), dead_letter_locations(settings, folder), strict=True
            )
        ]
        self._tables = {number: sink.tables for number, sink in enumerate(self._sinks) if sink.tables}
        tables = self._tables.values()
        self.catalogs: dict[str, Catalog] = {key: one for sink in tables for key, one in sink.catalogs.items()}
        self._letters = [sink.letters for sink in tables if sink.letters]
        self.dead_letters = list(dict.fromkeys(sink.dead_letters.location for sink in self._sinks))
        self.room = Room({} if rejects else _limits(settings, folder))  # a replay makes room
        self.source: Source = rejects or open_source(settings, folder, catalog_of)
        used = [sink.metadata for sink in self._sinks]
        self._used = frozenset().union(*used) | ({RECORD_KEY} if self._envelopes else set())
        self._used = (self._used | (self._processors.metadata if self._processors else set())) - {TAGS}
        self._nonce = uuid.uuid4().hex[:6]  # files of a killed run have other names
        reader = self.source.reader
        self._reader = reader if rejects else narrowed(reader, self._used)
        self._origin = () if rejects else source.origin
        self.source_kind = "dead letters" if rejects else source_kind(settings)
        self.source_accepts = not rejects and source.accepts
        self.always_gathers = any(sink.always_gathers for sink in tables)
        is_typed = isinstance(self.source, OfTables)  # then tables are made before their first batch is read
        self._learns_tables = bool(tables) and not is_typed
        self.in_order = any(sink.order is Order.BY_KEY for sink in self._sinks)
        self.one_task = any(sink.order is Order.ONE_TASK for sink in self._sinks)
        self.flush_seconds = min(sink.flush_seconds for sink in self._sinks)
        self.max_batch_bytes = min(sink.max_batch_bytes for sink in self._sinks)
        self._max_open_writers = min((sink.max_open_writers for sink in tables), default=1)
        self.commits = _AT_ONCE
        if tables:
            self.commits = CommitSettings(
                min(sink.commits.interval_seconds for sink in tables), min(sink.commits.size_bytes for sink in tables)
            )

    @property
    def may_grow(self) -> bool:
        """Whether batches of a backlog may be larger: not those of row changes, which tasks keep in memory."""
        return not self.in_order and all(sink.tables is not None and sink.tables.may_grow for sink in self._sinks)

    def open(self, written: Iterable[str] = ()) -> None:
        """Reach catalogs and clusters; find or create the static tables.

        Args:
            written: The tables that earlier runs have written.
        """
        for tables in self._tables.values():
            tables.wrote(written)
        self.open_tables()
        for sink in self._sinks:
            if sink.tables is None:
                sink.open()

    def open_tables(self) -> None:
        """Reach the catalogs; find or create the static tables."""
        for catalog in self.catalogs.values():
            catalog.open()
        for sink in self._sinks:
            if sink.tables is not None:
                sink.open()
        self.open_dead_letters()

    def open_dead_letters(self) -> None:
        """Find or create the tables of dead letters."""
        for letters in self._letters:
            letters.open()

    @property
    def opened_letter_tables(self) -> list[LetterTable]:
        """Where the tables of dead letters are by now.

        Raises:
            CalveError: One was dropped or changed.
        """
        return [letters.readable for letters in self._letters]

    def note_dead_letters(self) -> None:
        """Write down where the tables of dead letters are."""
        for letters in self._letters:
            letters.note()

    def begin_batch(self, planned: Planned) -> None:
        """Look anew for tables that were absent; let mirrors follow what they mirror.

        Raises:
            CalveError: Rejects cannot be written any more where they are to go.
        """
        tables = self.source.tables(planned) if isinstance(self.source, OfTables) else []
        for sink in self._sinks:
            sink.begin_batch(tables)

    @property
    def sink_tables(self) -> list[SinkTables]:
        """The tables of its sinks."""
        return list(self._tables.values())

    def refresh(self, catalog: str, table: str, found: Table | None = None) -> None:
        """Take a table as a commit left it, or load it again."""
        for tables in self._tables.values():
            tables.refresh(catalog, table, found)

    def equality_delete_limit(self, catalog: str, table: str) -> int:
        """Return how many rows of equality deletes a table may have, by the strictest of its sinks; 0: any number."""
        limits = [tables.equality_delete_limit for tables in self._tables.values() if tables.has(catalog, table)]
        return min((limit for limit in limits if limit), default=0)

    def limits(self, catalog: str, table: str) -> Limits | None:
        """Return when a table needs maintenance; None: it is left alone, because one of its sinks says so."""
        found = [tables.limits for tables in self._tables.values() if tables.maintains(catalog, table)]
        return None if None in found else next(iter(found), None)

    def sinks_of(self, target: BranchRef) -> frozenset[TableRef]:
        """Return the sinks that may write a branch of a table, or what is compared with it, with the table's name."""
        written = target._replace(branch=beside(target.branch))
        return frozenset(
            TableRef(number, target.table) for number, tables in self._tables.items() if tables.may_write(written)
        )

    def lacking(self, planned: Planned) -> list[Misfit]:
        """Return the tables that the rows of a load need, whatever they are, and that are not known yet."""
        tables = self.source.tables(planned) if isinstance(self.source, OfTables) else []
        return [
            Misfit(TableRef(number, name), None)
            for number, sink in self._tables.items()
            for name in sink.lacking(tables)
        ]

    def survey(self, position: Position | None, tables: Callable[[Planned], set[TableRef]]) -> tuple[int, int]:
        """Load the tables that the first events after a position need, side by side, before a batch needs them.

        Args:
            position: Where the first batch of a run begins.
            tables: Looks for the tables of the first events of a batch.

        Returns:
            How many of them exist, and how many do not; none if they are made before events are read.

        Raises:
            CalveError: The source or a catalog does not answer.
        """
        if not self._learns_tables:
            return 0, 0
        found = {TableRef(number, sink.static) for number, sink in self._tables.items() if sink.static is not None}
        if len(found) < len(self._tables) and (planned := self.source.plan(position, FIRST_BYTES)):
            found |= {target for target in tables(planned) if target.sink in self._tables}
        with ThreadPoolExecutor(_POOL) as pool:
            looks = [pool.submit(self._tables[target.sink].find, target.table) for target in found]
            try:
                known = sum(look.result() for look in looks)
            except CalveError:
                pool.shutdown(cancel_futures=True)  # a catalog that does not answer is not asked for each table
                raise
        return known, len(found) - known

    def fit(self, misfits: list[Misfit]) -> None:
        """Create or evolve tables side by side.

        Raises:
            UnprocessableError: A table failed in a way that nobody foresaw; its events may be the reason.
        """
        with ThreadPoolExecutor(_POOL) as pool:
            for outcome in [pool.submit(self._fit, *misfit.target, misfit.inferred) for misfit in misfits]:
                outcome.result()

    def _fit(self, sink: int, table: str, inferred: Inferred | None) -> None:
        step = "create or evolve the table"
        try:
            meet("driver.fit", lambda: [inferred])
            self._tables[sink].fit(table, inferred)
        except InvariantError as error:
            evidence = getattr(error, "evidence", "") or traceback.format_exc()
            raise UnprocessableError(
                error.message, step=error.step or step, target=table, sink=sink, evidence=evidence
            ) from error
        except CalveError:
            raise
        except Exception as error:
            message, evidence = in_short(error), traceback.format_exc()
            raise UnprocessableError(message, step=step, target=table, sink=sink, evidence=evidence) from error

    @property
    def letter_tables(self) -> frozenset[str]:
        """The tables of dead letters."""
        return frozenset(letters.identifier for letters in self._letters)

    def check_times(self, staged: Sequence[TableFiles]) -> None:
        """Warn of times in staged files that numbers of another unit may have become."""
        for tables in self._tables.values():
            tables.check_times(staged)

    def io_properties(self) -> dict[str, dict[str, str]]:
        """Return what a FileIO needs for dead letters, by their location."""
        return {sink.dead_letters.location: sink.dead_letters.io_properties for sink in self._sinks}

    def job(
        self, state_id: str, batch: int, time_tenths: int, number: int, only: Mapping[int, frozenset[TableRef]] | None
    ) -> Job:
        """Make the job of one pass over a batch."""
        keys = frozenset[str]().union(*(tables.key_fields for tables in self._tables.values()))
        return Job(
            pipeline=self._pipeline,
            run=f"{self.name}-{state_id[:8]}-{batch:08d}-{self._nonce}",
            reader=self._reader,
            sinks=tuple(
                sink.job(batch, time_tenths, f"{state_id[:8]}-{index}-", self._replays)
                for index, sink in enumerate(self._sinks)
            ),
            max_open_writers=self._max_open_writers,
            origin=self._origin,
            number=number,
            only=only,
            time_tenths=time_tenths,
            serde=self._serde,
            processors=self._processors,
            envelopes=replace(self._envelopes, wanted=Wanted(self._used, keys)) if self._envelopes else None,
        )
