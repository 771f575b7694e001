"""What every sink must be on the driver; `calve.sinks.job` says what its part of a task must be.

The driver opens a sink, prepares it for each batch, and sends its job to the tasks. A sink whose tasks stage files has
`tables`, which the driver creates, evolves and commits to; other sinks write as they go, in a way that may be repeated,
and leave nothing to commit.

A kind of sink is a folder `sinks/<name>/`. Its `settings.py` has `SETTINGS`, a dataclass of options that extends
`SinkSettings`; its `sink.py` has `open(Opening) -> Sink` and `probe(settings, spark) -> None`. One line in
`pipeline/plugins.py` names the folder.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from calve.catalog.catalog import Catalog
from calve.columns.infer import Inferred
from calve.dead_letters.open_table import LetterTarget
from calve.dead_letters.rejects import DeadLetterPlace
from calve.observe.log import Log
from calve.record.target import BranchRef
from calve.record.written import TableFiles
from calve.settings import SinkEntry
from calve.sinks.job import SinkJob
from calve.sources.source import SourceTable
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
"""Opens a catalog of these properties, and returns the key under which receipts name it."""


class Order(enum.Enum):
    """What a sink needs of the order of events."""

    ANY = "any"
    BY_KEY = "by key"
    """The events of one row stay in order: tasks hand them on by key."""
    ONE_TASK = "one task"
    """One task takes the whole batch."""


@dataclass(frozen=True)
class CommitSettings:
    """When a commit is due: after an interval in seconds, or when so many bytes are staged.

    The first files of each table in a run are committed at once.
    """

    interval_seconds: float
    size_bytes: int


@dataclass(frozen=True)
class Opening:
    """What a sink is opened with.

    Attributes:
        entry: The sink, as parsed.
        label: Its name in dead letters.
        metadata: The metadata attributes that events have.
        dead_letters: Where its dead letters go, or where their table is noted.
        catalog_of: Opens catalogs; sinks with equal properties share one.
        log: Of the pipeline.
        operation: What says the operation of an event, as the source is a change stream; None: the sink's settings do.
    """

    entry: SinkEntry
    label: str
    metadata: Collection[str]
    dead_letters: str
    catalog_of: CatalogOf
    log: Log
    operation: str | None = None


class SinkTables(Protocol):
    """The tables of a sink whose tasks stage files; the driver commits them.

    Attributes:
        catalogs: The catalogs, by the key under which receipts name them.
        commits: When staged files are committed.
        letters: The table of the sink's dead letters, if it has one.
        infers: Whether events say which columns its tables are made with.
        always_gathers: Whether small parts are written together whatever it saves.
        max_open_writers: Files that a task keeps open.
        equality_delete_limit: Rows of equality deletes that a table may have; 0: any number.
    """

    catalogs: Mapping[str, Catalog]
    commits: CommitSettings
    letters: LetterTarget | None
    infers: bool
    always_gathers: bool
    max_open_writers: int
    equality_delete_limit: int

    @property
    def key_fields(self) -> frozenset[str]:
        """The top-level fields that can be of a key of any of its tables that is known."""
        ...

    def fit(self, table: str, inferred: Inferred | None) -> None:
        """Create or evolve a table, so that events with these fields fit."""
        ...

    def may_write(self, target: BranchRef) -> bool:
        """Return whether its events may go to a branch of a table; those of its dead letters are not its events."""
        ...

    def has(self, catalog: str, table: str) -> bool:
        """Return whether a table is known that the sink writes to."""
        ...

    def refresh(self, catalog: str, table: str, found: Table | None) -> None:
        """Take a table as a commit left it, or load it again."""
        ...

    def check_times(self, entries: Iterable[TableFiles]) -> None:
        """Warn once of each column whose numbers were read in a unit that looks wrong; `entries` are staged files."""
        ...


class Sink(Protocol):
    """Runs on the driver, called by the pipeline's thread; `tables` by the committer's threads, too.

    Attributes:
        dead_letters: Where its rejected events go.
        flush_seconds: How long an event waits for a batch, at most.
        max_batch_bytes: The events of a batch, at most.
        order: What it needs of the order of events.
    """

    dead_letters: DeadLetterPlace
    flush_seconds: float
    max_batch_bytes: int
    order: Order

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes that it asks for."""
        ...

    @property
    def tables(self) -> SinkTables | None:
        """What the driver commits; None: its tasks leave nothing to commit."""
        ...

    def open(self) -> None:
        """Reach the server, and make what must be there before events come. May be repeated.

        Raises:
            CalveError: It does not answer, or refuses.
        """
        ...

    def begin_batch(self, tables: Sequence[SourceTable]) -> None:
        """Prepare for a batch whose events are rows of these tables; none: of no Iceberg table.

        Raises:
            CalveError: The batch cannot be written, or its rejects cannot.
        """
        ...

    def job(self, moment: int, prefix: str, replays: bool) -> SinkJob:
        """Make its part of the job of a batch.

        Args:
            moment: The batch's (`Planned.moment`).
            prefix: Begins names and ids of what tasks make; unique to the state and the sink.
            replays: Whether dead letters are sent again.
        """
        ...
