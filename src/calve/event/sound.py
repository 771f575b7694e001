"""Which events are JSON objects, and a text of each that DuckDB certainly accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.compiled import events as core
from calve.event import duck
from calve.event.columns import EVENT, JSON, MALFORMED, ROW
from calve.event.reject import Code, Reject, rejects_table
from calve.event.repeated import RepeatedKeys
from calve.event.strict import MalformedError, dump

__all__ = ["Sound", "as_text", "cleaned", "is_same", "sound", "valid_mask", "whole_array"]


_Mask = npt.NDArray[np.bool_]


class Sound(NamedTuple):
    """Events that are JSON objects, and the others.

    Attributes:
        rows: The columns that came in plus `json` and `row`, in order, without the malformed rows.
        rejects: The malformed rows (`REJECTS`).
    """

    rows: pa.Table
    rejects: pa.Table


def sound(events: pa.Table) -> Sound:
    """Divide a table with the column `event` (and perhaps `malformed`) into JSON objects and malformed rows.

    Of a key that an object repeats, `json` has the last value alone (decision 7).
    """
    rejects: list[Reject] = []
    array = whole_array(events[EVENT])
    given_up = events[MALFORMED].to_pylist() if _has_reasons(events) else None
    changed: dict[int, str] = {}
    plain, reader = core.check(array), RepeatedKeys()
    for row in range(len(array)) if plain is None else np.flatnonzero(~plain).tolist():
        if given_up and given_up[row] is not None:
            continue
        try:
            value = reader.parse(array[row].as_py())
        except MalformedError as error:
            rejects.append(Reject(row, Code.MALFORMED, "", str(error)))
            continue
        if plain is not None or reader.has_any or _has_half_surrogate(value):
            changed[row] = cleaned(value)
    rejects += [
        Reject(row, Code.MALFORMED, "", reason) for row, reason in enumerate(given_up or ()) if reason is not None
    ]
    keep = np.ones(len(events), bool)
    keep[[each.row for each in rejects]] = False
    rows = events.append_column(ROW, pa.array(np.arange(len(events)), pa.int64()))
    rows = rows.filter(pa.array(keep)) if rejects else rows
    return Sound(rows.append_column(JSON, _readable(rows, changed)), rejects_table(rejects))


def _readable(rows: pa.Table, changed: Mapping[int, str]) -> pa.Array:
    """Return the texts of rows, some of which are others."""
    texts = as_text(rows[EVENT])
    if not changed:
        return texts
    mask = np.isin(rows[ROW].to_numpy(), list(changed))
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(changed.values(), texts.type))


def _has_half_surrogate(value: Mapping[str, Any]) -> bool:
    try:
        dump(value).encode()
    except UnicodeEncodeError:
        return True
    return False


def whole_array(events: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    joined = duck.whole(events)
    if isinstance(joined, pa.ChunkedArray):
        joined = pa.concat_arrays(joined.chunks) if joined.num_chunks else pa.array([], events.type)
    return joined


def as_text(events: pa.ChunkedArray) -> pa.Array:
    """Give events as one string array; null where an event is null or not UTF-8."""
    joined = whole_array(events)
    try:
        return joined.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(event) for event in joined.to_pylist()], pa.string())


def is_same(one: pa.Array, other: pa.Array) -> bool:
    """Say whether two arrays lie in the same memory, as texts do that were left as they came."""
    places = [[buffer and buffer.address for buffer in array.buffers()] for array in (one, other)]
    return places[0][1:] == places[1][1:] and (one.offset, len(one)) == (other.offset, len(other))


def _decoded(event: bytes | None) -> str | None:
    try:
        return None if event is None else event.decode()
    except UnicodeDecodeError:
        return None


def _has_reasons(events: pa.Table) -> bool:
    return MALFORMED in events.column_names and events[MALFORMED].null_count < len(events)


def _mask(found: pa.Table) -> _Mask:
    mask: _Mask = duck.whole(found["ok"]).to_numpy(zero_copy_only=False)
    return mask


def cleaned(value: Mapping[str, Any]) -> str:
    """Write a parsed object as text that DuckDB takes: half surrogates become the replacement character."""
    return dump(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def valid_mask(texts: pa.Array) -> npt.NDArray[np.bool_]:
    """Say of each text whether DuckDB reads it."""
    return _mask(duck.run("SELECT json_valid(json) AS ok FROM events", events=pa.table({JSON: texts})))
