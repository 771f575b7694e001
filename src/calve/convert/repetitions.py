"""Finds rows that repeat the values of earlier rows of a batch (`unique` of `expect`); runs in the batch's one task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from calve.arrays import Mask

__all__ = ["Repetitions"]


class Repetitions:
    """The values that rows of one table had so far, in memory: no hashes, so none is rejected by chance."""

    def __init__(self) -> None:
        self._seen = set[Any]()

    def find(self, columns: Sequence[pa.ChunkedArray], among: Mask, are_all: bool = False) -> Mask:
        """Return which of some rows have the values of an earlier one; the others are the first with theirs.

        Args:
            columns: The columns that are compared; a row with a NULL in one repeats none.
            among: The rows that count.
            are_all: Whether all rows without a NULL count as repetitions: their values cannot be compared.
        """
        repeats, seen = np.zeros(len(among), bool), self._seen
        keys = zip(*map(_comparable, columns), strict=True)
        for row, (counts, key) in enumerate(zip(among.tolist(), keys, strict=True)):
            if counts and None not in key:
                repeats[row] = are_all or key in seen
                seen.add(key)
        return repeats


def _comparable(values: pa.ChunkedArray) -> list[Any]:
    """Return values that are equal where SQL's are; times are numbers, which Python has in nanoseconds, too."""
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    listed: list[Any] = values.to_pylist()
    return listed
