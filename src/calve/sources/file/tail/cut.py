"""Finds where complete events end in a file that still grows, without reading what lies between."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from calve.sources.file.codec_settings import line_beginning
from calve.sources.file.multiline import EVENT_BYTES, beginnings

__all__ = ["Cutter"]

_BLOCK_BYTES = 64 << 10


@dataclass(frozen=True)
class Cutter:
    """Finds the end of complete events: after a line, or before a line that begins an event.

    Attributes:
        begins_with: The pattern of the codec `multiline`; None: each line is an event.
        is_ended: Whether the last line of the file will not be completed.
        is_flushed: Whether its last event will not be continued.
    """

    begins_with: str | None = None
    is_ended: bool = False
    is_flushed: bool = False

    def end(self, file: int, start: int, limit: int, most: int) -> int:
        """Return the end of the complete events from a position on; the position itself if none is complete.

        Args:
            file: A descriptor.
            start: Where an event begins.
            limit: The end of the file.
            most: The end does not lie further on, unless the first event does.
        """
        bound = min(limit, start + 2 * EVENT_BYTES)
        lines = _line_end(file, start, bound, most)
        if lines == start:
            return bound if self.is_ended or bound < limit else start
        if self.begins_with is None:
            return lines
        begin = self._last_begin(file, start, lines)
        if begin > start:
            return begin
        last = _last_line_end(file, start, bound)
        begin = self._first_begin(file, lines, last)
        if begin or not (self.is_flushed or self.is_ended or bound < limit):
            return begin or start
        return bound if self.is_ended else last

    def _last_begin(self, file: int, start: int, end: int) -> int:
        """Return where the last event of some lines begins."""
        stop, size = end, _BLOCK_BYTES
        while stop > start:
            at = max(start, stop - size)
            text = os.pread(file, stop - at, at)
            if at > start:
                skipped = text.find(b"\n") + 1
                at, text = at + skipped, text[skipped:]
            if not text:
                size *= 2  # a line that is longer than a block
                continue
            begins = self._begins(text)
            begins = begins[begins + at > start]
            if len(begins):
                return int(at + begins[-1])
            stop, size = at, min(2 * size, 16 << 20)
        return start

    def _first_begin(self, file: int, start: int, end: int) -> int:
        """Return where the first event at or after a line begins; 0 if none does."""
        at = start
        while at < end:
            stop = _line_end(file, at, end, at + (1 << 20))
            begins = self._begins(os.pread(file, stop - at, at))
            if len(begins):
                return int(at + begins[0])
            at = stop
        return 0

    def _begins(self, text: bytes) -> np.ndarray[Any, Any]:
        """Return where events begin in some complete lines."""
        assert self.begins_with is not None
        _, flags = beginnings(text.replace(b"\r\n", b"\n"), line_beginning(self.begins_with))
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        begins: np.ndarray[Any, Any] = np.append(0, ends[:-1] + 1)[flags]
        return begins


def _line_end(file: int, start: int, limit: int, most: int) -> int:
    """Return the end of the last line before `most`, or of the first line; `start` if it has no end yet."""
    end = _last_line_end(file, start, min(most, limit))
    return end if end > start else _first_line_end(file, min(most, limit), limit) or start


def _last_line_end(file: int, start: int, stop: int) -> int:
    while stop > start:
        at = max(start, stop - _BLOCK_BYTES)
        newline = os.pread(file, stop - at, at).rfind(b"\n")
        if newline >= 0:
            return at + newline + 1
        stop = at
    return start


def _first_line_end(file: int, at: int, limit: int) -> int:
    while at < limit:
        block = os.pread(file, min(_BLOCK_BYTES, limit - at), at)
        if not block:
            return 0
        newline = block.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(block)
    return 0
