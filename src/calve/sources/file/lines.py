"""NDJSON and plain text: lines, found without a Python object for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from calve.arrays import pack_texts
from calve.sources.file.rows import FileBatches
from calve.sources.file.stream import BlockStream

__all__ = ["BLANK", "BOM", "LINE_BYTES", "cut", "read_lines"]

LINE_BYTES = 64 << 20
"""The longest line, to bound memory if a file has no lines at all; longer lines are rejected."""
BLANK = b" \t\r\n"
"""What JSON may have between its values."""
_BLANKS = np.isin(np.arange(256), list(BLANK))
BOM = b"\xef\xbb\xbf"
"""The mark with which a UTF-8 file may begin."""


def read_lines(
    stream: BlockStream, rows: FileBatches, numbered: bool, is_text: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield each line without its end, except blank ones; a last line without an end counts unless the stream broke.

    Args:
        stream: The text.
        rows: Makes the batches.
        numbered: Whether the text begins with the first line of the file.
        is_text: Whether spaces count, so that only an empty line is blank.
    """
    count, first, rest, too_long = 0, numbered, b"", False
    for block in stream:
        text = rest + block
        if first:
            text, first = text.removeprefix(BOM), False
        end = text.rfind(b"\n") + 1
        if too_long and end:
            start = text.find(b"\n") + 1
            text, too_long, count, end = text[start:], False, count + 1, end - start
        whole, rest = text[:end], text[end:]
        events, numbers, lines = cut(whole, is_text)
        yield from rows.batches(events, pa.array(numbers + count) if numbered else None)
        count += lines
        if too_long:
            rest = b""
        elif len(rest) > LINE_BYTES:
            yield from rows.broken(f"has a line of more than {LINE_BYTES >> 20} MiB (after line {count})", rest)
            rest, too_long = b"", True
    if stream.broken:
        yield from rows.broken(stream.broken, rest)
    elif rest:
        events, numbers, _ = cut(rest, is_text)
        yield from rows.batches(events, pa.array(numbers + count) if numbered else None)


def cut(text: bytes, is_text: bool) -> tuple[pa.Array, np.ndarray[Any, Any], int]:
    r"""Cut a text at each `\n` (a `\r` before it goes too).

    Returns:
        The lines that are not blank (binary), the number of each from 1, and how many lines there are.
    """
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").removesuffix(b"\r")
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == 10)
    joined = text.replace(b"\n", b"")
    starts = np.zeros(len(ends) + 2, np.int32)
    np.subtract(ends, np.arange(len(ends)), out=starts[1:-1], casting="unsafe")
    starts[-1] = len(joined)
    filled = np.flatnonzero(np.diff(starts))
    offsets = np.append(starts[filled], starts[-1])
    lines, numbers = pack_texts(offsets, joined), filled + 1
    if not is_text and _BLANKS[np.frombuffer(joined, np.uint8)[offsets[:-1]]].any():
        has_text = np.array([bool(line.strip(BLANK)) for line in lines.to_pylist()])
        lines, numbers = lines.filter(pa.array(has_text)), numbers[has_text]
    return lines, numbers, len(ends)
