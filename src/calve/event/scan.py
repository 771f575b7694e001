"""Vectorised looks at the bytes of many JSON texts at once, each sound in one direction only.

They never judge a text: they name rows that may be odd, so that all others need no closer look.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Texts"]

_BLOCK = 1 << 18  # bytes that stay in the processor's second cache
_ROWS = 1 << 12  # rows whose ends do
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

    def count_colons(self) -> int:
        """Count the colons that may follow a field name: at least as many as there are fields, at any depth."""
        return self._blocks(lambda now, before: int(np.count_nonzero(_after_name(now, before))))

    def colons_by_row(self) -> _Rows:
        """Count, per row, the colons that may follow a field name."""
        data, found = self.data, [np.zeros(0, np.int64)]
        for start in range(1, len(data), _BLOCK):
            now = data[start : start + _BLOCK]
            found.append(start + np.flatnonzero(_after_name(now, data[start - 1 : start - 1 + len(now)])))
        return np.diff(np.searchsorted(np.concatenate(found), self.ends))

    def closed(self) -> npt.NDArray[np.bool_]:
        """Say which texts begin with a brace and end with one, but for blanks that may be around them."""
        first, _, last = self._edges
        closed: npt.NDArray[np.bool_] = ((first == 123) | (first <= 32)) & ((last == 125) | (last <= 32))
        return closed & (np.diff(self.ends) > 0)

    def odd_ends(self) -> _Rows:
        """Name the rows that do not end with a brace right after a value."""
        _, before, last = self._edges
        plain = (last == 125) & (before > 32) & (before != 44) & (np.diff(self.ends) > 1)
        return np.flatnonzero(~plain)

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

    def long_digits(self) -> _Rows:
        """Name the rows that may hold a number with a fraction or exponent of more than 15 digits."""
        padded = np.zeros(len(self.data) + 40, bool)
        np.less(self.data - np.uint8(48), 10, out=padded[20 : 20 + len(self.data)])
        dots = np.flatnonzero(self.data == 46) + 20
        dots = dots[padded[dots - 1] & padded[dots + 1]]
        powers = np.flatnonzero((self.data | 32) == 101) + 20
        powers = powers[padded[powers - 1]]
        found = np.concatenate([_run(padded, dots, 1, 9), _run(padded, dots, -1, 8), _run(padded, powers, -1, 9)])
        return np.unique(np.searchsorted(self.ends, found - 20, side="right") - 1)

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

    @cached_property
    def _edges(self) -> _Bytes:
        """Each text's first byte, its last but one and its last; any bytes where it has none."""
        edges = np.zeros((3, len(self.ends) - 1), np.uint8)
        for start in range(0, edges.shape[1] if len(self.data) else 0, _ROWS):
            ends, part = self.ends[start : start + _ROWS + 1], edges[:, start : start + _ROWS]
            for line, at in zip(part, (ends[:-1], ends[1:] - 2, ends[1:] - 1), strict=True):
                self.data.take(at, out=line, mode="clip")
        return edges

    def _blocks(self, count: Any) -> int:
        data, total = self.data, 0
        for start in range(1, len(data), _BLOCK):
            now = data[start : start + _BLOCK]
            total += count(now, data[start - 1 : start - 1 + len(now)])
        return total


def _after_name(now: _Bytes, before: _Bytes) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (now == 58) & (before <= 34)  # a quote or blank; `!` is one too many, which is safe
    return found


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


def _run(digits: npt.NDArray[np.bool_], at: _Rows, step: int, length: int) -> _Rows:
    """Keep the positions that have a run of digits of this length on one side."""
    for distance in (*range(length, 0, -1),):
        at = at[digits[at + step * distance]]
    return at
