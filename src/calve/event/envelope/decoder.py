"""Decodes batches of envelopes to batches of rows with their operations. Runs on executors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import RowNumbers
from calve.event import duckdb_session
from calve.event.columns import EVENT, JSON, MALFORMED, ORIGINAL, ROW, SCHEMA
from calve.event.envelope.exact import RefusedEnvelopeError, RequestedAttributes, RowChange, decode, text_of
from calve.event.envelope.fast import FastDecoder
from calve.event.envelope.schema import Field, with_instants
from calve.event.envelope.schema import text_of as schema_text
from calve.event.envelope.shape import OPERATION_ATTRIBUTE, SHAPES, EnvelopeShape
from calve.event.reject import Code, Reject, rejects_table
from calve.event.validate_json import cleaned, whole_array

__all__ = ["RECORD_KEY", "DecodedEnvelopes", "EnvelopeDecoder", "Envelopes"]

RECORD_KEY = "kafka_key"
"""The metadata attribute with the record's key; it identifies the row of a delete whose envelope has no row."""


@dataclass(frozen=True)
class Envelopes:
    """How to decode a source's events; pickled into the tasks.

    Attributes:
        format: A name in `SHAPES`.
        wanted: What to return beside the rows.
        unavailable: The placeholder for a value that the source did not send; None: the format's default.
        keeps_empty: Whether records that describe no row stay, with a null for the row.
    """

    format: str
    wanted: RequestedAttributes = field(default_factory=RequestedAttributes)
    unavailable: str | None = None
    keeps_empty: bool = False

    def asked(self, metadata: frozenset[str], keys: frozenset[str]) -> Envelopes:
        """Return the same for other attributes and keys (`RequestedAttributes`)."""
        return replace(self, wanted=replace(self.wanted, metadata=metadata, keys=keys))

    @property
    def shape(self) -> EnvelopeShape:
        """The format, with the configured placeholder."""
        shape = SHAPES[self.format]
        return shape if self.unavailable is None else replace(shape, unavailable=self.unavailable)

    @property
    def metadata(self) -> dict[str, pa.DataType]:
        """The metadata attributes that rows can have, and their types."""
        attributes = {name: attribute.kind for name, attribute in SHAPES[self.format].metadata.items()}
        return attributes if self.shape.is_plain else {OPERATION_ATTRIBUTE: pa.string(), **attributes}


class DecodedEnvelopes(NamedTuple):
    """A batch after decoding.

    Attributes:
        rows: In the order of the envelopes: `event` and `json` (the row), `original` (the envelope), `row` (the
            envelope's position), the metadata of the input, `operation` and the requested attributes; `_schema` if
            the format may have schemas.
        rejects: Envelopes that cannot be applied (`REJECTS`).
        skipped: How many describe no row: tombstones, control records.
    """

    rows: pa.Table
    rejects: pa.Table
    skipped: int


