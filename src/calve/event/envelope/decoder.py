"""Turns batches of envelopes into batches of rows, each with what is to be done with it. Runs on executors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.event import duck
from calve.event.columns import EVENT, JSON, MALFORMED, ORIGINAL, ROW, SCHEMA
from calve.event.envelope.exact import Change, RefusedError, Wanted, decode, text_of
from calve.event.envelope.fast import Taken, cut, take
from calve.event.envelope.schema import Field
from calve.event.envelope.schema import text_of as schema_text
from calve.event.envelope.shape import OPERATION_ATTRIBUTE, SHAPES, UNAVAILABLE, Shape
from calve.event.envelope.wrapper import Wrappers
from calve.event.reject import Code, Reject, rejects_table
from calve.event.scan import Texts
from calve.event.sound import as_text, cleaned, valid_mask
from calve.event.strict import DEEPEST

__all__ = ["RECORD_KEY", "Decoded", "Decoder", "Envelopes"]

_Rows = npt.NDArray[np.int64]
RECORD_KEY = "kafka_key"
"""The metadata attribute with the record's key, which names the row of a delete that does not."""
_FEW = 1000
"""Rows that tell little of others."""
_LONG = "|".join(
    [
        *(rf"[1-9][0-9]{{{15 - n},}}\.[0-9]{{{n}}}" for n in range(1, 16)),
        r"0\.0*[1-9][0-9]{15}",
        r"[1-9][0-9]{15,}[eE]",
    ]
)
"""A number with a fraction or an exponent, and more than the 15 digits that a double always keeps."""


@dataclass(frozen=True)
class Envelopes:
    """How a source's events are to be decoded; pickled into the tasks.

    Attributes:
        format: A name in `SHAPES`.
        wanted: What is asked for beside the rows.
    """

    format: str
    wanted: Wanted = field(default_factory=Wanted)

    @property
    def metadata(self) -> dict[str, pa.DataType]:
        """The attributes that rows can have, and their types."""
        told = {name: attribute.kind for name, attribute in SHAPES[self.format].metadata.items()}
        return {OPERATION_ATTRIBUTE: pa.string(), **told}


class Decoded(NamedTuple):
    """A batch after decoding.

    Attributes:
        rows: In the order of the envelopes: `event` and `json` (the row), `original` (the envelope), `row` (the
            envelope's position), the metadata that came in, `operation` and the attributes that are wanted; `_schema`
            where the format may have schemas.
        rejects: Envelopes that say nothing that can be done (`REJECTS`).
        passed_over: How many are about no row: tombstones, control records.
    """

    rows: pa.Table
    rejects: pa.Table
    passed_over: int


