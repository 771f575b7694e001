"""What every source must be: a planner on the driver and a reader on the executors.

The driver asks a source what is new (`backlog`), turns a bounded part of it into splits (`plan`) which the ledger
records before anything runs, and tells it when a position is committed (`acknowledge`). The reader, pickled into the
tasks, turns one split into Arrow batches. Reading the same split twice yields the same events in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import pyarrow as pa

from calve.event.columns import EVENT, MALFORMED

__all__ = [
    "EVENT",
    "MALFORMED",
    "READ_BYTES",
    "READ_ROWS",
    "Backlog",
    "Beginning",
    "BeginsAnywhere",
    "Listens",
    "OfTables",
    "Planned",
    "Position",
    "Reader",
    "Rereads",
    "Source",
    "SourceTable",
    "Split",
]

Position = dict[str, Any]
"""Where a source has got to, as JSON values; the ledger keeps it and `calve.offsets` shows it."""

READ_ROWS = 131_072
"""Rows of a batch at most; DuckDB works best at about this size."""
READ_BYTES = 64 << 20
"""Bytes of a batch's events at most, about; binary columns end at 2 GiB."""


@dataclass(frozen=True)
class Split:
    """A part of a batch that one task reads.

    Attributes:
        body: What the reader needs to find the same events again, as JSON values.
        size_bytes: About how much there is to read, to balance tasks.
    """

    body: dict[str, Any]
    size_bytes: int = 0


@dataclass(frozen=True)
class Backlog:
    """What waits behind a position: rows (-1: not known) and bytes (estimated where the source does not tell)."""

    rows: int = 0
    size_bytes: int = 0

    def __bool__(self) -> bool:
        return self.rows != 0 or self.size_bytes != 0


@dataclass(frozen=True)
class Planned:
    """The splits of one batch and the position behind them.

    Attributes:
        waiting: The parts of the source, each read in order, that have more behind the position: of Kafka
            `topic/partition`. A source whose parts come in no order of time names one that no event comes from.
        moment: When the ledger recorded it, in tenths of a second since the epoch; later than any batch before it, and
            the same in a replay. 0 before that.
    """

    splits: list[Split]
    position: Position = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    moment: int = field(default=0, compare=False)


class Reader(Protocol):
    """Runs on executors; pickled with the batch, so it holds settings only."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the events of a split in order.

        Columns: `EVENT`, or `TYPED` beside `SCHEMA`; optionally `MALFORMED`; every other column is a metadata attribute
        under its own name (what `getMetadata("…")` finds). Batches of other columns are converted apart, so few should
        differ. A batch has at most `READ_ROWS` rows and about `READ_BYTES` bytes.

        Raises:
            SourceError: The split cannot be read; nothing of it may count as read.
        """
        ...


class Source(Protocol):
    """Runs on the driver, called by one thread only (the pipeline's), but for `acknowledge` (the committer's)."""

    @property
    def reader(self) -> Reader:
        """What reads this source's splits on the executors."""
        ...

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Open the source at the position of the last planned batch (None: never ran).

        `pending` are the batches of the ledger that were planned and not acknowledged: they are not planned again.

        With `once` the end is fixed now: what comes later is left for another run; a listening source opens no port.

        Raises:
            SourceError: With the way out, e.g. a port that is taken.
        """
        ...

    def backlog(self, position: Position | None) -> Backlog:
        """Return what waits behind a position; cheap, called a few times a second."""
        ...

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return the next batch behind a position, about `max_bytes` at most, or None when nothing waits."""
        ...

    def acknowledge(self, planned: Planned) -> None:
        """Release what a committed batch has read. Batches come in order; may be repeated after a crash."""
        ...

    def stop(self) -> None:
        """Accept nothing more, and close. May be called twice."""
        ...


@dataclass(frozen=True)
class Beginning:
    """Where a new state begins to read; one of these is given.

    Attributes:
        at: `earliest`: all that is there; `latest`: what comes from now on; `group`: what Kafka's consumer group has
            not committed.
        offsets: The next offset, by topic and partition.
        timestamp_ms: The first event at or after this time, in milliseconds since the epoch.
    """

    at: Literal["earliest", "latest", "group"] | None = None
    offsets: Mapping[str, Mapping[int, int]] | None = None
    timestamp_ms: int | None = None


@runtime_checkable
class BeginsAnywhere(Protocol):
    """A source that can begin at a chosen place."""

    def begin_at(self, beginning: Beginning) -> Position:
        """Return the position of a place; what else the source must remember goes into its folder.

        Raises:
            SettingsError: There is no such place.
            SourceUnavailableError: The source does not answer.
        """
        ...


@runtime_checkable
class Rereads(Protocol):
    """A source that can read again what lies between two positions."""

    def between(self, start: Position | None, end: Position, count: int) -> list[Planned]:
        """Divide what lies between two positions into so many batches, some of them perhaps without splits.

        Raises:
            PositionLostError: Something of it is gone.
        """
        ...


@dataclass(frozen=True)
class SourceTable:
    """An Iceberg table that events are rows of.

    Attributes:
        name: As the metadata attribute `iceberg_table_name` has it.
        uuid: The table's own identity.
        schema_json: The schema that the rows were read by, reduced to the fields that the events have.
    """

    name: str
    uuid: str
    schema_json: str


@runtime_checkable
class OfTables(Protocol):
    """A source whose events are rows of Iceberg tables, so that their types are known."""

    def tables(self, planned: Planned) -> list[SourceTable]:
        """Return the tables of a batch's events."""
        ...


@runtime_checkable
class Listens(Protocol):
    """A source that clients send events to."""

    @property
    def url(self) -> str | None:
        """Where clients send events; None while it does not listen."""
        ...
