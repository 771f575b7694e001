"""The protocols of sources: a planner on the driver and a reader on the executors.

The driver asks a source for new events (`backlog`), plans a bounded part of them as splits (`plan`), which the ledger
records before anything runs, and acknowledges committed positions (`acknowledge`). The reader, pickled into the tasks,
reads one split as Arrow batches. Reading the same split twice yields the same events in the same order.

A kind of source is a folder, `calve.sources.<name>`; `pipeline/plugins.py` names it:

    settings.py   SETTINGS: its options, which extend `SourceSettings`
    source.py     open(settings, folder, pipeline, context) → Source: it has no side effects before `start`
                  Only if it needs them:
                  probe(settings, folder, pipeline, context): for `validate --connect`; else its first event is read
                  check_start(settings, pipeline, once, is_new): check what a run needs of this machine
                  held(settings, pipeline), drop(settings, pipeline): what it has on its server, and remove that
    preview.py    only if `calve init` asks it: preview(settings) → what it has
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import pyarrow as pa

from calve.errors import InvariantError
from calve.event.columns import EVENT, MALFORMED

__all__ = [
    "ALONE",
    "APART",
    "EVENT",
    "LOADED",
    "MALFORMED",
    "READ_BYTES",
    "READ_ROWS",
    "Backlog",
    "BeginsAnywhere",
    "FindsFiles",
    "HasCondition",
    "Listens",
    "OfTables",
    "Planned",
    "Position",
    "Reader",
    "Rereads",
    "SharedTargets",
    "Source",
    "SourceContext",
    "SourceTable",
    "Split",
    "StartPosition",
    "Stops",
    "StopsTables",
    "no_shared_targets",
    "stop",
]

Position = dict[str, Any]
"""How far a source has been read, as JSON values; the ledger keeps it, and `calve.offsets` shows it."""

READ_ROWS = 131_072
"""The most rows of a batch; DuckDB is fastest at about this size."""
READ_BYTES = 64 << 20
"""The approximate maximum of bytes in a batch; binary columns end at 2 GiB."""

LOADED = "loaded"
"""In the body of a split: its rows are those of a table, not changes of them. They are typed and have the same columns,
and no two rows of a table in the splits of a batch have the same key."""
APART = "apart"
"""In the body of every split of a batch, or of none: its rows are to be compared with those of their targets, so they
are loaded apart from them."""


@dataclass(frozen=True)
class Split:
    """A part of a batch that one task reads.

    Attributes:
        body: The data with which the reader finds the same events again, as JSON values; and maybe `LOADED`.
        size_bytes: The approximate size, to balance tasks.
    """

    body: dict[str, Any]
    size_bytes: int = 0


@dataclass(frozen=True)
class Backlog:
    """The events after a position: rows (-1: unknown) and bytes (possibly estimated).

    Attributes:
        is_urgent: Whether they are read at once, however few they are.
        refusing: Why the source refuses new events at the moment; empty while it accepts them.
        refused: How many requests it has refused since its start, by status.
        parts: The rows by part of the source, e.g. `topic/partition`; empty: it has none.
    """

    rows: int = 0
    size_bytes: int = 0
    is_urgent: bool = False
    refusing: str = ""
    refused: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, int] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, sizes: Iterable[int]) -> Backlog:
        """Return a backlog of parts with these sizes in bytes and unknown rows; a part may be empty."""
        sizes = list(sizes)
        return cls(-1, sum(sizes)) if sizes else cls()

    def __bool__(self) -> bool:
        return self.rows != 0 or self.size_bytes != 0


@dataclass(frozen=True)
class Planned:
    """The splits of one batch and the position after them.

    Attributes:
        waiting: The parts of the source, each read in order, with more events after the position; for Kafka
            `topic/partition`. A source without an order of time has one part without events.
        time_tenths: When the ledger recorded it, in tenths of a second since the epoch; later than any batch before
            it, and the same in a replay. 0 before that.
        accepted_through: All events that the source accepted before this time are in this batch or earlier ones; in
            seconds since the epoch, 0: unknown.
    """

    splits: list[Split]
    position: Position = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    time_tenths: int = field(default=0, compare=False)
    accepted_through: float = field(default=0.0, compare=False)


class Reader(Protocol):
    """Reads splits on executors; pickled with the batch, so it has only settings."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the events of a split in order.

        Columns: `EVENT`, or `TYPED` beside `SCHEMA`; optionally `MALFORMED`; every other column is a metadata attribute
        with its name (for `getMetadata("…")`). Batches with different columns are converted separately, so few should
        differ. A batch has at most `READ_ROWS` rows and about `READ_BYTES` bytes.

        Raises:
            SourceError: The split cannot be read; nothing of it may count as read.
        """
        ...


class Source(Protocol):
    """A source on the driver, called only by the pipeline's thread, except `acknowledge` (the committer's)."""

    @property
    def reader(self) -> Reader:
        """The reader of this source's splits."""
        ...

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Open the source at the position of the last planned batch (None: never ran).

        `pending` are the planned, unacknowledged batches of the ledger: they are not planned again.

        With `once` the end is fixed now: later events are for another run, and a listening source opens no port.

        Raises:
            SourceError: It cannot start, e.g. because a port is in use; the hint helps.
        """
        ...

    def backlog(self, position: Position | None) -> Backlog:
        """Return the events after a position; cheap, called a few times per second."""
        ...

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return the next batch after a position, about `max_bytes` at most, or None if nothing waits."""
        ...

    def acknowledge(self, planned: Planned) -> None:
        """Release the events of a committed batch. Called in the order of batches; may be repeated after a crash."""
        ...


