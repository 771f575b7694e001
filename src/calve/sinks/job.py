"""What every sink must be in a task: a job, pickled on the driver, and a writer. Imports nothing of the driver.

`SinkJob` answers as a sink does that writes events as they come; a sink overrides what is different. A task asks it for
a `SinkWriter`: a `DirectWriter`, or one that stages files, as that of `calve.sinks.iceberg` does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import pyarrow as pa

from calve.dead_letters.rejects import DeadLetterLocation
from calve.errors import InvariantError
from calve.event.columns import JSON, VERSION
from calve.record.written import IndexDocuments
from calve.route.sink_route import SinkRoute

if TYPE_CHECKING:
    from calve.arrays import RowNumbers
    from calve.columns.infer import Inferred
    from calve.convert.by_table import TableOfRow
    from calve.record.receipt import Misfit, Receipt
    from calve.record.target import RowStream
    from calve.write.shuffle import Shuffle
    from calve.write.writer import Writers, Written

__all__ = ["DirectWriter", "EventPreview", "EventWriter", "SinkJob", "SinkWriter", "Work"]


@dataclass(frozen=True)
class Work:
    """The task that a writer is made for.

    Attributes:
        sink: The number of the sink in the pipeline.
        task: The number of the task.
        run: Makes file names unique: pipeline, state and batch.
        origin: The metadata attributes that tell where an event came from.
        writers: The data files of the task; all its sinks share them.
        shuffle: Takes small parts, for another task to write; None: every task writes its own.
        timed: Calls a function with arguments, and counts the time to a step of `calve.task.job.STEPS`.
        begin: Is told each table before an error may be that table's.
        reject: Gets the rejects (`REJECTS`) that are only known in `SinkWriter.finish`, with their table and events.
        is_probe: Whether the pass is only a test, of which nothing may become visible.
    """

    sink: int
    task: int
    run: str
    origin: tuple[str, ...]
    writers: Writers
    shuffle: Shuffle | None
    timed: Callable[..., Any]
    begin: Callable[[str], None]
    reject: Callable[[str, pa.Table, pa.Table], None]
    is_probe: bool = False


class SinkWriter(Protocol):
    """Writes the events of one sink in one task, as they come; runs on executors."""

    def write(
        self,
        tables: Sequence[str],
        events: pa.Table,
        table_of_row: TableOfRow,
        unrouted: list[RowNumbers] | None = None,
    ) -> Iterator[tuple[str, pa.Table]]:
        """Write events of tables with one `SinkJob.conversion_key`; yield tables with rejects (`REJECTS`).

        Args:
            tables: The tables' names, as the route gives them.
            events: Events with metadata and the columns that the job needs.
            table_of_row: Of each event, the position of its table.
            unrouted: Only for `SinkJob.self_validating_tables`, if the route is provisional: gets the positions of
                events that are nowhere written or rejected, because only all of an event tells where it belongs.

        Raises:
            CalveError: The server is away or refuses all.
        """
        ...

    def finish(self) -> list[Misfit]:
        """Write buffered changes. Return misfits; their events are read again in the next pass."""
        ...

    def write_shuffled(self, parts: dict[RowStream, list[pa.Table]]) -> None:
        """Write the parts that other tasks shuffled, instead of events, if the job has `shuffle_below_bytes`."""
        ...

    def close(self, files: Mapping[RowStream, Written]) -> Receipt:
        """Return the sink's part of the receipt; `files` are what `Work.writers` wrote for it."""
        ...


class EventPreview(NamedTuple):
    """What would become of some events of one table.

    Attributes:
        rejects: The events that would be rejected (`REJECTS`).
        catalog: The key of the table's catalog; empty: it is an index, which is in none.
        is_misfit: Whether the table must be made or evolved before anything else can be told.
        inferred: The columns that it needs then; None where nothing is inferred.
        is_absent: Whether there is no such table, and all events are rejected.
        nulled: How many values of each column would become null.
        ignored: How many events have each field that has no column.
        failed_rules: How many rows did not follow each rule.
        verdicts: What each rule of `publish` would say of a commit with these rows alone.
    """

    rejects: pa.Table
    catalog: str = ""
    is_misfit: bool = False
    inferred: Inferred | None = None
    is_absent: bool = False
    nulled: Mapping[str, int] = {}
    ignored: Mapping[str, int] = {}
    failed_rules: Mapping[str, int] = {}
    verdicts: Mapping[str, str] = {}


