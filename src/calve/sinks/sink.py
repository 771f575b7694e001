"""The protocols of sinks on the driver; `calve.sinks.job` has those in a task.

The driver opens a sink, prepares it for each batch, and sends its job to the tasks. A sink whose tasks stage files has
`tables`, which the driver creates, evolves and commits to; other sinks write immediately, in a way that may be
repeated, and leave nothing to commit.

A kind of sink is a folder `sinks/<name>/`. Its `settings.py` has `SETTINGS`, a dataclass of options that extends
`SinkSettings`; its `sink.py` has `open(Opening) -> Sink` and `probe(settings, spark) -> None`. One line in
`pipeline/plugins.py` names the folder. `sinks/records/` has what those share that send a batch at once, in order.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from calve.catalog.catalog import Catalog
from calve.columns.infer import Inferred
from calve.commit.compare import Comparison
from calve.dead_letters.open_table import LetterTarget
from calve.dead_letters.rejects import DeadLetterLocation
from calve.dead_letters.room import RoomLimits
from calve.observe.log import Log
from calve.record.target import BranchRef
from calve.record.written import StagedFiles
from calve.route.by_table import ByTable
from calve.settings import SinkEntry
from calve.sinks.job import SinkJob
from calve.sources.source import SourceTable
from calve.state.clients import file_io_at
from calve.table.completeness import Completeness
from calve.table.gate import CommitGate
from calve.table.limits import MaintenanceLimits
from calve.table.loaded import Table

__all__ = [
    "CatalogOf",
    "CommitSettings",
    "Opening",
    "Order",
    "Sink",
    "SinkTables",
]

CatalogOf = Callable[[Mapping[str, str]], tuple[str, Catalog]]
"""Opens a catalog with these properties, and returns its key in receipts."""


class Order(enum.Enum):
    """The order of events that a sink needs."""

    ANY = "any"
    BY_KEY = "by key"
    """The events of each row stay in order: tasks hand them on by key."""
    ONE_TASK = "one task"
    """One task gets the complete batch."""


@dataclass(frozen=True)
class CommitSettings:
    """When a commit is due: after an interval in seconds, or those of large tables after a number of staged bytes.

    The first files of each table in a run are committed at once. `intervals` has those of single tables, for each sink,
    and `by_watermark` whether they wait for the watermark. `most_per_second` bounds the commits of all tables.
    """

    interval_seconds: float
    size_bytes: int
    intervals: tuple[ByTable[float], ...] = ()
    by_watermark: tuple[ByTable[bool], ...] = ()
    most_per_second: float = math.inf

    def waits_for_watermark(self, table: str) -> bool:
        """Return whether commits of a table wait until a partition of it is complete."""
        return any(sink.of(table) for sink in self.by_watermark)

    @property
    def is_any_by_watermark(self) -> bool:
        """Whether commits of any table do."""
        return any(is_waiting for sink in self.by_watermark for is_waiting in sink.values())

    def seconds(self, table: str) -> float:
        """Return the interval of a table: that of the most impatient sink that writes it."""
        seconds = min((interval.of(table) for interval in self.intervals), default=math.inf)
        return seconds if seconds < math.inf else self.interval_seconds  # a table of dead letters is no sink's own


@dataclass(frozen=True)
class Opening:
    """The settings and tools of a new sink.

    Attributes:
        entry: The parsed sink.
        label: Its name in dead letters.
        metadata: The metadata attributes that events have, and their types.
        dead_letters: The folder of its dead letters, or of the note about their table.
        catalog_of: Opens catalogs; sinks with equal properties share one.
        log: The pipeline's log.
        operation: The expression of an event's operation, if the source is a change stream; None: the sink's setting.
        is_copy: Whether the source is a database, whose copy loses no value by default.
        has_limits: Whether the limits of dead letters count: not for a replay, which makes room.
        table_defaults: As `SourceSettings.table_defaults` of the source.
    """

    entry: SinkEntry
    label: str
    metadata: Mapping[str, pa.DataType]
    dead_letters: str
    catalog_of: CatalogOf
    log: Log
    operation: str | None = None
    is_copy: bool = False
    has_limits: bool = True
    table_defaults: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def letters_limits(self) -> RoomLimits | None:
        """How much room the dead letters have; None: as much as they need."""
        return self.entry.value.dlq_limits if self.has_limits else None

    def letters_storage(self, others: Mapping[str, str]) -> dict[str, str]:
        """Return the properties of a FileIO for dead letters.

        Args:
            others: Those for the sink's other files; the state may be on another object store.
        """
        if not self.entry.value.dlq_prefix and "://" in self.dead_letters:
            return file_io_at(self.dead_letters)
        return {**others, **self.entry.value.dlq_storage}


class SinkTables(Protocol):
    """The tables of a sink whose tasks stage files; the driver commits them.

    Attributes:
        catalogs: The catalogs, by the key under which receipts name them.
        commits: When staged files are committed.
        letters: The table of the sink's dead letters, if it has one.
        static: Its only table; None: events say their table.
        may_grow: Whether batches of a backlog may be larger than `max_batch_bytes` if their files are small.
        always_shuffles: Whether small parts are always written together.
        max_open_writers: The most files that a task keeps open.
        equality_delete_limit: The most rows of equality deletes of a table; 0: no limit.
        may_index_keys: Whether commits may keep an index of the keys of a table.
        keeps_row_ids: Whether a row that is replaced keeps its id.
    """

    catalogs: Mapping[str, Catalog]
    commits: CommitSettings
    letters: LetterTarget | None
    static: str | None
    may_grow: bool
    always_shuffles: bool
    max_open_writers: int
    equality_delete_limit: int
    may_index_keys: bool
    keeps_row_ids: bool

    @property
    def key_fields(self) -> frozenset[str]:
        """The top-level fields that may be in the key of a known table."""
        ...

    def fit(self, table: str, inferred: Inferred | None) -> None:
        """Create or evolve a table, so that events with these fields fit."""
        ...

    def wrote(self, tables: Iterable[str]) -> None:
        """Note the tables that earlier runs have written: one of them that is created again has lost its rows."""
        ...

    def find(self, table: str) -> bool:
        """Load a table if it is not known and exists; return whether it is known."""
        ...

    def may_write(self, target: BranchRef) -> bool:
        """Return whether its events may go to a branch of a table; its dead letters do not count as its events."""
        ...

    def has(self, catalog: str, table: str) -> bool:
        """Return whether a table is one of the sink's known tables."""
        ...

    def lacking(self, tables: Sequence[SourceTable]) -> list[str]:
        """Return the targets that get all rows of some source tables, and are not known yet."""
        ...

    def targets_of(self, tables: Sequence[SourceTable]) -> list[BranchRef]:
        """Return where the rows of source tables go, as far as the tables alone decide it."""
        ...

    def comparison(self, table: SourceTable, target: BranchRef) -> Comparison | str | None:
        """Return how a target is compared with a source table, or why it cannot be.

        None: it does not exist yet, or is not a target of this sink.
        """
        ...

    def limits(self, table: str) -> MaintenanceLimits | None:
        """Return when a table needs maintenance; None: never."""
        ...

    def completeness(self, table: str) -> Completeness:
        """Return how it is decided through which time a table is complete."""
        ...

    def advance(self, table: str, micros: int) -> bool:
        """Record through which time the staged batches complete a table; return whether a partition is now complete."""
        ...

    def gate(self, table: str) -> CommitGate | None:
        """Return when commits of a table are published; None: they need not be."""
        ...

    def maintains(self, catalog: str, table: str) -> bool:
        """Return whether a table is one of the sink's, the one for its dead letters included."""
        ...

    def refresh(self, catalog: str, table: str, loaded: Table | None) -> None:
        """Set a table to its state after a commit, or load it again."""
        ...

    def use(self, tables: Iterable[str]) -> None:
        """Note the tables that the events of a batch were for; others are forgotten when there are many."""
        ...

    def check_times(self, entries: Iterable[StagedFiles]) -> None:
        """Warn once about each column whose numbers seem to have another unit; `entries` are staged files."""
        ...