@dataclass(frozen=True)
class StartPosition:
    """Where a new state starts to read; exactly one attribute is set.

    Attributes:
        at: `earliest`: all events; `latest`: only events from now on; `group`: events that Kafka's consumer group has
            not committed.
        offsets: The next offset, by topic and partition.
        timestamp_ms: The first event at or after this time, in milliseconds since the epoch.
    """

    at: Literal["earliest", "latest", "group"] | None = None
    offsets: Mapping[str, Mapping[int, int]] | None = None
    timestamp_ms: int | None = None


@runtime_checkable
class Stops(Protocol):
    """A source that accepts events, or keeps something open."""

    def stop(self) -> None:
        """Stop accepting events, and close. May be called twice."""
        ...


def stop(source: Source) -> None:
    """Stop a source, if there is anything to stop. May be repeated."""
    if isinstance(source, Stops):
        source.stop()


@runtime_checkable
class BeginsAnywhere(Protocol):
    """A source that can begin at a chosen offset."""

    def begin_at(self, beginning: StartPosition) -> Position:
        """Return the position of an offset; what else the source must remember goes into its folder.

        Raises:
            SettingsError: There is no such offset.
            SourceUnavailableError: The source does not answer.
        """
        ...


@runtime_checkable
class Rereads(Protocol):
    """A source that can read again what lies between two positions."""

    def between(self, start: Position | None, end: Position, count: int) -> list[Planned]:
        """Split the range between two positions into so many batches; some may be empty.

        Raises:
            PositionLostError: Something of it is gone.
        """
        ...


@dataclass(frozen=True)
class SourceTable:
    """A table that events are rows of, with a schema of Iceberg.

    Attributes:
        name: As the metadata attribute `iceberg_table_name` has it, or unique in the source.
        uuid: The table's own identity.
        schema_json: The schema that the rows were read by, reduced to the fields that the events have.
        attributes: The metadata attributes that all its rows share; None: `iceberg_table_name` alone.
        is_history, has_full_rows: It has no key, and its events are only appended, or change whole rows.
    """

    name: str
    uuid: str
    schema_json: str
    attributes: Mapping[str, str] | None = None
    is_history: bool = False
    has_full_rows: bool = False


SharedTargets = Callable[[Sequence[SourceTable]], list[tuple[str, list[str]]]]
"""Returns the targets that get rows of several of these tables, each with the names of the tables."""


def no_shared_targets(tables: Sequence[SourceTable]) -> list[tuple[str, list[str]]]:
    """Return no target: nobody knows where rows go."""
    return []


def _no_lake(properties: Mapping[str, str]) -> Any:
    raise InvariantError("This source has no catalog", step="open")


@dataclass(frozen=True)
class SourceContext:
    """What a source may use of its pipeline, beside its settings and its folder.

    Attributes:
        lake_of: Opens the catalog with some properties.
        shared_targets: Finds targets of several tables.
    """

    lake_of: Callable[[Mapping[str, str]], Any] = _no_lake
    shared_targets: SharedTargets = no_shared_targets


ALONE = SourceContext()
"""A source outside of a pipeline."""


@runtime_checkable
class OfTables(Protocol):
    """A source whose events are rows of tables, so that their types are known."""

    def tables(self, planned: Planned) -> list[SourceTable]:
        """Return the tables of a batch's events."""
        ...


@runtime_checkable
class HasCondition(Protocol):
    """A source with more to say about itself than what waits in it."""

    @property
    def condition(self) -> str:
        """A sentence for `calve status`, e.g. how far a load is; empty: nothing to say."""
        ...


@runtime_checkable
class StopsTables(Protocol):
    """A source of tables that goes on without one that it cannot follow any more."""

    @property
    def stopped(self) -> Mapping[str, str]:
        """The tables that are not read any more, and why."""
        ...


@runtime_checkable
class FindsFiles(Protocol):
    """A source that looks for files, of which there may be none."""

    @property
    def nothing_found(self) -> str:
        """Why there is no file that was read or can be, as a sentence; empty: there is one, or was."""
        ...


@runtime_checkable
class Listens(Protocol):
    """A source that clients send events to."""

    @property
    def url(self) -> str | None:
        """Where clients send events; None while it does not listen."""
        ...
