"""What the SELECT leaves open is typed here and proven by the column, from the bytes of its columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg

from calve.convert.given import Given
from calve.convert.literals import Events, read_booleans, read_doubles, read_integers
from calve.convert.select import Select
from calve.convert.stamps import read_stamps
from calve.convert.strings import maybe_changed
from calve.event import duck
from calve.event.columns import JSON
from calve.event.strict import MalformedError, parse_object

__all__ = ["Finished", "finish"]

_FEW = 500  # a query costs as much as to parse so many
_Rows = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


class Finished(NamedTuple):
    """A result, typed.

    Attributes:
        rows: The result.
        doubtful: By column, the rows of which its value is not proven.
    """

    rows: pa.Table
    doubtful: dict[str, _Rows]


def finish(select: Select, found: pa.Table, given: Given, good: _Mask) -> Finished:
    """Type the columns that are still text.

    Args:
        select: The statement.
        found: What it gave, of one chunk.
        given: The events it was given.
        good: Which rows matter.
    """
    doubtful = _changed_strings(select, found, given, good)
    typed: dict[str, pa.Array] = {}
    for name, kind in select.texts.items():
        typed[name], proven = _read(duck.whole(found[name]), kind, given.events, select.scale)
        doubtful[name] = np.flatnonzero(good & ~proven)
    rows = pa.table({name: typed.get(name, found[name]) for name in found.column_names})
    return Finished(rows, {name: rows for name, rows in doubtful.items() if len(rows)})


def _read(column: pa.Array, kind: iceberg.IcebergType, events: Events, scale: int | None) -> tuple[pa.Array, _Mask]:
    match kind:
        case iceberg.IntegerType() | iceberg.LongType():
            return read_integers(column, pa.int32() if isinstance(kind, iceberg.IntegerType) else pa.int64())
        case iceberg.DoubleType() | iceberg.FloatType():
            return read_doubles(column, pa.float32() if isinstance(kind, iceberg.FloatType) else pa.float64(), events)
        case iceberg.BooleanType():
            return read_booleans(column)
    nanos = isinstance(kind, iceberg.TimestampNanoType | iceberg.TimestamptzNanoType)
    values, proven = read_stamps(column, 9 if nanos else 6, scale)
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(values, mask=nulls).view(pa.timestamp("ns" if nanos else "us")), proven


def _changed_strings(select: Select, found: pa.Table, given: Given, good: _Mask) -> dict[str, _Rows]:
    doubtful = {name: maybe_changed(duck.whole(found[name])) for name in select.strings}
    rows = np.unique(np.concatenate([np.zeros(0, np.int64), *doubtful.values()]))
    rows = rows[good[rows]]
    if not len(rows):
        return {}
    events = given.events(rows)
    quoted = _quoted(select, events)
    for name, at in doubtful.items():
        changed = np.isin(rows, at, assume_unique=True)
        changed &= ~quoted[name]
        changed[changed] = _is_changed(found[name].take(pa.array(rows[changed])), events.filter(pa.array(changed)))
        doubtful[name] = rows[changed]
    return doubtful


def _quoted(select: Select, events: pa.Array) -> dict[str, _Mask]:
    """Say of each string column which of its values are JSON strings."""
    if len(events) > _FEW:
        found = duck.run(select.quoted_sql, events=pa.table({JSON: events}))
        return {name: duck.whole(found[name]).to_numpy(zero_copy_only=False) for name in select.strings}
    parsed = [_parsed(event) for event in events.to_pylist()]
    return {
        name: np.array([type(_value(event, path)) is str for event in parsed]) for name, path in select.strings.items()
    }


def _parsed(event: str) -> Any:
    try:
        return parse_object(event)
    except MalformedError:
        return None


def _value(event: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        event = event.get(name) if type(event) is dict else None
    return event


def _is_changed(values: pa.ChunkedArray, texts: pa.Array) -> _Mask:
    """Say of values that may have changed whether they may: a `0` was `-0` only where the event has that."""
    zero = pc.equal(values, "0").to_numpy(zero_copy_only=False)
    signed = pc.match_substring(texts, "-0").to_numpy(zero_copy_only=False)
    mask: _Mask = ~zero | signed
    return mask
