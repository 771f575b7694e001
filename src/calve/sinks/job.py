"""What every sink must be in a task: a job, pickled on the driver, and what writes. Imports nothing of the driver."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pyarrow as pa

from calve.dead_letters.rejects import DeadLetterPlace
from calve.record.written import IndexDocuments
from calve.route.route import SinkRoute

__all__ = ["SinkJob", "SinkWriter", "WritingJob"]


class SinkJob(Protocol):
    """A sink's part of a job; pickled into the tasks.

    Tasks stage files for a `calve.sinks.iceberg.job.TableJob`. Any other job writes as it goes (`WritingJob`).
    """

    @property
    def label(self) -> str:
        """The sink's name in dead letters."""
        ...

    @property
    def route(self) -> SinkRoute:
        """Which events it gets, and for which table or index."""
        ...

    @property
    def dead_letters(self) -> DeadLetterPlace:
        """Where its rejected events go."""
        ...

    def rejecting_into(self, dead_letters: DeadLetterPlace) -> SinkJob:
        """Return the same job with another place for its rejected events."""
        ...


class SinkWriter(Protocol):
    """Writes the events of one sink in one task, as they come; runs on executors."""

    def write(self, table: str, events: pa.Table) -> pa.Table:
        """Write events, and return those that were refused (`calve.event.reject.REJECTS`).

        The same events may come again, in this task or in another one, and must then change nothing. Their column
        `event_version` grows with the order of events, and is the same when they come again.

        Args:
            table: The table's or index's name, as the route gives it.
            events: `json` (the sound text of each), `event_version`, and metadata.

        Raises:
            CalveError: The server is away or refuses all.
        """
        ...

    def written(self) -> list[IndexDocuments]:
        """Return what was written, by index, for the receipt."""
        ...


@runtime_checkable
class WritingJob(SinkJob, Protocol):
    """The job of a sink whose tasks write as they go and leave nothing to commit."""

    def writer(self) -> SinkWriter:
        """Make what writes in a task."""
        ...

    def refused(self, events: pa.Table) -> pa.Table:
        """Return the events that would be refused without asking a server (`REJECTS`); write nothing."""
        ...
