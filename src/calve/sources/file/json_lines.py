"""Joins the lines of JSON values that have several, among lines with one value each.

A line that is no JSON affects no other one: it is an event that the converter rejects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import Mask, text_buffers
from calve.event.columns import EVENT, MALFORMED
from calve.sources.file.lines import BLANK, LINE_BYTES
from calve.sources.file.rows import REMAINS_BYTES, FileBatches

__all__ = ["joined_lines"]

_SEVERAL = r"\}[ \t]*[\[{]"
"""Where one value may end and another begin."""
_TOKEN = re.compile(rb"\\?[-+.\w]*")
"""What may become a number, a literal or an escape, if more follows."""
_BEFORE = (b":", b",", b"[")
"""What is before a value in an object or array."""
_KEY = re.compile(rb'\{[ \t]*"')
_GROWTH = 8
_scan = json.JSONDecoder(object_pairs_hook=len, parse_int=len, parse_float=len).raw_decode
Line = tuple[bytes, int | None, bool]
"""A line, its number, and whether it looks like one object."""


def joined_lines(batches: Iterator[pa.RecordBatch], rows: FileBatches) -> Iterator[pa.RecordBatch]:
    """Yield the batches of `read_lines`, with one row for each value; it has the number of its first line."""
    held: list[Line] = []
    for batch in batches:
        if batch[MALFORMED].null_count < len(batch):
            yield from _broken(held, batch, rows)
            held = []
            continue
        are_objects = _are_objects(batch[EVENT])
        if not held and are_objects.all():
            yield batch
            continue
        lines = zip(batch[EVENT].to_pylist(), batch["file_row"].to_pylist(), are_objects.tolist(), strict=True)
        values, held = _join([*held, *lines], is_last=False)
        yield from _batches(values, rows)
    yield from _batches(_join(held, is_last=True)[0], rows)


def _are_objects(lines: pa.Array) -> Mask:
    """Return which lines, none of them empty, look like one object."""
    ends, data = text_buffers(lines)
    characters = np.frombuffer(data, np.uint8)
    mask: Mask = (characters[ends[:-1]] == ord("{")) & (characters[ends[1:] - 1] == ord("}"))
    mask &= pc.invert(pc.match_substring_regex(lines, _SEVERAL)).to_numpy(zero_copy_only=False)
    return mask


def _join(lines: list[Line], is_last: bool) -> tuple[list[Line], list[Line]]:
    """Return the values in some lines, and the lines that wait for more."""
    values, at = list[Line](), 0
    while at < len(lines):
        if lines[at][2]:
            values.append(lines[at])
            at += 1
            continue
        is_final = is_last or sum(len(text) for text, *_ in lines[at:]) > LINE_BYTES
        end, text, rest = _value_at(lines, at)
        if end == at:
            end, text = _damage_at(lines, at)
        elif end > len(lines) and is_final:
            end, text = _cut_at(lines, at)
        if end > len(lines):
            if not is_final:
                return values, lines[at:]
            end = len(lines)
        values.append((text, lines[at][1], False))
        at = end
        if rest:
            at -= 1
            lines[at] = (rest, lines[at][1], False)
    return values, []


def _value_at(lines: list[Line], at: int) -> tuple[int, bytes, bytes]:
    """Find the end of the JSON value that begins with a line.

    Returns:
        The line after it (`at`: no value begins there; more than there are: it does not end in them), the value, and
        what its last line has after it.
    """
    size = 1
    while True:
        text = b"\n".join(line for line, *_ in lines[at : at + size]).lstrip(BLANK) + b"\n"
        try:
            _, end = _scan(text.decode("latin-1"))  # a character for each byte
        except json.JSONDecodeError as error:
            is_last = at + size >= len(lines)
            if error.pos < len(text.rstrip(BLANK)) and not (is_last and _ends_in_token(text, error.pos)):
                return at, b"", b""
            if is_last:
                return len(lines) + 1, b"", b""
            size *= _GROWTH
        except RecursionError:
            return at, b"", b""
        else:
            rest = text[end:].partition(b"\n")[0].strip(BLANK)
            return at + text.count(b"\n", 0, end) + 1, text[:end], rest


def _ends_in_token(text: bytes, at: int) -> bool:
    """Return whether an object or array is damaged only in that it ends, from a position on, in a part of a token."""
    before, rest = text[:at], text[at:].rstrip(BLANK)
    if not text.startswith((b"{", b"[")) or not _TOKEN.fullmatch(rest):
        return False
    return (
        before[-1:].isdigit()
        or before.endswith(b"\\")
        or rest.startswith(b"\\")
        or before.rstrip(BLANK)[-1:] in _BEFORE
    )


def _damage_at(lines: list[Line], at: int) -> tuple[int, bytes]:
    """Find the end of a damaged value: if it has brackets, before the next line that begins an object as it does.

    Returns:
        The line after it (more than there are: it may continue), and the text.
    """
    first, end = lines[at][0], at + 1
    if first.lstrip(BLANK).startswith((b"{", b"[")):
        indent = _indent(first)
        while end < len(lines) and not lines[end][0].removeprefix(indent).startswith(b"{"):
            end += 1
        text = b"\n".join(line for line, *_ in lines[at:end])
        return end + (end == len(lines)), text
    return end, first


def _indent(line: bytes) -> bytes:
    return line[: len(line) - len(line.lstrip(BLANK))]


def _cut_at(lines: list[Line], at: int) -> tuple[int, bytes]:
    """Return where a value without an end is left, and its text: all, unless whole values that begin as it does follow.

    The last of these may be without an end, too: no writer ends a line between a colon and an object with a key.
    """
    end, is_whole = at + 1, True
    while is_whole and end < len(lines):
        if lines[end][2]:
            end += 1
            continue
        begin = end
        end, text, rest = _value_at(lines, begin)
        is_whole = end <= len(lines) and text.startswith((b"{", b"[")) and not rest
        is_whole = is_whole and _indent(lines[begin][0]) == _indent(lines[at][0])
        if end > len(lines) and lines[at][0].rstrip(BLANK).endswith(b":"):
            is_whole = _KEY.match(lines[begin][0]) is not None
    end = at + 1 if is_whole else len(lines)
    return end, b"\n".join(line for line, *_ in lines[at:end])


def _batches(values: list[Line], rows: FileBatches) -> Iterator[pa.RecordBatch]:
    events = pa.array([text for text, *_ in values], pa.binary())
    return rows.batches(events, pa.array([number for _, number, _ in values], pa.int64()))


def _broken(held: list[Line], batch: pa.RecordBatch, rows: FileBatches) -> Iterator[pa.RecordBatch]:
    """Yield the values before an early end, and the row with its reason, which has the rest."""
    begun = [(rest, None, False) for rest in batch[EVENT].to_pylist() if rest]
    values, rest = _join([*held, *begun], is_last=False)
    while rest and (cut := _cut_at(rest, 0))[0] < len(rest):
        values.append((cut[1], rest[0][1], False))
        others, rest = _join(rest[cut[0] :], is_last=False)
        values += others
    if begun and values and not rest and not _is_whole(values[-1]):
        rest = [values.pop()]
    yield from _batches(values, rows)
    text = b"\n".join(line for line, *_ in rest)[:REMAINS_BYTES]
    yield batch.set_column(0, batch.schema.field(0), pa.array([text or None], pa.binary()))


def _is_whole(value: Line) -> bool:
    """Return whether a value certainly has its end: text without brackets may continue."""
    return value[2] or (value[0].startswith((b"{", b"[")) and _value_at([value], 0)[0] == 1)
