"""Reads CSV: rows of text become JSON objects, of strings or of guessed types."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from calve.event.declared import declaration
from calve.event.json_text import guessed_json, to_json
from calve.observe.humanize import many
from calve.sources.file.encoding import MARKED, has_marks, is_utf8, marked, to_utf8, unmarked
from calve.sources.file.rows import Rows, repetition, row_numbers
from calve.sources.file.settings import CsvCodec
from calve.sources.file.stream import BLOCK_BYTES, Stream

__all__ = ["read_csv"]

_BOM = b"\xef\xbb\xbf"
Reject = tuple[bytes, str, int]


def read_csv(stream: Stream, rows: Rows, codec: CsvCodec) -> Iterator[pa.RecordBatch]:
    """Yield each row as an object of its columns; an empty cell is null, `""` an empty string.

    A row with more or fewer cells than columns, or with bytes that are not text, is rejected alone. A file whose first
    row is not a header is rejected completely, with one row that has the reason.
    """
    source = _WholeLines(stream, codec.encoding)
    try:
        names, skip = _columns(source, codec)
    except csv.Error as error:
        yield from rows.broken(f"has a first row that cannot be read as CSV: {error}", source.peek())
        return
    if fault := _fault(names, codec):
        yield from rows.broken(fault, unmarked(codec.delimiter.join(names)))
        return
    if not names:
        yield from rows.broken(stream.broken, source.rest) if stream.broken else ()
        return
    table = _Table(rows, source, names, skip, codec)
    try:
        for batch in _open(source, codec, table, len(names)):
            yield from table.events(batch)
    except pa.ArrowInvalid as error:
        yield from table.rejected()
        yield from rows.broken(f"cannot be read as CSV after row {table.row}: {error}", None)
        return
    yield from table.rejected()
    if stream.broken:
        yield from rows.broken(stream.broken, source.rest)


class _Table:
    """Numbers the rows, and keeps those that the parser rejects until the next batch."""

    def __init__(self, rows: Rows, source: _WholeLines, names: list[str], skipped: int, codec: CsvCodec) -> None:
        self.row = skipped
        self._rows, self._source, self._names, self._skipped, self._codec = rows, source, names, skipped, codec
        self._declared = None if codec.infer_types else declaration(pa.schema([(name, pa.string()) for name in names]))
        self._bad: list[Reject] = []
        self._taken: set[int] = set()

    def reject(self, row: Any) -> str:
        """Keep a row that the parser cannot read (its handler)."""
        cells, names = many(row.actual_columns, "cell"), many(row.expected_columns, "column")
        reason = f"The row has {cells}, but the file has {names}"
        self._taken.add(row.number + self._skipped)
        self._bad.append((unmarked(row.text), reason, row.number + self._skipped))
        return "skip"

    def events(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a parsed block, then its rejected rows."""
        numbers = self._numbers(batch.num_rows)
        bad = self._not_text(batch)
        if pc.any(bad).as_py():
            for number, row in zip(numbers.filter(bad).to_pylist(), batch.filter(bad).to_pylist(), strict=True):
                text = ",".join(value or "" for value in row.values())
                self._bad.append(
                    (unmarked(text), f"The row has bytes that are not {self._codec.encoding.upper()}", number)
                )
            numbers, batch = numbers.filter(pc.invert(bad)), batch.filter(pc.invert(bad))
        named = pa.Table.from_batches([batch]).rename_columns(self._names)
        events = (guessed_json if self._codec.infer_types else to_json)(named).combine_chunks()
        yield from self._rows.batches(events, numbers, None, self._declared)
        yield from self.rejected()

    def rejected(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows rejected since the last call."""
        bad, self._bad = self._bad, []
        yield from self._rows.rejects(bad)

    def _numbers(self, count: int) -> pa.Array:
        """Number the good rows of a block; bad rows, some of them in the next block, keep their numbers."""
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

    def _not_text(self, batch: pa.RecordBatch) -> pa.Array:
        """Mask the rows with marked bytes."""
        bad = pa.repeat(False, batch.num_rows)
        for column in batch.columns if self._source.marked else []:
            bad = pc.or_(bad, pc.fill_null(pc.match_substring_regex(column, MARKED), False))
        return bad


class _WholeLines:
    """A file object of complete lines, all UTF-8; if the stream breaks, the cut line stays in `rest`.

    Bytes that are not text are marked (`encoding`), and then `marked` is true.
    """

    closed = False
    marked = False

    def __init__(self, stream: Stream, encoding: str) -> None:
        self.rest = b""
        self._is_utf8 = is_utf8(encoding)
        blocks = iter(stream) if self._is_utf8 else to_utf8(stream, encoding)
        self._stream, self._blocks, self._ready = stream, blocks, b""
        self._next = next(self._blocks, b"").removeprefix(_BOM) or next(self._blocks, b"")

    def peek(self) -> bytes:
        """Return the available bytes, or read more; empty at the end."""
        while not self._ready and self._next:
            text, self._next = self.rest + self._next, next(self._blocks, b"")
            ended = not self._next and not self._stream.broken
            end = len(text) if ended else text.rfind(b"\n") + 1
            self._ready, self.rest = self._text(text[:end]), text[end:]
        return self._ready

    def skip(self, length: int) -> None:
        """Skip bytes that were peeked at."""
        self._ready = self._ready[length:]

    def read(self, size: int) -> bytes:
        """Return this many bytes, fewer only at the end: the parser supports rows in two blocks, not in three."""
        parts, left = [], size
        while left and (ready := self.peek()):
            parts.append(ready[:left])
            self.skip(left)
            left -= len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        """Do nothing: whoever opened the file closes it."""

    def readable(self) -> bool:
        """Return that this can be read."""
        return True

    def seekable(self) -> bool:
        """Return that this cannot seek."""
        return False

    def writable(self) -> bool:
        """Return that this cannot be written."""
        return False

    def _text(self, text: bytes) -> bytes:
        try:
            shown = text.decode()
        except UnicodeDecodeError:
            self.marked = True
            return marked(text)
        self.marked = self.marked or (not self._is_utf8 and has_marks(shown))
        return text


def _columns(source: _WholeLines, codec: CsvCodec) -> tuple[list[str], int]:
    """Find the names of the columns, and skip the header row.

    Returns:
        The names (none if there is no row), and how many rows were skipped.
    """
    read: list[str] = []
    lines = (read.append(line) or line for line in io.StringIO(source.peek().decode(), newline=""))  # type: ignore[func-returns-value]
    reader = csv.reader(lines, delimiter=codec.delimiter, quotechar=codec.quote_character)
    first = next((row for row in reader if row), [])
    if not first:
        return [], 0
    names = codec.header or (first if codec.detect_header else [])
    if first == names:
        source.skip(len("".join(read).encode()))
    width = max(len(first), len(names))
    named = [*names, *[""] * (width - len(names))] if not codec.header else names
    return [name or f"column{index}" for index, name in enumerate(named, 1)], int(first == names)


def _fault(names: list[str], codec: CsvCodec) -> str | None:
    """Return why these cannot be column names, as the rest of a sentence about the file."""
    if any(map(has_marks, names)):
        return f"has bytes in its header that are not {codec.encoding.upper()}; set `encoding` of the csv codec"
    repeated = repetition(names)
    return f"{repeated}; set unique names with `header` of the csv codec" if repeated else None


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
            invalid_row_handler=table.reject,
        ),
        convert_options=arrow_csv.ConvertOptions(
            column_types={column: pa.string() for column in columns},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