class Decoder:
    """Decodes the batches of one task."""

    def __init__(self, envelopes: Envelopes) -> None:
        self._format = envelopes.format
        self._shape: Shape = SHAPES[envelopes.format]
        self._wanted = envelopes.wanted
        self._kinds = {name: kind for name, kind in envelopes.metadata.items() if self._asked(name)}
        told = {"at": pa.int64(), "event": pa.string(), "json": pa.string(), SCHEMA: pa.int32()}
        self._schema = pa.schema({**told, **self._kinds})
        self._wrappers = Wrappers()
        self._schemas: dict[Field, int] = {}
        self._cuts = True

    def decode(self, events: pa.Table) -> Decoded:
        """Decode a table with the column `event` (and perhaps `malformed`, `kafka_key`)."""
        texts = as_text(events[EVENT])
        waiting = texts.is_valid().to_numpy(zero_copy_only=False).copy()
        given_up = _reasons(events)
        waiting[list(given_up)] = False
        parts = self._fast(texts, np.flatnonzero(waiting))
        for part in parts:
            waiting[part["at"].to_numpy()] = False
        slow = np.flatnonzero(waiting | (texts.is_null().to_numpy(zero_copy_only=False)))
        slow = np.array([row for row in slow.tolist() if row not in given_up], np.int64)
        rejects = [Reject(row, Code.MALFORMED, "", reason) for row, reason in given_up.items()]
        passed_over = self._slow(events, slow, parts, rejects)
        return Decoded(self._joined(events, parts), rejects_table(rejects), passed_over)

    def _asked(self, name: str) -> bool:
        return name == OPERATION_ATTRIBUTE or name in self._wanted.metadata

    def _fast(self, texts: pa.Array, rows: _Rows) -> list[pa.Table]:
        """Decode what can be proven; tables of `at`, `row`, `json` and metadata."""
        parts = []
        for at, payloads, schema in self._payloads(_pick(texts, rows), rows):
            scan = Texts(payloads)
            sound = _others(len(at), np.union1d(scan.lenient(), scan.deep(DEEPEST)))
            at, payloads = at[sound], _pick(payloads, sound)
            try:
                found = self._found(at, payloads, schema)
            except duck.NoJsonError:  # for all, where one is no JSON
                valid = np.flatnonzero(valid_mask(payloads))
                found = self._found(at[valid], payloads.take(pa.array(valid)), schema)
            for rows_at, taken in found:
                number = pa.repeat(pa.scalar(self._number(schema), pa.int32()), len(rows_at))
                told = {"at": pa.array(rows_at), "event": taken.rows, "json": taken.rows, SCHEMA: number}
                parts += [pa.table({**told, **taken.metadata})] if len(rows_at) else []
        return parts

    def _number(self, schema: Field | None) -> int | None:
        return None if schema is None else self._schemas.setdefault(schema, len(self._schemas))

    def _payloads(self, texts: pa.Array, rows: _Rows) -> list[tuple[_Rows, pa.Array, Field | None]]:
        if not self._shape.wrapped:
            return [(rows, texts, None)]
        return [(rows[at], payloads, schema) for at, payloads, schema in self._wrappers.open(texts)]

    def _found(self, at: _Rows, payloads: pa.Array, schema: Field | None) -> list[tuple[_Rows, Taken]]:
        """Decode by one way after the other, each what those before have left."""
        found, left = [], np.arange(len(at))
        taken = cut(self._format, payloads, schema, self._wanted) if self._cuts else None
        if taken is not None:
            found, left = [(at[taken.good], taken)], np.flatnonzero(~taken.good)
            self._cuts = len(at) < _FEW or 2 * len(left) < len(at)
        if schema is None:
            left = left[_others(len(left), _rounded(_pick(payloads, left)))]
        for partly in (False, True):
            texts = _pick(payloads, left)
            if not len(left) or (partly and not (schema and pc.any(pc.match_substring(texts, UNAVAILABLE)).as_py())):
                break
            taken = take(self._format, texts, schema, self._wanted, partly)
            found.append((at[left[taken.good]], taken))
            left = left[~taken.good]
        return found

    def _slow(self, events: pa.Table, rows: _Rows, parts: list[pa.Table], rejects: list[Reject]) -> int:
        """Decode one by one what is left; give how many are about no row."""
        keys = (
            events[RECORD_KEY].take(pa.array(rows)).to_pylist()
            if RECORD_KEY in events.column_names
            else [None] * len(rows)
        )
        found: list[dict[str, Any]] = []
        passed_over = 0
        for row, event, key in zip(rows.tolist(), events[EVENT].take(pa.array(rows)).to_pylist(), keys, strict=True):
            try:
                changes = [] if event is None else decode(self._shape, event, key, self._wanted)
                told = [{**_told(row, change), SCHEMA: self._number(change.schema)} for change in changes]
            except RefusedError as refused:
                rejects.append(Reject(row, refused.code, "", str(refused)))
                continue
            except RecursionError:
                rejects.append(Reject(row, Code.MALFORMED, "", "nested too deeply"))
                continue
            passed_over += not changes
            found += told
        if found:
            parts.append(pa.Table.from_pylist(found, self._schema))
        return passed_over

    def _joined(self, events: pa.Table, parts: list[pa.Table]) -> pa.Table:
        """Put the parts in the order of the envelopes, beside the metadata that came in."""
        found = pa.concat_tables([part.select(self._schema.names) for part in parts] or [self._schema.empty_table()])
        if len(parts) > 1:
            found = found.take(pc.sort_indices(found["at"]))  # stable
        at = duck.whole(found["at"])
        whole = len(at) == len(events) and len(parts) == 1
        rows = events.drop_columns([name for name in (MALFORMED, SCHEMA, *self._kinds) if name in events.column_names])
        rows = rows if whole else rows.take(at)
        rows = rows.rename_columns([ORIGINAL if name == EVENT else name for name in rows.column_names])
        rows = rows.add_column(0, EVENT, found["event"].cast(pa.binary()))
        for name, column in ((JSON, found["json"]), (ROW, at), *((name, found[name]) for name in self._kinds)):
            rows = rows.append_column(name, column)
        return rows.append_column(SCHEMA, self._told_schemas(found[SCHEMA])) if self._shape.wrapped else rows

    def _told_schemas(self, numbers: pa.ChunkedArray) -> pa.DictionaryArray:
        texts = pa.array([schema_text(each) for each in self._schemas], pa.string())
        return pa.DictionaryArray.from_arrays(duck.whole(numbers), texts)


def _others(count: int, rows: _Rows) -> _Rows:
    mask = np.ones(count, bool)
    mask[rows] = False
    return np.flatnonzero(mask)


def _told(row: int, change: Change) -> dict[str, Any]:
    texts = {"event": text_of(change.row), "json": cleaned(change.row)}
    return {"at": row, **texts, OPERATION_ATTRIBUTE: change.operation, **change.metadata}


def _pick(texts: pa.Array, rows: _Rows) -> pa.Array:
    return texts if len(rows) == len(texts) else texts.take(pa.array(rows))


def _reasons(events: pa.Table) -> dict[int, str]:
    """Give the rows that the source gave up, with its reasons."""
    if MALFORMED not in events.column_names or events[MALFORMED].null_count == len(events):
        return {}
    return {row: reason for row, reason in enumerate(events[MALFORMED].to_pylist()) if reason is not None}


def _rounded(payloads: pa.Array) -> _Rows:
    """Name the texts with numbers that DuckDB would round when it prints them."""
    suspects = Texts(payloads).digit_runs(16, dotted=True)
    long = pc.match_substring_regex(payloads.take(pa.array(suspects)), _LONG)
    found: _Rows = suspects[long.to_numpy(zero_copy_only=False)]
    return found
