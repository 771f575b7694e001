"""Reads JSON files: the elements of arrays, or consecutive values, without decoding them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from calve.event.columns import EVENT, MALFORMED
from calve.sources.file.json_lines import joined_lines
from calve.sources.file.json_splitter import Cut, ValueSplitter
from calve.sources.file.lines import BLANK, BOM, read_lines
from calve.sources.file.rows import FileBatches, row_numbers
from calve.sources.file.stream import BlockStream

__all__ = ["VALUE_BYTES", "read_values"]

VALUE_BYTES = 64 << 20
"""The longest value; a longer one is rejected with the rest of the file, because its end is unknown."""
SplitterOf = Callable[[], ValueSplitter]


def read_values(
    stream: BlockStream, rows: FileBatches, key_name: str | None = None, include_keys: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield each value of the file, of its arrays each element; with a key each element of each object's array there.

    These elements get other fields of their object, `include_keys`.
    In a file whose first line is a complete JSON value a bad line affects no other one.
    """
    blocks = iter(stream)
    head = next(blocks, b"").removeprefix(BOM)
    while not head.strip(BLANK) and (block := next(blocks, None)) is not None:
        head = block
    start, splitter = head.lstrip(BLANK), partial(ValueSplitter, key_name, include_keys)
    if start.startswith(b"[") or not _is_value(start.partition(b"\n")[0]):
        yield from _read_blocks(_Again(stream, start, blocks), rows, splitter())
        return
    values = joined_lines(read_lines(_Again(stream, head, blocks), rows, numbered=True), rows)
    yield from _without_arrays(values, rows) if key_name is None else _under_key(values, rows, splitter)


class _Again:
    """A stream whose first bytes have been read already."""

    def __init__(self, stream: BlockStream, head: bytes, blocks: Iterator[bytes]) -> None:
        self.broken = ""
        self._stream, self._head, self._blocks = stream, head, blocks

    def __iter__(self) -> Iterator[bytes]:
        if self._head:
            yield self._head
        yield from self._blocks
        self.broken = self._stream.broken


def _read_blocks(stream: _Again, rows: FileBatches, splitter: ValueSplitter) -> Iterator[pa.RecordBatch]:
    for block in stream:
        count = splitter.count
        yield from _batches(splitter.split(block), count, rows)
        if len(splitter.rest) > VALUE_BYTES:
            reason = f"has a value of more than {VALUE_BYTES >> 20} MiB (after value {splitter.count})"
            yield from rows.broken(reason, splitter.rest)
            return
    count = splitter.count
    other, early_end = splitter.close()
    if reason := stream.broken or early_end:
        yield from rows.broken(reason, splitter.rest)
    else:
        yield from _batches(other, count, rows)


def _without_arrays(values: Iterator[pa.RecordBatch], rows: FileBatches) -> Iterator[pa.RecordBatch]:
    """Yield values, with the elements in place of each array."""
    for batch in values:
        are_arrays = pc.starts_with(batch[EVENT], b"[")
        if batch[MALFORMED].null_count < len(batch) or not pc.any(are_arrays).as_py():
            yield batch
            continue
        events, numbers = list[bytes](), list[int]()
        for text, number in zip(batch[EVENT].to_pylist(), batch["file_row"].to_pylist(), strict=True):
            splitter = ValueSplitter()
            elements = splitter.split(text).values if text.startswith(b"[") else [text]
            elements = elements if splitter.objects == 1 and not splitter.rest else [text]  # else it is damaged
            events += elements
            numbers += [number] * len(elements)
        yield from rows.batches(pa.array(events, pa.binary()), pa.array(numbers, pa.int64()))


def _under_key(
    values: Iterator[pa.RecordBatch], rows: FileBatches, splitter_of: SplitterOf
) -> Iterator[pa.RecordBatch]:
    """Yield the elements under a key of the objects in some batches."""
    count = 0
    for batch in values:
        if batch[MALFORMED].null_count < len(batch):
            yield from _broken(batch, count, rows, splitter_of)
            continue
        cut = _cut_lines(batch[EVENT].to_pylist(), splitter_of)
        yield from _batches(cut, count, rows)
        count += len(cut.values)


def _broken(batch: pa.RecordBatch, count: int, rows: FileBatches, splitter_of: SplitterOf) -> Iterator[pa.RecordBatch]:
    """Yield the whole elements of the object in which a file ends early, and the row with the reason."""
    splitter = splitter_of()
    cut = splitter.split(batch[EVENT][0].as_py() or b"")
    if not cut.values:
        yield batch
        return
    yield from _batches(cut, count, rows)
    yield batch.set_column(0, batch.schema.field(0), pa.array([splitter.rest or None], pa.binary()))


def _cut_lines(lines: list[bytes], splitter_of: SplitterOf) -> Cut:
    """Cut elements off objects, together if each is whole."""
    splitter = splitter_of()
    cut = splitter.split(b"\n".join(lines))
    if splitter.objects == len(lines) and not (splitter.rest or cut.rejects):
        return cut
    cut = Cut([], [])
    for line in lines:
        splitter = splitter_of()
        elements, (other, early_end) = splitter.split(line), splitter.close()
        cut.values.extend(elements.values)
        cut.rejects.extend(elements.rejects + other.rejects)
        if early_end:
            cut.rejects.append((splitter.rest, f"The object {early_end}"))
    return cut


def _batches(cut: Cut, count: int, rows: FileBatches) -> Iterator[pa.RecordBatch]:
    """Yield what was cut off, after so many values."""
    yield from rows.batches(pa.array(cut.values, pa.binary()), row_numbers(count + 1, len(cut.values)))
    yield from rows.rejects([(text, reason, None) for text, reason in cut.rejects])


def _is_value(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
