"""Writes events of one task as documents of OpenSearch, or rejects them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.columns.fields import Fields
from calve.event.columns import JSON, VERSION
from calve.event.reject import Code, Reject, rejects_table
from calve.record.written import IndexDocuments
from calve.sinks.opensearch.bulk import Bulk, Refused, Sent
from calve.sinks.opensearch.client import Access, Client
from calve.sinks.opensearch.lines import Shape
from calve.sinks.opensearch.revise import Reviser, Step

__all__ = ["Documents", "Writing"]

_TEXT = pa.large_string()
_HEAD_BYTES = 120
"""The usual size of the line before a document; an estimate: one more request costs more than a smaller one."""
_STEPS = 2_000
"""The events whose documents are read together."""


@dataclass(frozen=True)
class Writing:
    """How a sink writes its documents; pickled into tasks.

    `is_one_index`: all of them go to one index, as opposed to an index that each event names.
    """

    access: Access
    shape: Shape
    bulk_bytes: int
    version_type: str = "external_gte"
    max_retries: int | None = None
    is_one_index: bool = True


class Documents:
    """Writes the documents of one sink in one task (executor).

    Args:
        writing: How to write.
        fields: The fields of an event that are written.
    """

    def __init__(self, writing: Writing, fields: Fields) -> None:
        self._writing = writing
        self._fields = fields
        brief = writing.version_type != "external" or not writing.shape.keyed
        self._bulk = Bulk(
            Client(writing.access),
            writing.bulk_bytes,
            writing.max_retries,
            brief=brief,
            is_one_index=writing.is_one_index,
        )
        self._counts: dict[str, dict[str, int]] = {}

    def write(self, index: str, events: pa.Table) -> pa.Table:
        """Write events with `json` and `event_version`; return the rejects (`REJECTS`).

        May be repeated safely, in this task or another: existing documents stay as they are.

        Raises:
            SinkUnavailableError: OpenSearch does not answer, or accepts nothing for too long.
            SinkRefusedError: It does not accept the user.
        """
        starts = _requests(events, self._writing.bulk_bytes)
        ends = [*starts[1:], len(events)]
        return pa.concat_tables(
            self._request(index, events.slice(start, end - start), start)
            for start, end in zip(starts, ends, strict=True)
        )

    def _request(self, index: str, events: pa.Table, first: int) -> pa.Table:
        """Build and send about one request; other tasks' documents are written meanwhile."""
        lines = self._writing.shape.lines(events, self._fields)
        sent = self._send(index, lines.text) if lines.steps is None else self._revise(index, lines.text, lines.steps)
        rejected = len(sent.refused) + (0 if lines.rejects is None else len(lines.rejects))
        counts = self._counts.setdefault(index, {"rows": 0, "superseded": 0, "derived_ids": 0})
        superseded = (sent.superseded if self._writing.shape.keyed else 0) + lines.overwritten
        counts["rows"] += len(events) - rejected - superseded
        counts["superseded"] += superseded
        counts["derived_ids"] += lines.derived
        refused = rejects_table(Reject(refusal.row, Code.SINK_REFUSED, "", refusal.reason) for refusal in sent.refused)
        rejects = refused if lines.rejects is None else pa.concat_tables([lines.rejects, refused])
        return rejects.set_column(0, "row", pc.add(rejects["row"], first)) if first else rejects

    def written(self) -> list[IndexDocuments]:
        """Return the number of documents written to each index."""
        return [IndexDocuments(index, **counts) for index, counts in self._counts.items()]

    def _send(self, index: str, text: pa.LargeStringArray) -> Sent:
        """Send the lines that are not null."""
        if not text.null_count:
            return self._bulk.send(index, text)
        rows = pc.indices_nonzero(text.is_valid())
        sent = self._bulk.send(index, text.drop_null())
        return Sent([Refused(rows[refusal.row].as_py(), refusal.reason) for refusal in sent.refused], sent.superseded)

    def _revise(self, index: str, text: pa.LargeStringArray, steps: pa.Table) -> Sent:
        """Read documents, change them and send them, some events at a time."""
        whole = Sent([])
        steps = steps.append_column("line", text)
        for start in range(0, len(steps), _STEPS):
            part = steps.slice(start, _STEPS)
            reviser = Reviser(self._bulk, index, self._writing.version_type)
            revisions = list(reviser.revise([Step(**revision) for revision in part.to_pylist()]))
            sent = self._send(
                index, pa.array([revision if isinstance(revision, str) else None for revision in revisions], _TEXT)
            )
            refused = sent.refused + [revision for revision in revisions if isinstance(revision, Refused)]
            whole.refused += [Refused(start + revision.row, revision.reason) for revision in refused]
            whole.superseded += sent.superseded + reviser.superseded
        return whole


def _requests(events: pa.Table, size_bytes: int) -> list[int]:
    """Return the starts of requests of about a size; rows of one event share a version, and stay in one request."""
    rows = max(1, size_bytes * len(events) // max(events[JSON].nbytes + _HEAD_BYTES * len(events), 1))
    first_rows = np.flatnonzero(np.diff(events[VERSION].to_numpy(), prepend=-1))
    after = np.searchsorted(first_rows, np.arange(rows, len(events), rows))
    return [0, *np.unique(first_rows[after[after < len(first_rows)]]).tolist()]
