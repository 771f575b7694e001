"""What the SELECT leaves open is typed and proven here, from the bytes of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg

from calve.convert.literals import read_booleans, read_doubles, read_integers
from calve.convert.select import Select
from calve.convert.stamps import read_stamps
from calve.convert.strings import maybe_changed
from calve.event import duck
from calve.event.columns import JSON
from calve.event.strict import MalformedError, parse_object

__all__ = ["finish"]

_FEW = 500  # a query costs as much as to parse so many
_Mask = npt.NDArray[np.bool_]


def finish(select: Select, found: pa.Table, texts: pa.Array, good: _Mask) -> pa.Table:
    """Type the columns that are still text, and take rows without a proof out of `good` (in place).

    Args:
        select: The statement.
        found: What it gave, of one chunk.
        texts: The events it was given.
        good: Which rows are proven so far.
    """
    _finish_strings(select, found, texts, good)
    typed: dict[str, pa.Array] = {}
    for name, kind in select.texts.items():
        typed[name], proven = _read(duck.whole(found[name]), kind, texts)
        good &= proven
    return pa.table({name: typed.get(name, found[name]) for name in found.column_names})


def _read(column: pa.Array, kind: iceberg.IcebergType, events: pa.Array) -> tuple[pa.Array, _Mask]:
    match kind:
        case iceberg.IntegerType() | iceberg.LongType():
            return read_integers(column, pa.int32() if isinstance(kind, iceberg.IntegerType) else pa.int64())
        case iceberg.DoubleType() | iceberg.FloatType():
            return read_doubles(column, pa.float32() if isinstance(kind, iceberg.FloatType) else pa.float64(), events)
        case iceberg.BooleanType():
            return read_booleans(column)
    nanos = isinstance(kind, iceberg.TimestampNanoType | iceberg.TimestamptzNanoType)
    values, proven = read_stamps(column, 9 if nanos else 6)
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(values, mask=nulls).view(pa.timestamp("ns" if nanos else "us")), proven


def _finish_strings(select: Select, found: pa.Table, texts: pa.Array, good: _Mask) -> None:
    doubtful = {name: maybe_changed(duck.whole(found[name])) for name in select.strings}
    rows = np.unique(np.concatenate([np.zeros(0, np.int64), *doubtful.values()]))
    rows = rows[good[rows]]
    if not len(rows):
        return
    events = texts.take(pa.array(rows))
    quoted = _quoted(select, events)
    for name, at in doubtful.items():
        changed = np.isin(rows, at, assume_unique=True)
        changed &= ~quoted[name]
        changed[changed] = _is_changed(found[name].take(pa.array(rows[changed])), events.filter(pa.array(changed)))
        good[rows[changed]] = False


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
