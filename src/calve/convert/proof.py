"""What the SELECT leaves open is proven here, from the bytes of its columns: strings and date-times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.convert.select import Select
from calve.convert.stamps import read_stamps
from calve.convert.strings import maybe_changed

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
    for name in select.strings:
        column = found[name].combine_chunks()
        rows = maybe_changed(column)
        if len(rows):
            good[rows[_is_changed(column.take(pa.array(rows)), texts.take(pa.array(rows)))]] = False
    for name, digits in select.stamps.items():
        column = found[name].combine_chunks()
        values, proven = read_stamps(column, digits)
        good &= proven
        typed = pa.array(values, mask=column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None)
        kind = pa.timestamp("ns" if digits == 9 else "us")
        found = found.set_column(found.schema.get_field_index(name), name, typed.view(kind))
    return found


def _is_changed(values: pa.Array, texts: pa.Array) -> _Mask:
    """Say of values that may have changed whether they may: a `0` was `-0` only where the event has that."""
    zero = pc.equal(values, "0").to_numpy(zero_copy_only=False)
    signed = pc.match_substring(texts, "-0").to_numpy(zero_copy_only=False)
    mask: _Mask = ~zero | signed
    return mask
