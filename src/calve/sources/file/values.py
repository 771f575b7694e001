"""Splits JSON files, without decoding: the elements of an array, or consecutive values.

The text is scanned for brackets, commas and quotes with whole-array operations, so a file of any size streams.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from calve.sources.file.lines import read_lines
from calve.sources.file.rows import Rows, row_numbers
from calve.sources.file.stream import Stream
from calve.sources.source import READ_ROWS

__all__ = ["VALUE_BYTES", "read_values"]

VALUE_BYTES = 64 << 20
"""The longest value; a longer one is rejected with the rest of the file, because its end is unknown."""
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_QUOTE, _SLASH, _OPEN, _CLOSE, _COMMA = 1, 2, 3, 4, 5
_KINDS = np.zeros(256, np.uint8)
for _kind, _characters in ((_QUOTE, b'"'), (_SLASH, b"\\"), (_OPEN, b"{["), (_CLOSE, b"}]"), (_COMMA, b",")):
    _KINDS[list(_characters)] = _kind

Marks = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


def read_values(stream: Stream, rows: Rows, key_name: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield each element of the file's array, or of the array at `key_name`; else each of consecutive values.

    A file whose first line is a complete JSON value is read as NDJSON, in which a bad line affects no other one.
    """
    blocks = iter(stream)
    head = next(blocks, b"").removeprefix(_BOM)
    while not head.strip(_BLANK) and (block := next(blocks, None)) is not None:
        head = block
    start = head.lstrip(_BLANK)
    if not key_name and not start.startswith(b"[") and _is_value(start.partition(b"\n")[0]):
        yield from read_lines(_Again(stream, head, blocks), rows, numbered=True)
        return
    inside = _array_start(start, key_name)
    if inside is None:
        reason = f"has no array under the key {key_name}" if start else stream.broken
        if reason:
            yield from rows.broken(reason, start)
        return
    yield from _cut_values(_Again(stream, start[inside:], blocks), rows, in_array=inside > 0, alone=key_name is None)


class _Again:
    """A stream whose first bytes have been read already."""

    def __init__(self, stream: Stream, head: bytes, blocks: Iterator[bytes]) -> None:
        self.broken = ""
        self._stream, self._head, self._blocks = stream, head, blocks

    def __iter__(self) -> Iterator[bytes]:
        if self._head:
            yield self._head
        yield from self._blocks
        self.broken = self._stream.broken


def _cut_values(stream: _Again, rows: Rows, in_array: bool, alone: bool) -> Iterator[pa.RecordBatch]:
    count, rest, closed = 0, b"", False
    for block in stream:
        text = rest + block
        values, end, closed = _split(text, in_array) if not closed else ([], 0, True)
        for first in range(0, len(values), READ_ROWS):
            events = pa.array(values[first : first + READ_ROWS], pa.binary())
            yield from rows.batches(events, row_numbers(count + 1, len(events)))
            count += len(events)
        rest = text[end:].lstrip(_BLANK)
        if closed and not alone:
            return
        if (closed and rest) or len(rest) > VALUE_BYTES:
            break
    if stream.broken and not closed:
        yield from rows.broken(stream.broken, rest)
    elif closed and rest:
        yield from rows.broken(f"continues after the end of its array (after element {count})", rest)
    elif len(rest) > VALUE_BYTES:
        yield from rows.broken(f"has a value of more than {VALUE_BYTES >> 20} MiB (after value {count})", rest)
    elif in_array and not closed:
        yield from rows.broken(f"ends in the middle of its array, after element {count} (cut off?)", rest)
    elif rest:
        yield from rows.broken(f"ends in the middle of a value, after value {count} (cut off?)", rest)


def _split(text: bytes, in_array: bool) -> tuple[list[bytes], int, bool]:
    """Split complete values off a text that starts between two values.

    Returns:
        The values without surrounding spaces, the start of the rest, and whether the array ended.
    """
    positions, kinds, depths = _marks(text)
    closing = np.flatnonzero(depths < 0)
    closed = in_array and len(closing) > 0
    if in_array:
        last = closing[0] if closed else len(positions)
        ends = positions[:last][(kinds[:last] == _COMMA) & (depths[:last] == 0)]
        if closed:
            ends = np.append(ends, positions[last])
        starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
        behind = int(ends[-1]) + 1 if len(ends) else 0
    else:
        ends = positions[(kinds == _CLOSE) & (depths <= 0)] + 1
        starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
        behind = int(ends[-1]) if len(ends) else 0
    values = [text[start:end].strip(_BLANK) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    if closed and values and not values[-1]:
        values.pop()  # an empty array, or a comma before its end
    return values, behind, closed


def _marks(text: bytes) -> Marks:
    """Find the brackets and commas outside of strings: their positions, kinds, and the depth after each."""
    data = np.frombuffer(text, np.uint8)
    kinds = _KINDS[data]
    positions = np.flatnonzero(kinds)
    kinds = kinds[positions]
    slashes = positions[kinds == _SLASH]
    if len(slashes):
        firsts = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
        lengths = np.diff(firsts, append=len(slashes))
        escaped = (slashes[firsts] + lengths)[lengths % 2 == 1]
        not_escaped = (kinds != _SLASH) & ~np.isin(positions, escaped, assume_unique=True)
        positions, kinds = positions[not_escaped], kinds[not_escaped]
    outside = (np.cumsum(kinds == _QUOTE) % 2 == 0) & (kinds != _QUOTE)
    positions, kinds = positions[outside], kinds[outside]
    steps = (kinds == _OPEN).astype(np.int64) - (kinds == _CLOSE)
    return positions, kinds, np.cumsum(steps)


def _array_start(text: bytes, key_name: str | None) -> int | None:
    """Return the position of the first value: after the bracket of the array, or 0 for consecutive values."""
    if not text or key_name is None:
        return (1 if text.startswith(b"[") else 0) if text else None
    key = re.compile(re.escape(msgspec.json.encode(key_name)) + rb"\s*:\s*\Z")
    positions, kinds, depths = _marks(text)
    for at in positions[(kinds == _OPEN) & (depths == 2)].tolist():
        if text[at : at + 1] == b"[" and key.search(text, max(0, at - len(key_name) * 6 - 64), at):
            return int(at) + 1
    return None


def _is_value(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