class EnvelopeDecoder:
    """Decodes the batches of one task."""

    def __init__(self, envelopes: Envelopes) -> None:
        self._shape = envelopes.shape
        self._wanted = envelopes.wanted
        self._keeps_empty = envelopes.keeps_empty
        self._kinds = {name: kind for name, kind in envelopes.metadata.items() if self._is_wanted(name)}
        columns = {"at": pa.int64(), "event": pa.string(), "json": pa.string(), SCHEMA: pa.int32()}
        self._schema = pa.schema({**columns, **self._kinds})
        self._schemas: dict[Field, int] = {}
        self._fast = FastDecoder(self._shape, self._wanted, self._number)

    def decode(self, events: pa.Table) -> DecodedEnvelopes:
        """Decode a table with the column `event` (and perhaps `malformed`, `kafka_key`)."""
        texts = whole_array(events[EVENT])
        rejected = _reasons(events)
        is_tombstone = texts.is_null().to_numpy(zero_copy_only=False)
        waiting = ~is_tombstone
        waiting[list(rejected)] = is_tombstone[list(rejected)] = False
        decoded = self._fast.decode(texts, np.flatnonzero(waiting))
        rejects = [Reject(row, Code.MALFORMED, "", reason) for row, reason in rejected.items()]
        slow = self._slow(events, decoded.left, decoded.parts, rejects)
        empty = np.concatenate([np.flatnonzero(is_tombstone), decoded.silent, slow])
        if self._keeps_empty:
            columns = [pa.array(empty), *(pa.nulls(len(empty), field.type) for field in list(self._schema)[1:])]
            decoded.parts.append(pa.table(columns, schema=self._schema))
        skipped = 0 if self._keeps_empty else len(empty)
        rows = _resent(events, self._joined(events, decoded.parts))
        return DecodedEnvelopes(rows, rejects_table(rejects), skipped)

    def _is_wanted(self, name: str) -> bool:
        return name == OPERATION_ATTRIBUTE or name in self._wanted.metadata

    def _number(self, schema: Field | None) -> int | None:
        if schema is None:
            return None
        declared = with_instants(schema) if self._shape.is_plain else schema
        return self._schemas.setdefault(declared, len(self._schemas))

    def _slow(self, events: pa.Table, rows: RowNumbers, parts: list[pa.Table], rejects: list[Reject]) -> RowNumbers:
        """Decode the remaining envelopes one by one; return the positions of those that describe no row."""
        keys = (
            events[RECORD_KEY].take(pa.array(rows)).to_pylist()
            if RECORD_KEY in events.column_names
            else [None] * len(rows)
        )
        change_rows: list[dict[str, Any]] = []
        empty: list[int] = []
        for row, event, key in zip(rows.tolist(), events[EVENT].take(pa.array(rows)).to_pylist(), keys, strict=True):
            try:
                changes = decode(self._shape, event, key, self._wanted)
                decoded = [{**_row(row, change), SCHEMA: self._number(change.schema)} for change in changes]
            except RefusedEnvelopeError as refused:
                rejects.append(Reject(row, refused.code, "", str(refused)))
                continue
            except RecursionError:
                rejects.append(Reject(row, Code.MALFORMED, "", "nested too deeply"))
                continue
            empty += [] if changes else [row]
            change_rows += decoded
        if change_rows:
            parts.append(pa.Table.from_pylist(change_rows, self._schema))
        return np.array(empty, np.int64)

    def _joined(self, events: pa.Table, parts: list[pa.Table]) -> pa.Table:
        """Join the parts in the order of the envelopes, with the metadata of the input."""
        joined = pa.concat_tables([part.select(self._schema.names) for part in parts] or [self._schema.empty_table()])
        if len(parts) > 1:
            joined = joined.take(pc.sort_indices(joined["at"]))  # stable
        at = duckdb_session.one_array(joined["at"])
        is_all = np.array_equal(at, np.arange(len(events)))
        rows = events.drop_columns([name for name in (MALFORMED, SCHEMA, *self._kinds) if name in events.column_names])
        rows = rows if is_all else rows.take(at)
        if ORIGINAL in rows.column_names:  # the envelope was Avro
            rows = rows.drop_columns([EVENT])
        rows = rows.rename_columns([ORIGINAL if name == EVENT else name for name in rows.column_names])
        rows = rows.add_column(0, EVENT, joined["event"].cast(pa.binary()))
        for name, column in ((JSON, joined["json"]), (ROW, at), *((name, joined[name]) for name in self._kinds)):
            rows = rows.append_column(name, column)
        return rows.append_column(SCHEMA, self._schema_texts(joined[SCHEMA])) if self._shape.wrapped else rows

    def _schema_texts(self, numbers: pa.ChunkedArray) -> pa.DictionaryArray:
        texts = pa.array([schema_text(schema) for schema in self._schemas], pa.string())
        return pa.DictionaryArray.from_arrays(duckdb_session.one_array(numbers), texts)


def _row(row: int, change: RowChange) -> dict[str, Any]:
    texts = {"event": text_of(change.row), "json": cleaned(change.row)}
    return {"at": row, **texts, OPERATION_ATTRIBUTE: change.operation, **change.metadata}


def _resent(events: pa.Table, rows: pa.Table) -> pa.Table:
    """Return the rows without those that were no dead letters: of an update in two rows, one may have been rejected.

    An event that is sent again brings the operation of its row.
    """
    if OPERATION_ATTRIBUTE not in events.column_names:
        return rows
    at = rows[ROW].to_numpy()
    is_same = pc.equal(events[OPERATION_ATTRIBUTE].take(rows[ROW]), rows[OPERATION_ATTRIBUTE])
    same = pc.fill_null(is_same, False).to_numpy()
    has_same = np.isin(at, at[same])
    return rows.filter(pa.array(same | ~has_same))


def _reasons(events: pa.Table) -> dict[int, str]:
    """Return the rows that the source rejects, with its reasons."""
    if MALFORMED not in events.column_names or events[MALFORMED].null_count == len(events):
        return {}
    return {row: reason for row, reason in enumerate(events[MALFORMED].to_pylist()) if reason is not None}
