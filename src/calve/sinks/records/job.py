"""What tasks get to know of a sink that sends the records of a batch at its end."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import pyarrow as pa

from calve.columns.fields import Fields
from calve.sinks.job import EventPreview, SinkJob
from calve.sinks.records.shape import RecordShape

__all__ = ["BatchJob", "no_fault"]


def no_fault(name: str) -> str | None:
    """Find nothing wrong with a name."""
    return None


@dataclass(frozen=True)
class BatchJob(SinkJob):
    """A sink's part of a job, of which one task sends all records.

    Attributes:
        shape: How events become records.
        fields: The fields of an event that are written.
        name: A name of the batch that no other one has; the same when the batch comes again.
        time_ms: The time of the batch, in milliseconds since the epoch.
    """

    shape: RecordShape
    fields: Fields
    name: str
    time_ms: int

    def conversion_key(self, table: str) -> Hashable:
        """Return one key for all targets."""
        return ""

    def preview(self, table: str, events: pa.Table) -> EventPreview:
        """Return the events that cannot become records; send nothing."""
        return EventPreview(self.shape.records(events, self.fields).rejects)