class Sink(Protocol):
    """A sink on the driver, called by the pipeline's thread; `tables` by the committer's threads, too.

    Attributes:
        dead_letters: The location of its dead letters.
        flush_seconds: The longest time that an event waits for a batch.
        max_batch_bytes: The most bytes of events in a batch.
        order: The order of events that it needs.
    """

    dead_letters: DeadLetterLocation
    flush_seconds: float
    max_batch_bytes: int
    order: Order

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes that it reads."""
        ...

    @property
    def tables(self) -> SinkTables | None:
        """Its tables, which the driver commits to; None: its tasks leave nothing to commit."""
        ...

    def open(self) -> None:
        """Connect to the server, and create what the first event needs. May be repeated.

        Raises:
            CalveError: It does not answer, or refuses.
        """
        ...

    def begin_batch(self, tables: Sequence[SourceTable]) -> None:
        """Prepare for a batch whose events are rows of these Iceberg tables, if any.

        Raises:
            CalveError: The batch or its dead letters cannot be written.
        """
        ...

    def job(self, batch: int, time_tenths: int, prefix: str, replays: bool) -> SinkJob:
        """Return its part of the job of a batch.

        Args:
            batch: The batch's number.
            time_tenths: The batch's time (`Planned.time_tenths`).
            prefix: The prefix of names and ids that tasks create; unique to the state and the sink.
            replays: Whether this is a replay of dead letters.
        """
        ...
