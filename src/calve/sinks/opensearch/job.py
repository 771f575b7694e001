"""What tasks get to know of an OpenSearch sink."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from calve.columns.fields import ALL_FIELDS, Fields
from calve.dead_letters.rejects import DeadLetterPlace
from calve.event.reject import rejects_table
from calve.route.route import SinkRoute

if TYPE_CHECKING:
    from calve.sinks.opensearch.documents import Documents, Writing

__all__ = ["DocumentJob"]


@dataclass(frozen=True)
class DocumentJob:
    """A sink's part of a job that writes documents as it goes, with nothing left to commit.

    Attributes:
        label: The sink's name in dead letters.
        writing: How documents are written.
        fields: The fields of an event that are written.
    """

    label: str
    route: SinkRoute
    dead_letters: DeadLetterPlace
    writing: Writing
    fields: Fields = ALL_FIELDS

    def writer(self) -> Documents:
        """Make what writes documents in a task."""
        from calve.sinks.opensearch.documents import Documents  # slow to import, and few tasks write documents

        return Documents(self.writing, self.fields)

    def refused(self, events: pa.Table) -> pa.Table:
        """Return the events that cannot become documents (`REJECTS`); send nothing."""
        found = self.writing.shape.lines(events, self.fields).rejects
        return rejects_table([]) if found is None else found

    def rejecting_into(self, dead_letters: DeadLetterPlace) -> DocumentJob:
        """Return the same job with another place for its rejected events."""
        return replace(self, dead_letters=dead_letters)
