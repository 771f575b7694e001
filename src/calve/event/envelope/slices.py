"""Where rows lie in the bytes of envelopes that are written as usual: `{"before":{…},"after":{…},"op":…}`.

Such a row is cut out as it came, numbers and escapes included. This finds rows of plain fields; whether an envelope is
JSON is for a parser to say. If it is, then what is found is the row:

- A quote right behind a comma is not escaped: it begins or ends a string. Here it ends none, as a letter follows, which
  would be no JSON. So the comma, and the brace before it, are not inside of a string either.
- Before the row stand only the brace of the envelope and those of the row before, which are closed. So the name of the
  row is a field of the envelope.
- There is no brace inside of the row, so that the next one closes it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.event.scan import Texts

__all__ = ["Slices", "slices"]

_Bytes = npt.NDArray[np.uint8]
_Mask = npt.NDArray[np.bool_]
_Places = npt.NDArray[np.int64]
_OPEN, _CLOSE = b"{}"
_WORD = 8
_TEXTS = 4096
"""Texts that are looked at together, so that their bytes stay in the processor's cache."""


class Slices(NamedTuple):
    """What was found.

    Attributes:
        before: Which texts have a row before that was found.
        after: Which texts have a row after that was found.
        parts: Four for each text, not copied: the row before, what is between, the row after, what is behind.
    """

    before: _Mask
    after: _Mask
    parts: pa.Array

    def rows(self, chosen: _Mask, deleted: _Mask) -> pa.Array:
        """Give a row of each chosen text: the one before if it is deleted, else the one after."""
        at = np.flatnonzero(chosen)
        return self.parts.take(pa.array(at * 4 + np.where(deleted[at], 0, 2)))


def slices(texts: pa.Array, before: str, after: str) -> Slices:
    """Find the rows of texts (string, no nulls) whose first two fields have these names."""
    scan, count = Texts(texts), len(texts)
    names = f'"{before}":'.encode(), f'"{after}":'.encode()
    found, cuts = np.zeros((2, count), bool), np.repeat(scan.ends[:-1], 4).reshape(count, 4)
    for start in range(0, count, _TEXTS):
        some = slice(start, min(start + _TEXTS, count))
        first, last = scan.ends[some.start], scan.ends[some.stop]
        if last - first >= _WORD:
            ends = scan.ends[some.start : some.stop + 1] - first
            found[0, some], found[1, some], inside = _look(scan.data[first:last], ends, *names)
            cuts[some] = inside + first
    places = pa.py_buffer((np.append(cuts, cuts[-1:, -1]) + scan.base).astype(np.int32))
    return Slices(found[0], found[1], pa.Array.from_buffers(pa.string(), count * 4, [None, places, texts.buffers()[2]]))


def _look(data: _Bytes, ends: _Places, before: bytes, after: bytes) -> tuple[_Mask, _Mask, _Places]:
    """Find the rows of texts that lie one behind the other; give the masks, and where the parts begin."""
    starts, stops = ends[:-1], ends[1:]
    is_brace = data == _OPEN
    is_brace |= data == _CLOSE
    braces = np.flatnonzero(is_brace)
    first = np.searchsorted(braces, starts)
    braces = np.append(braces, [len(data)] * 5)
    alone, both = b"{" + before + b"null," + after + b"{", b"{" + before + b"{"
    created, updated = _match(data, starts, alone), _match(data, starts, both)
    closing, no_row = braces[first + 2], b"}," + after + b'null,"'
    deleted = updated & _match(data, closing, no_row) & (closing + len(no_row) < stops)
    updated &= _match(data, closing, b"}," + after + b"{")
    opening = first + np.where(created, 1, 3)
    end = braces[opening + 1]
    created |= updated
    created &= _match(data, end, b'},"') & _is_letter(data, end + 3) & (end + 3 < stops)
    deleted |= updated & created
    row = np.where(created, braces[opening], starts)
    cuts = [np.where(deleted, starts + 1 + len(before), row), np.where(deleted, closing + 1, row)]
    cuts.append(np.maximum(cuts[1], row))
    cuts.append(np.where(created, end + 1, cuts[2]))
    return deleted, created, np.stack(cuts, axis=1)


def _match(data: _Bytes, at: _Places, text: bytes) -> _Mask:
    """Say at which places a text stands, with some bytes behind it if it is short."""
    found = at <= len(data) - max(len(text), _WORD)
    words: Any = np.ndarray(len(data) - _WORD + 1, "<u8", data, strides=(1,))
    for shift in {*range(0, len(text) - _WORD + 1, _WORD), max(len(text) - _WORD, 0)}:
        part = text[shift : shift + _WORD]
        there = words[np.minimum(at + shift, len(words) - 1)]
        mask = np.uint64((1 << 8 * len(part)) - 1)
        found &= there & mask == np.uint64(int.from_bytes(part, "little"))
    return found


def _is_letter(data: _Bytes, at: _Places) -> _Mask:
    found: _Mask = (data[np.minimum(at, len(data) - 1)] | 32) - np.uint8(97) < 26
    return found
