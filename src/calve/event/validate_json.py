"""Checks which events are JSON objects, and makes a text of each that DuckDB certainly accepts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.compiled import events as core
from calve.event import duckdb_session
from calve.event.columns import EVENT, JSON, MALFORMED, PICKED, ROW
from calve.event.exact_json import MalformedError, dump
from calve.event.reject import Code, Reject, rejects_table
from calve.event.repeated import RepeatedKeys

__all__ = [
    "HALF_SURROGATE",
    "Valid",
    "as_text",
    "cleaned",
    "half_surrogates",
    "is_same",
    "picked_array",
    "validated",
    "whole_array",
    "without_half_surrogates",
]


HALF_SURROGATE = "half a surrogate pair is not valid text"
_REPLACEMENT = "\ufffd"


class Valid(NamedTuple):
    """Valid events, and the rejects.

    Attributes:
        rows: The columns of the input plus `json` and `row`, and `_picked` if it is requested and there is a core, in
            order, without the malformed rows.
        rejects: The malformed rows (`REJECTS`).
    """

    rows: pa.Table
    rejects: pa.Table


def validated(events: pa.Table, fields: Sequence[str] = ()) -> Valid:
    """Divide a table with the column `event` (and perhaps `malformed`) into JSON objects and malformed rows.

    Of a repeated key `json` has only the last value (decision 54).

    Args:
        events: The table.
        fields: Fields to pick out of the objects.
    """
    rejects: list[Reject] = []
    array = whole_array(events[EVENT])
    given_up = events[MALFORMED].to_pylist() if _has_reasons(events) else None
    changed: dict[int, str] = {}
    picked, reader = core.pick(array, fields), RepeatedKeys()
    for row in range(len(array)) if picked is None else np.flatnonzero(picked[0].to_numpy() < 0).tolist():
        if given_up and given_up[row] is not None:
            continue
        try:
            value = reader.parse(array[row].as_py())
        except MalformedError as error:
            rejects.append(Reject(row, Code.MALFORMED, "", str(error)))
            continue
        if picked is not None or reader.has_any or _has_half_surrogate(value):
            changed[row] = cleaned(value)
    rejects += [
        Reject(row, Code.MALFORMED, "", reason) for row, reason in enumerate(given_up or ()) if reason is not None
    ]
    keep = np.ones(len(events), bool)
    keep[[reject.row for reject in rejects]] = False
    rows = events.append_column(ROW, pa.array(np.arange(len(events)), pa.int64()))
    if fields and picked:
        rows = rows.append_column(PICKED, _picked(*picked, changed, fields))
    rows = rows.filter(pa.array(keep)) if rejects else rows
    return Valid(rows.append_column(JSON, _readable(rows, changed)), rejects_table(rejects))


def _picked(numbers: pa.Array, texts: pa.Array, changed: Mapping[int, str], fields: Sequence[str]) -> pa.Array:
    """Return the picked fields of each event as JSON; null for a malformed event."""
    if again := core.pick(pa.array(changed.values(), pa.string()), fields) if changed else None:
        codes = numbers.to_numpy(zero_copy_only=False).copy()
        codes[list(changed)] = again[0].to_numpy() + len(texts)
        numbers, texts = pa.array(codes), pa.concat_arrays([texts, again[1]])
    return picked_array(numbers, texts)


def picked_array(numbers: pa.Int32Array, texts: pa.Array) -> pa.DictionaryArray:
    """Return the texts with these numbers (`core.pick`); null for -1."""
    return pa.DictionaryArray.from_arrays(pc.if_else(pc.less(numbers, 0), None, numbers), texts)


def _readable(rows: pa.Table, changed: Mapping[int, str]) -> pa.Array:
    """Return the texts of rows, with the changed ones replaced."""
    texts = as_text(rows[EVENT])
    if not changed:
        return texts
    mask = np.isin(rows[ROW].to_numpy(), list(changed))
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(changed.values(), texts.type))


def half_surrogates(rows: pa.Table) -> dict[int, str]:
    """Return for rows of valid events with half a surrogate pair, which `json` has replaced, the first such field."""
    replaced = pc.indices_nonzero(pc.match_substring(rows[JSON], _REPLACEMENT))  # an event may have it itself, too
    events = zip(replaced.to_pylist(), rows[EVENT].take(replaced).to_pylist(), strict=True)
    fields = {row: _field_with_half(event) for row, event in events if event is not None}
    return {row: field for row, field in fields.items() if field is not None}


def _field_with_half(event: bytes) -> str | None:
    try:
        value = RepeatedKeys().parse(event)
    except MalformedError:
        return None
    return next((name for name in value if _has_half_surrogate({name: value[name]})), None)


def _has_half_surrogate(value: Mapping[str, Any]) -> bool:
    try:
        dump(value).encode()
    except UnicodeEncodeError:
        return True
    return False


def whole_array(events: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    joined = duckdb_session.one_array(events)
    if isinstance(joined, pa.ChunkedArray):
        joined = pa.concat_arrays(joined.chunks) if joined.num_chunks else pa.array([], events.type)
    return joined


def as_text(events: pa.ChunkedArray) -> pa.Array:
    """Return events as one string array; null for an event that is null or not UTF-8."""
    joined = whole_array(events)
    try:
        return joined.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(event) for event in joined.to_pylist()], pa.string())


def is_same(first: pa.Array, other: pa.Array) -> bool:
    """Return whether two arrays share memory, which means unchanged texts."""
    addresses = [[buffer and buffer.address for buffer in array.buffers()] for array in (first, other)]
    return addresses[0][1:] == addresses[1][1:] and (first.offset, len(first)) == (other.offset, len(other))


def _decoded(event: bytes | None) -> str | None:
    try:
        return None if event is None else event.decode()
    except UnicodeDecodeError:
        return None


def _has_reasons(events: pa.Table) -> bool:
    return MALFORMED in events.column_names and events[MALFORMED].null_count < len(events)


def cleaned(value: Mapping[str, Any]) -> str:
    """Write a parsed object as text that DuckDB accepts."""
    return without_half_surrogates(dump(value))


def without_half_surrogates(text: str) -> str:
    """Replace half surrogate pairs, which UTF-8 cannot encode, by the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
