"""What tasks get to know of an OpenSearch sink."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from calve.columns.fields import ALL_FIELDS, Fields
from calve.event.reject import rejects_table
from calve.sinks.job import DirectWriter, EventPreview, SinkJob, Work
from calve.sinks.opensearch.documents import Documents, Writing

__all__ = ["DocumentJob"]


@dataclass(frozen=True)
class DocumentJob(SinkJob):
    """A sink's part of a job that writes documents as it goes, with nothing left to commit.

    Attributes:
        writing: How documents are written.
        fields: The fields of an event that are written.
    """

    writing: Writing
    fields: Fields = ALL_FIELDS

    def writer(self, work: Work) -> DirectWriter:
        """Make what writes documents in a task."""
        return DirectWriter(work, Documents(self.writing, self.fields))

    def preview(self, table: str, events: pa.Table) -> EventPreview:
        """Return the events that cannot become documents; send nothing."""
        rejects = self.writing.shape.lines(events, self.fields).rejects
        return EventPreview(rejects_table([]) if rejects is None else rejects)
