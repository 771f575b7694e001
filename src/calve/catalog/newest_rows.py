"""The newest rows of a table in bounded memory: of its newest files, one after the other, deletes applied."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.table import Table

from calve.catalog.rows import TableRows
from calve.errors import UnsupportedError

__all__ = ["newest_rows"]

_MOST_FILE_BYTES, _MOST_FILES = 32 << 20, 20


def newest_rows(table: Table, most_rows: int, most_columns: int) -> pa.Table:
    """Return rows of the newest files, the newest file first.

    Args:
        table: The table, as PyIceberg loaded it.
        most_rows: How many rows.
        most_columns: How many columns, the first ones.

    Raises:
        UnsupportedError: Its newest file is too large to read it for some rows, or it has columns of other readers.
    """
    rows = TableRows(table)
    names = rows.schema.names[:most_columns]
    schema = pa.schema([rows.schema.field(name) for name in names])
    batches: list[pa.RecordBatch] = []
    missing = most_rows
    for number, (size_bytes, read) in enumerate(rows.files(names)):
        if size_bytes > _MOST_FILE_BYTES and not batches:
            message = f"The newest file has {size_bytes >> 20} MiB, too much to read it for some rows"
            hint = f"calve show {'.'.join(table.name())} reads it"
            raise UnsupportedError(message, step="read", hint=hint)
        if size_bytes > _MOST_FILE_BYTES or number >= _MOST_FILES:
            break
        for batch in read():
            batches.append(batch.slice(0, missing))
            missing -= batches[-1].num_rows
            if missing <= 0:
                return pa.Table.from_batches(batches, schema)
    return pa.Table.from_batches(batches, schema)
