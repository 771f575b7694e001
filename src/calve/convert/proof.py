"""What the SELECT leaves open is proven here, from the bytes of its columns: strings and date-times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.convert.select import Select
from calve.convert.stamps import read_stamps
from calve.convert.strings import maybe_changed
from calve.event import duck
from calve.event.columns import JSON

__all__ = ["finish"]

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
    for name, digits in select.stamps.items():
        column = duck.whole(found[name])
        values, proven = read_stamps(column, digits)
        good &= proven
        typed = pa.array(values, mask=column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None)
        kind = pa.timestamp("ns" if digits == 9 else "us")
        found = found.set_column(found.schema.get_field_index(name), name, typed.view(kind))
    return found


def _finish_strings(select: Select, found: pa.Table, texts: pa.Array, good: _Mask) -> None:
    doubtful = {name: maybe_changed(duck.whole(found[name])) for name in select.strings}
    rows = np.unique(np.concatenate([np.zeros(0, np.int64), *doubtful.values()]))
    rows = rows[good[rows]]
    if not len(rows):
        return
    events = texts.take(pa.array(rows))
    quoted = duck.run(select.quoted_sql, events=pa.table({JSON: events}))
    for name, at in doubtful.items():
        changed = np.isin(rows, at, assume_unique=True)
        changed &= ~duck.whole(quoted[name]).to_numpy(zero_copy_only=False)
        changed[changed] = _is_changed(found[name].take(pa.array(rows[changed])), events.filter(pa.array(changed)))
        good[rows[changed]] = False


def _is_changed(values: pa.ChunkedArray, texts: pa.Array) -> _Mask:
    """Say of values that may have changed whether they may: a `0` was `-0` only where the event has that."""
    zero = pc.equal(values, "0").to_numpy(zero_copy_only=False)
    signed = pc.match_substring(texts, "-0").to_numpy(zero_copy_only=False)
    mask: _Mask = ~zero | signed
    return mask
