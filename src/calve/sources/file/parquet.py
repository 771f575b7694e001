"""Parquet: rows with their types."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import parquet

from calve.event.typed_schema import declaration, without_empty_nanoseconds
from calve.sources.file.parquet_types import declared_schema, open_parquet, reader_of_group
from calve.sources.file.rows import FileBatches, repetition, row_numbers

__all__ = ["read_parquet"]

_BATCH_ROWS = 16_384


def read_parquet(file: pa.NativeFile, rows: FileBatches, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the row groups whose middle lies in `[start, end)`: every group is in exactly one part."""
    try:
        opened = open_parquet(file)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if start == 0:
            yield from rows.broken(f"cannot be read as Parquet (cut off?): {error}")
        return
    if repeated := repetition(opened.schema_arrow.names):
        yield from rows.broken(f"{repeated}; give them unique names") if start == 0 else ()
        return
    row = 1
    for index in range(opened.num_row_groups):
        group = opened.metadata.row_group(index)
        if start <= _middle(group) < end:
            yield from _read_group(file, opened, index, rows, row)
        row += group.num_rows


def _read_group(
    file: pa.NativeFile, opened: parquet.ParquetFile, index: int, rows: FileBatches, row: int
) -> Iterator[pa.RecordBatch]:
    done = 0
    try:
        reader = reader_of_group(file, opened, index)
        schema = declared_schema(reader)
        for batch in reader.iter_batches(_BATCH_ROWS, row_groups=[index], use_threads=False):
            batch = without_empty_nanoseconds(batch.cast(schema) if batch.schema != schema else batch)
            declared = declaration(batch.schema.remove_metadata())
            for part in rows.typed(batch, row_numbers(row + done, len(batch)), declared):
                yield part
                done += len(part)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        first, length = _extent(opened.metadata.row_group(index))
        file.seek(first)
        file.read(length)  # raises if the storage failed, not the data
        yield from rows.broken(f"cannot be read after row {row + done - 1} of its Parquet data: {error}")


def _middle(group: parquet.RowGroupMetaData) -> int:
    first, length = _extent(group)
    return first + length // 2


def _extent(group: parquet.RowGroupMetaData) -> tuple[int, int]:
    """Return the start and the length of a row group."""
    columns = [group.column(index) for index in range(group.num_columns)]
    starts = [column.dictionary_page_offset or column.data_page_offset for column in columns]
    return min(starts, default=0), sum(column.total_compressed_size for column in columns)
