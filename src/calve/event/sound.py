"""Which events are JSON objects, and a text of each that DuckDB certainly accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.event import duck
from calve.event.columns import EVENT, JSON, MALFORMED, ROW
from calve.event.reject import Code, Reject, rejects_table
from calve.event.scan import Texts
from calve.event.strict import DEEPEST, MalformedError, dump, parse_object

__all__ = ["Sound", "as_text", "cleaned", "is_same", "sound", "valid_mask"]


_Mask = npt.NDArray[np.bool_]
_IS_OBJECT = """SELECT json_valid(json)
AND CASE WHEN starts_with(json, '{') THEN true ELSE starts_with(ltrim(json, E' \\t\\r\\n'), '{') END AS ok
FROM events"""


class Sound(NamedTuple):
    """Events that are JSON objects, and the others.

    Attributes:
        rows: The columns that came in plus `json` and `row`, in order, without the malformed rows.
        rejects: The malformed rows (`REJECTS`).
    """

    rows: pa.Table
    rejects: pa.Table


def sound(events: pa.Table) -> Sound:
    """Divide a table with the column `event` (and perhaps `malformed`) into JSON objects and malformed rows."""
    rejects: list[Reject] = []
    texts = as_text(events[EVENT])
    given_up = events[MALFORMED].to_pylist() if _has_reasons(events) else None
    readable: dict[int, str] = {}
    refused, suspects = _suspects(texts)
    for row in suspects.tolist():
        if given_up and given_up[row] is not None:
            continue
        try:
            value = parse_object(events[EVENT][row].as_py())
            if refused[row]:
                readable[row] = cleaned(value)
        except MalformedError as error:
            rejects.append(Reject(row, Code.MALFORMED, "", str(error)))
    rejects += [
        Reject(row, Code.MALFORMED, "", reason) for row, reason in enumerate(given_up or ()) if reason is not None
    ]
    if readable:
        mask = np.zeros(len(texts), bool)
        mask[list(readable)] = True
        texts = pc.replace_with_mask(texts, pa.array(mask), pa.array(readable.values(), pa.string()))
    rows = events.append_column(JSON, texts).append_column(ROW, pa.array(np.arange(len(events)), pa.int64()))
    if rejects:
        keep = np.ones(len(events), bool)
        keep[[each.row for each in rejects]] = False
        rows = rows.filter(pa.array(keep))
    return Sound(rows, rejects_table(rejects))


def as_text(events: pa.ChunkedArray) -> pa.Array:
    """Give events as one string array; null where an event is null or not UTF-8."""
    joined = duck.whole(events)
    if isinstance(joined, pa.ChunkedArray):
        joined = pa.concat_arrays(joined.chunks) if joined.num_chunks else pa.array([], events.type)
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


def _suspects(texts: pa.Array) -> tuple[_Mask, npt.NDArray[np.int64]]:
    """Say which texts DuckDB does not take for an object, and name the rows that need the strict parser."""
    filled = pc.fill_null(texts, "") if texts.null_count else texts
    scan = Texts(filled)
    refused = ~_mask(duck.run(_IS_OBJECT, events=pa.table({JSON: filled})))
    return refused, np.unique(np.concatenate([np.flatnonzero(refused), scan.lenient(), scan.deep(DEEPEST)]))


def _mask(found: pa.Table) -> _Mask:
    mask: _Mask = duck.whole(found["ok"]).to_numpy(zero_copy_only=False)
    return mask


def cleaned(value: Mapping[str, Any]) -> str:
    """Write a parsed object as text that DuckDB takes: half surrogates become the replacement character."""
    return dump(value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def valid_mask(texts: pa.Array) -> npt.NDArray[np.bool_]:
    """Say of each text whether DuckDB reads it."""
    return _mask(duck.run("SELECT json_valid(json) AS ok FROM events", events=pa.table({JSON: texts})))