@dataclass(frozen=True)
class SinkJob(ABC):
    """A sink's part of a job; pickled into the tasks.

    Attributes:
        label: The sink's name in dead letters.
        route: Which events it gets, and for which table or index.
        dead_letters: Where its rejected events go.
    """

    label: str
    route: SinkRoute
    dead_letters: DeadLetterLocation

    @property
    def needs(self) -> frozenset[str]:
        """The columns that its events must have beside metadata."""
        return frozenset({JSON, VERSION})

    @property
    def is_ordered(self) -> bool:
        """Whether a later event may change what an earlier one wrote, also when dead letters are sent again."""
        return True

    @property
    def shuffle_below_bytes(self) -> int:
        """Smaller parts are shuffled, to be written together; 0: none."""
        return 0

    @property
    def may_shuffle(self) -> bool:
        """Whether a task may have small parts to shuffle, although a batch of several tasks is never small itself."""
        return False

    @property
    def preserves_source_keys(self) -> bool:
        """Whether rows that differ in the key of their source table never change the same row of a target."""
        return True

    @property
    def self_validating_tables(self) -> Collection[str]:
        """The tables whose writing finds events that are no JSON objects, or repeat a field which the route reads."""
        return ()

    def rejecting_into(self, dead_letters: DeadLetterLocation) -> Self:
        """Return the same job with another location of its rejected events."""
        return replace(self, dead_letters=dead_letters)

    def apart(self, pipeline: str) -> Self:
        """Return the same job for rows that are compared with those of its tables; without tables they are written."""
        return self

    def conversion_key(self, table: str) -> Hashable:
        """Return a key that is the same for tables whose events are converted together."""
        return table

    @abstractmethod
    def writer(self, work: Work) -> SinkWriter:
        """Make what writes in a task."""

    @abstractmethod
    def preview(self, table: str, events: pa.Table) -> EventPreview:
        """Return what would become of events, without asking a server; write nothing."""


class EventWriter(Protocol):
    """Writes events of one table or index after the other, and leaves nothing to commit."""

    def write(self, table: str, events: pa.Table) -> pa.Table:
        """Write events, and return those that were refused (`REJECTS`).

        The same events may come again, in this task or in another one, and must then change nothing. Their column
        `event_version` grows with the order of events, and is the same when they come again.

        Args:
            table: The table's or index's name, as the route gives it.
            events: `json` (the valid text of each), `event_version`, and metadata.

        Raises:
            CalveError: The server is away or refuses all.
        """
        ...

    def written(self) -> list[IndexDocuments]:
        """Return what was written, by index, for the receipt."""
        ...


class DirectWriter:
    """The `SinkWriter` of a sink that writes as it goes.

    Args:
        work: The task.
        events: Writes the events.
    """

    def __init__(self, work: Work, events: EventWriter) -> None:
        self._work = work
        self._events = events

    def write(
        self,
        tables: Sequence[str],
        events: pa.Table,
        table_of_row: TableOfRow,
        unrouted: list[RowNumbers] | None = None,
    ) -> Iterator[tuple[str, pa.Table]]:
        """Write events of one table, as each has a key of its own."""
        yield tables[0], self._work.timed("write", self._events.write, tables[0], events)

    def finish(self) -> list[Misfit]:
        """Return nothing: everything is written."""
        return []

    def write_shuffled(self, parts: dict[RowStream, list[pa.Table]]) -> None:
        """Refuse: nothing is shuffled."""
        raise InvariantError("A sink that writes as it goes shuffles no parts", step="write")

    def close(self, files: Mapping[RowStream, Written]) -> Receipt:
        """Return the documents that were written."""
        from calve.record.receipt import Receipt  # with PyIceberg, which the driver's start needs later

        return Receipt(documents=self._events.written())
