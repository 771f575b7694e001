"""Vectorised looks at the bytes of many JSON texts at once, each sound in one direction only.

They never judge a text: they name rows that may be odd, so that all others need no closer look.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Texts"]

_BLOCK = 1 << 18  # bytes that stay in the processor's second cache
_Bytes = npt.NDArray[np.uint8]
_Rows = npt.NDArray[np.int64]


class Texts:
    """The bytes of a binary or string array without nulls.

    Attributes:
        data: The bytes.
        ends: Where each text begins in them, and where the last one ends.
        base: Where they begin in the array's buffer.
    """

    def __init__(self, texts: pa.Array) -> None:
        wide = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
        _, offsets, data = texts.buffers()
        kind: Any = np.int64 if wide else np.int32
        ends = np.frombuffer(offsets, kind)[texts.offset : texts.offset + len(texts) + 1] if len(texts) else [0]
        self.ends = np.asarray(ends, np.int64)
        self.data: _Bytes = np.frombuffer(data or b"", np.uint8)[self.ends[0] : self.ends[-1]]
        self.base = int(self.ends[0])
        self.ends = self.ends - self.base

    def lenient(self) -> _Rows:
        """Name the rows that may hold what DuckDB reads although it is no JSON: trailing commas, NaN, infinities."""
        data = self.data
        found = [np.zeros(0, np.int64)]
        for start in range(0, len(data), _BLOCK):
            now = data[max(start - 1, 0) : start + _BLOCK + 2] | np.uint8(32)
            plain = data[max(start - 1, 0) : start + _BLOCK + 2]
            base = max(start - 1, 0)
            closing = (now[1:] == 125) & (plain[:-1] <= 44) & (plain[:-1] != 34)
            if closing.any():
                at = np.flatnonzero(closing)
                before = plain[at]
                found.append(base + at[(before == 44) | (before <= 32)])
            found.append(base + _literals(now, plain))
        rows = np.searchsorted(self.ends, np.concatenate(found), side="right") - 1
        return np.unique(rows)

    def deep(self, levels: int) -> _Rows:
        """Name the rows that may be nested deeper than so many levels."""
        if not len(self.data) or not (np.diff(self.ends) > 2 * levels).any():
            return np.zeros(0, np.int64)
        opens = [
            start + np.flatnonzero((self.data[start : start + _BLOCK] | np.uint8(32)) == 123)  # { and [
            for start in range(0, len(self.data), _BLOCK)
        ]
        return np.flatnonzero(np.diff(np.searchsorted(np.concatenate(opens), self.ends)) > levels)

    def digit_runs(self, length: int, dotted: bool = False) -> _Rows:
        """Name the rows with a run of at least `length` digits (16 to 31), in a number or anywhere else.

        A dot (or slash) is as good as a digit where it is `dotted`.
        """
        first, count = (46, 12) if dotted else (48, 10)
        found = [np.zeros(0, np.int64)]
        for start in range(0, len(self.data), _BLOCK):
            run = (self.data[start : start + _BLOCK + length - 1] - np.uint8(first)) < count
            for step in (1, 2, 4, 8, length - 16):
                run = run[step:] & run[: max(0, len(run) - step)]
            if run.any():
                found.append(start + np.flatnonzero(run))
        return np.unique(np.searchsorted(self.ends, np.concatenate(found), side="right") - 1)


def _literals(lowered: _Bytes, plain: _Bytes) -> _Rows:
    """Find `nan` and `inf` in any case where a value may begin."""
    n = lowered == 110
    infinite = n[1:-1] & (lowered[2:] == 102)
    nan = n[2:] & n[:-2]
    if not infinite.any() and not nan.any():
        return np.zeros(0, np.int64)
    at = np.flatnonzero(infinite | nan)
    at = at[(lowered[at] == 105) | (lowered[at + 1] == 97)]
    before = plain[np.maximum(at - 1, 0)]
    found: _Rows = at[(before <= 32) | (before == 44) | (before == 45) | (before == 58) | (before == 91) | (at == 0)]
    return found
