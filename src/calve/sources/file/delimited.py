"""Reads CSV: rows of text become JSON objects, of strings or of guessed types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from calve.arrays import Mask
from calve.event.json_text import inferred_json, to_json
from calve.event.typed_schema import declaration
from calve.observe.humanize import many
from calve.sources.file.codec_settings import CsvCodec
from calve.sources.file.csv_header import Header
from calve.sources.file.csv_records import RECORD_BYTES, CsvPiece, RecordSplitter
from calve.sources.file.encoding import MARKED, has_marks, is_utf8, marked, to_utf8, unmarked
from calve.sources.file.lines import BOM
from calve.sources.file.rows import FileBatches
from calve.sources.file.stream import BlockStream

__all__ = ["read_csv"]

_STAND_IN = "\U0010ffff"
"""With a number it is the only cell of a row that takes the place of a damaged record, so that the parser counts it."""


def read_csv(stream: BlockStream, rows: FileBatches, codec: CsvCodec) -> Iterator[pa.RecordBatch]:
    """Yield each row as an object of its columns; an empty cell is null, `""` an empty string.

    A row with more or fewer cells than columns, with a wrong quote, or with bytes that are not text, is rejected alone.
    A file whose first row is not a header is rejected completely, with one row that has the reason.
    """
    splitter, header, table = RecordSplitter(codec), Header([]), None
    for pieces in _blocks(stream, splitter, codec):
        block = _Block(codec)
        for piece in pieces:
            header = header if header.names else _header(piece, codec)
            if header.fault:
                break
            splitter.width = len(header.names)
            block.add(piece, splitter.width)
        if header.fault:
            yield from rows.broken(header.fault, header.text)
            return
        if header.names:
            table = table or _Table(rows, header, codec)
            yield from table.events(block)
    if splitter.is_lost:
        yield from rows.broken(
            f"has a record of more than {RECORD_BYTES >> 20} MiB (an open quote, or no line ends?)", splitter.rest
        )
    elif stream.broken:
        yield from rows.broken(stream.broken, _original(splitter.rest, codec))


def _blocks(stream: BlockStream, splitter: RecordSplitter, codec: CsvCodec) -> Iterator[Iterator[CsvPiece]]:
    """Yield the pieces of each block of a stream; what follows its last record only if the stream did not break."""
    blocks = iter(stream) if is_utf8(codec.encoding) else to_utf8(stream, codec.encoding)
    for number, block in enumerate(blocks):
        yield splitter.split(block if number else block.removeprefix(BOM))
        if splitter.is_lost:
            return
    if not stream.broken:
        yield splitter.split(b"", is_last=True)


def _header(piece: CsvPiece, codec: CsvCodec) -> Header:
    if piece.fault:
        text = _original(piece.text, codec)
        return Header([], 0, f"has a first row that cannot be read as CSV: {piece.fault}", text)
    return Header.of(_utf8(piece.text, codec)[0].decode(), codec)


def _utf8(text: bytes, codec: CsvCodec) -> tuple[bytes, bool]:
    """Return a text with the bytes that are not of the encoding marked, and whether there are any."""
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        return marked(text), True
    return text, not is_utf8(codec.encoding) and has_marks(decoded)


def _original(text: bytes, codec: CsvCodec) -> bytes:
    """Return a text as UTF-8, with the bytes that are not of the encoding unchanged."""
    records, has_bad = _utf8(text, codec)
    return unmarked(records.decode()) if has_bad else text


class _Block:
    """Complete records, with a stand-in for each that is damaged.

    Attributes:
        text: The records, with the bytes that are not of the encoding marked.
        has_marks: Whether there are any.
        damaged: The text and the fault of each damaged record, by its stand-in.
    """

    def __init__(self, codec: CsvCodec) -> None:
        self.text, self.has_marks = bytearray(), False
        self.damaged: dict[str, tuple[bytes, str]] = {}
        self._codec = codec

    def add(self, piece: CsvPiece, width: int) -> None:
        """Add what was cut off a text with so many columns."""
        if piece.fault:
            stand_in = f"{_STAND_IN}{len(self.damaged)}"
            self.damaged[stand_in] = _original(piece.text, self._codec).rstrip(b"\r\n"), piece.fault
            other_cell = self._codec.delimiter if width == 1 else ""
            self.text += f"{stand_in}{other_cell}\n".encode()
            return
        text, has_bad = _utf8(piece.text, self._codec)
        self.text += text
        self.has_marks |= has_bad

    def reject(self, text: str, reason: str) -> tuple[bytes, str]:
        """Return the original text of a rejected row, and the true reason."""
        return self.damaged.get(text.rstrip(self._codec.delimiter), (unmarked(text), reason))


class _Table:
    """Parses the records of a file block by block, and numbers them."""

    def __init__(self, rows: FileBatches, header: Header, codec: CsvCodec) -> None:
        self._rows, self._names, self._codec = rows, header.names, codec
        self._skip_bytes, self._row = header.size_bytes, int(header.size_bytes > 0)
        names = pa.schema([(name, pa.string()) for name in header.names])
        self._declared = None if codec.infer_types else declaration(names)

    def events(self, block: _Block) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block as events, then the rejected ones."""
        text, self._skip_bytes = bytes(block.text[self._skip_bytes :]), 0
        if not text.strip(b"\r\n"):
            return
        ragged: dict[int, tuple[str, str]] = {}
        try:
            table = _parse(text, self._codec, len(self._names), ragged)
        except pa.ArrowInvalid as error:
            yield from self._rows.broken(f"cannot be read as CSV after row {self._row}: {error}", None)
            return
        rows = np.delete(np.arange(len(table) + len(ragged)), list(ragged))
        rejects = {row: block.reject(*fault) for row, fault in ragged.items()}
        bad = _bad_rows(table) if block.has_marks else np.zeros(len(table), bool)
        if bad.any():
            reason = f"The row has bytes that are not {self._codec.encoding.upper()}"
            texts = RecordSplitter(self._codec).records(text)
            rejects |= {row: (unmarked(texts[row].decode()), reason) for row in rows[bad].tolist()}
            rows, table = rows[~bad], table.filter(pa.array(~bad))
        first, self._row = self._row + 1, self._row + len(rows) + len(rejects)
        named = table.rename_columns(self._names)
        events = (inferred_json if self._codec.infer_types else to_json)(named).combine_chunks()
        yield from self._rows.batches(events, pa.array(rows + first), None, self._declared)
        yield from self._rows.rejects([(*rejects[row], row + first) for row in sorted(rejects)])


def _bad_rows(table: pa.Table) -> Mask:
    """Mask the rows with marked bytes."""
    bad: Mask = np.zeros(len(table), bool)
    for column in table.columns:
        bad |= pc.fill_null(pc.match_substring_regex(column, MARKED), False).to_numpy()
    return bad


def _parse(text: bytes, codec: CsvCodec, width: int, ragged: dict[int, tuple[str, str]]) -> pa.Table:
    """Return the rows of some records as text; those with another number of cells go into `ragged`, by their number."""

    def reject(row: Any) -> str:
        reason = (
            f"The row has {many(row.actual_columns, 'cell')}, but the file has {many(row.expected_columns, 'column')}"
        )
        ragged[row.number - 1] = (row.text, reason)
        return "skip"

    columns = [f"c{index}" for index in range(width)]
    return arrow_csv.read_csv(
        pa.BufferReader(text),
        read_options=arrow_csv.ReadOptions(column_names=columns, use_threads=False, block_size=len(text) + 1),
        parse_options=arrow_csv.ParseOptions(
            delimiter=codec.delimiter,
            quote_char=codec.quote_character,
            newlines_in_values=True,
            invalid_row_handler=reject,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types={column: pa.string() for column in columns},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
