"""Finds the names of the columns of a CSV file."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from calve.sources.file.codec_settings import CsvCodec
from calve.sources.file.encoding import has_marks, unmarked
from calve.sources.file.rows import repetition

__all__ = ["Header"]


@dataclass(frozen=True)
class Header:
    """The names of the columns.

    Attributes:
        names: Without any row there are none.
        size_bytes: The length of the row that has them, with all before it; 0: no row has them.
        fault: Why these cannot be names, as the rest of a sentence about the file; empty: they can.
        text: The first row.
    """

    names: list[str]
    size_bytes: int = 0
    fault: str = ""
    text: bytes = b""

    @staticmethod
    def of(text: str, codec: CsvCodec) -> Header:
        """Find the names in some complete records."""
        lines = _Lines(text)
        try:
            reader = csv.reader(lines, delimiter=codec.delimiter, quotechar=codec.quote_character, strict=True)
            first = next((row for row in reader if row), [])
        except csv.Error as error:
            return Header([], 0, f"has a first row that cannot be read as CSV: {error}", unmarked(lines.read))
        if not first:
            return Header([])
        names = codec.header or (first if codec.detect_header else [])
        size_bytes = len(lines.read.encode()) if first == names else 0
        if not codec.header:
            names = [*names, *[""] * (len(first) - len(names))]
        names = [name or f"column{index}" for index, name in enumerate(names, 1)]
        return Header(names, size_bytes, _fault(names, codec), unmarked(lines.read.strip("\r\n")))


class _Lines:
    """The lines of a text, and what was read of it."""

    def __init__(self, text: str) -> None:
        self.read = ""
        self._lines = io.StringIO(text, newline="")

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.read += line
        return line


def _fault(names: list[str], codec: CsvCodec) -> str:
    if any(map(has_marks, names)):
        return f"has bytes in its header that are not {codec.encoding.upper()}; set `encoding` of the csv codec"
    repeated = repetition(names)
    return f"{repeated}; set unique names with `header` of the csv codec" if repeated else ""
