"""CSV: rows of text as JSON objects of strings."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from calve.sources.file.json_text import to_json
from calve.sources.file.rows import Rows, row_numbers
from calve.sources.file.settings import CsvCodec
from calve.sources.file.stream import BLOCK_BYTES, Stream

__all__ = ["read_csv"]

_BOM = b"\xef\xbb\xbf"
Reject = tuple[bytes, str, int]


def read_csv(stream: Stream, rows: Rows, codec: CsvCodec) -> Iterator[pa.RecordBatch]:
    """Yield each row as an object of its columns; an empty cell is null, `""` an empty string.

    A row with more or fewer cells than there are columns, or with bytes that are not UTF-8, is given up alone.
    """
    source = _WholeLines(stream)
    names, skip = _columns(source, codec)
    if not names:
        yield from rows.broken(stream.broken, source.rest) if stream.broken else ()
        return
    table = _Table(rows, names, skip)
    try:
        for batch in _open(source, codec, table, len(names)):
            yield from table.events(batch)
    except pa.ArrowInvalid as error:
        yield from table.rejected()
        yield from rows.broken(f"cannot be read as CSV behind row {table.row}: {error}", None)
        return
    yield from table.rejected()
    if stream.broken:
        yield from rows.broken(stream.broken, source.rest)


class _Table:
    """Rows on their way: numbers them, and keeps those that the parser gave up until the next batch."""

    def __init__(self, rows: Rows, names: list[str], skipped: int) -> None:
        self.row = skipped
        self._rows, self._names, self._skipped = rows, names, skipped
        self._bad: list[Reject] = []
        self._taken: set[int] = set()

    def give_up(self, row: Any) -> str:
        """Keep a row that the parser cannot take (its handler)."""
        reason = f"The row has {row.actual_columns} cells where there are {row.expected_columns} columns"
        self._taken.add(row.number + self._skipped)
        self._bad.append((row.text.encode("utf-8", "surrogateescape"), reason, row.number + self._skipped))
        return "skip"

    def events(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Give the batches of a parsed block, then what was given up in it."""
        numbers = self._numbers(batch.num_rows)
        table = pa.Table.from_batches([batch])
        try:
            text = table.cast(pa.schema([(name, pa.string()) for name in table.schema.names]))
        except pa.ArrowInvalid:
            text, numbers = self._without_bad_text(table, numbers)
        # The parser's names are c0, c1, …: those of the file may repeat, and then the last one stands.
        last = {name: index for index, name in enumerate(self._names)}
        events = to_json(pa.table([text.column(index) for index in last.values()], names=list(last)))
        yield from self._rows.batches(events.combine_chunks().cast(pa.binary()), numbers)
        yield from self.rejected()

    def rejected(self) -> Iterator[pa.RecordBatch]:
        """Give what was given up since the last call."""
        bad, self._bad = self._bad, []
        yield from self._rows.rejects(bad)

    def _numbers(self, count: int) -> pa.Array:
        """Number the good rows of a block around the bad ones, of which some may lie in the next block."""
        numbers: list[int] = []
        while self._taken and len(numbers) < count:
            self.row += 1
            if self.row in self._taken:
                self._taken.remove(self.row)
            else:
                numbers.append(self.row)
        rest = row_numbers(self.row + 1, count - len(numbers))
        self.row += len(rest)
        return pa.concat_arrays([pa.array(numbers, pa.int64()), rest])

    def _without_bad_text(self, table: pa.Table, numbers: pa.Array) -> tuple[pa.Table, pa.Array]:
        kept: list[bool] = []
        for number, row in zip(numbers.to_pylist(), table.to_pylist(), strict=True):
            cells = [value or b"" for value in row.values()]
            kept.append(all(_is_text(cell) for cell in cells))
            if not kept[-1]:
                self._bad.append((b",".join(cells), "The row holds bytes that are not UTF-8", number))
        mask = pa.array(kept)
        text = pa.schema([(name, pa.string()) for name in table.schema.names])
        return table.filter(mask).cast(text), pc.filter(numbers, mask)


class _WholeLines:
    """A file object of whole lines only; when the stream breaks, the cut line stays in `rest`."""

    closed = False

    def __init__(self, stream: Stream) -> None:
        self.rest = b""
        self._stream, self._blocks, self._ready, self._ended, self._first = stream, iter(stream), b"", False, True

    def peek(self) -> bytes:
        """Give what is ready, reading on if nothing is; empty at the end."""
        while not self._ready and not self._ended:
            block = next(self._blocks, None)
            if block is None:
                self._ended = True
                if not self._stream.broken:
                    self._ready, self.rest = self.rest, b""
                break
            if self._first:
                block, self._first = block.removeprefix(_BOM), False
            text = self.rest + block
            end = text.rfind(b"\n") + 1
            self._ready, self.rest = text[:end], text[end:]
        return self._ready

    def skip(self, length: int) -> None:
        """Pass over what has been looked at."""
        self._ready = self._ready[length:]

    def read(self, size: int = -1) -> bytes:
        """Give the next bytes; empty at the end."""
        ready = self.peek()
        size = len(ready) if size < 0 else size
        self._ready = ready[size:]
        return ready[:size]

    def close(self) -> None:
        """Do nothing: the file is closed by who opened it."""

    def readable(self) -> bool:
        """Say that this is for reading."""
        return True

    def seekable(self) -> bool:
        """Say that this goes one way."""
        return False

    def writable(self) -> bool:
        """Say that this is not for writing."""
        return False


def _columns(source: _WholeLines, codec: CsvCodec) -> tuple[list[str], int]:
    """Find the names of the columns, and pass over the row that holds them.

    Returns:
        The names (none: there is no row at all) and how many rows were passed over.
    """
    text = source.peek().decode("utf-8", "replace")
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=codec.delimiter, quotechar=codec.quote_character, strict=False
    )
    first = next((row for row in reader if row), [])
    if not first:
        return [], 0
    names = codec.header or (first if codec.detect_header else [])
    if first == names:
        ends = [place + 1 for place, byte in enumerate(source.peek()[: 1 << 20]) if byte == 10]
        source.skip(ends[reader.line_num - 1] if reader.line_num <= len(ends) else len(source.peek()))
    width = max(len(first), len(names))
    named = [*names, *[""] * (width - len(names))] if not codec.header else names
    return [name or f"column{index}" for index, name in enumerate(named, 1)], int(first == names)


def _open(source: _WholeLines, codec: CsvCodec, table: _Table, width: int) -> Iterator[pa.RecordBatch]:
    columns = [f"c{index}" for index in range(width)]
    if not source.peek():
        return
    yield from arrow_csv.open_csv(
        source,
        read_options=arrow_csv.ReadOptions(column_names=columns, use_threads=False, block_size=BLOCK_BYTES),
        parse_options=arrow_csv.ParseOptions(
            delimiter=codec.delimiter,
            quote_char=codec.quote_character,
            newlines_in_values=True,
            invalid_row_handler=table.give_up,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types={column: pa.binary() for column in columns},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def _is_text(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True
