"""Cuts CSV text at the ends of its records, and sets those aside whose quotes are wrong (RFC 4180).

A quote begins a quoted cell only at its start, and ends it only before a delimiter or the end of the record;
inside it is written twice. A quote in the middle of an unquoted cell is a character like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from calve.sources.file.codec_settings import CsvCodec

__all__ = ["RECORD_BYTES", "CsvPiece", "RecordSplitter"]

RECORD_BYTES = 64 << 20
"""The longest record, to bound memory if a quote is never closed, or lines never end."""
_UNCLOSED = "has a quote that is never closed"
_BEHIND = "has text after a closing quote; a quote inside a quoted cell must be written twice"
_MOSTLY = 0.9
_END = re.compile(rb"\r\n?|\n")


class CsvPiece(NamedTuple):
    """Complete records, or one that is damaged.

    Attributes:
        text: The records.
        fault: Why the record is rejected, as a sentence; empty: they are complete.
    """

    text: bytes
    fault: str = ""


class RecordSplitter:
    """Cuts a text in blocks.

    Attributes:
        rest: The text that waits for more.
        width: The number of cells of a record, once it is known; 0: unknown.
        is_lost: Whether the rest is too long for a record, so that its end is unknown.
    """

    def __init__(self, codec: CsvCodec) -> None:
        self.rest, self.width, self.is_lost = b"", 0, False
        self._lines = 0
        self._delimiter, self._quote = (text.encode() for text in (codec.delimiter, codec.quote_character))
        delimiter, quote = re.escape(self._delimiter), re.escape(self._quote)
        names = {b"D": delimiter, b"Q": quote}
        self._quoted = re.compile(_pattern(rb"Q(?:[^Q]++|QQ)*+(Q?)", names))
        self._cell = _pattern(rb"(?:Q(?:[^Q\r\n]++|QQ)*+Q|[^QD\r\n]*+)", names)
        cells = _pattern(rb"(?:[^Q\r\n]++|(?<![^D\r\n])Q(?:[^Q]++|QQ)*+Q(?=[D\r\n])|(?<=[^D\r\n])Q)*+", names)
        self._cells = re.compile(cells)
        self._records = re.compile(b"(?:" + cells + rb"(?:\r\n|\n|\r(?!\Z)))*+")

    def split(self, block: bytes, is_last: bool = False) -> Iterator[CsvPiece]:
        """Yield what is complete; whoever takes a piece may set `width` before the next one."""
        text, at = self.rest + block, 0
        self.rest = b""
        if is_last and text and not text.endswith(b"\n"):
            text += b"\n"
        while at < len(text):
            end, stop = self._whole(text, at)
            if end > at:
                yield self._piece(text[at:end])
            if stop == len(text) or (damage := self._damage(text, end, stop, is_last)) is None:
                self.rest = text[end:]
                self.is_lost = len(self.rest) > RECORD_BYTES
                return
            at, reason = damage
            yield self._piece(text[end:at], f"Line {self._lines + 1} {reason}")

    def records(self, text: bytes) -> list[bytes]:
        """Return each of some complete records, without its end; lines without any text are none."""
        records, at = list[bytes](), 0
        while at < len(text):
            end = _end_of_match(self._cells, text, at)
            records.append(text[at:end])
            at = _end_of_line(text, end)
        return list(filter(None, records))

    def _piece(self, text: bytes, fault: str = "") -> CsvPiece:
        self._lines += text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
        return CsvPiece(text, fault)

    def _whole(self, text: bytes, at: int) -> tuple[int, int]:
        """Return where the complete records end, and where the next one has a wrong quote, or the text ends."""
        if text.find(self._quote, at) < 0:
            return max(at, text.rfind(b"\n", at) + 1, text.rfind(b"\r", at, len(text) - 1) + 1), len(text)
        end = _end_of_match(self._records, text, at)
        stop = _end_of_match(self._cells, text, end)
        return end, len(text) if text[stop:] == b"\r" else stop  # perhaps the first half of a line end

    def _damage(self, text: bytes, start: int, quote: int, is_last: bool) -> tuple[int, str] | None:
        """Return where a damaged record ends, and what is wrong; None: it needs more text to be sure.

        If the lines after its first one are records of their own, it is this line alone.
        """
        cell = self._quoted.match(text, quote)
        assert cell
        is_closed = bool(cell[1]) and cell.end() < len(text)
        end = _end_of_line(text, cell.end()) if is_closed else len(text)
        is_ended = is_last or (is_closed and (end < len(text) or text.endswith(b"\n")))
        if not is_ended and len(text) - start <= RECORD_BYTES:
            return None
        second_line = _end_of_line(text, start)
        if second_line < end and self._are_records(text[second_line:end]):
            return second_line, _UNCLOSED
        return (end, _BEHIND if is_closed else _UNCLOSED) if is_ended else None

    def _are_records(self, text: bytes) -> bool:
        """Return whether lines are most probably records, and not the text of a cell."""
        if self.width < 2:
            return False
        cells = self._cell + b"(?:" + re.escape(self._delimiter) + self._cell + b"){%d}" % (self.width - 1)
        is_record = re.compile(cells).fullmatch
        lines = [line for line in _END.split(text) if line]
        fitting = [is_record(line) is not None for line in lines]
        return bool(fitting) and fitting[0] and sum(fitting) >= _MOSTLY * len(fitting)


def _end_of_line(text: bytes, at: int) -> int:
    end = _END.search(text, at)
    return end.end() if end else len(text)


def _end_of_match(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _pattern(pattern: bytes, names: dict[bytes, bytes]) -> bytes:
    """Return a pattern with the delimiter and the quote in it."""
    return re.sub(rb"[DQ]", lambda letter: names[letter[0]], pattern)
