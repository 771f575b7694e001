"""Reads rows of data files with the columns that their table has now; runs anywhere.

Columns are found by field id, so renamed, dropped and added ones are what they should be. On format version 3 rows have
ids, which a rewrite must keep, as columns of the new file (specification, "Row Lineage").
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyiceberg.io import load_file_io
from pyiceberg.schema import index_by_id

from calve.arrays import Mask
from calve.catalog.nested_columns import fitted, id_of
from calve.errors import UnsupportedError
from calve.state.durable import local_path
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table

__all__ = [
    "LINEAGE_VERSION",
    "ROW_ID",
    "UPDATED",
    "StoredFile",
    "chosen_rows",
    "default_column",
    "opened",
    "with_lineage",
]

LINEAGE_VERSION = 3
"""The format version with row ids."""
ROW_ID, UPDATED = "_row_id", "_last_updated_sequence_number"
_ROW_ID, _UPDATED = 2147483540, 2147483539
_LINEAGE = [
    {"id": _ROW_ID, "name": ROW_ID, "required": False, "type": "long"},
    {"id": _UPDATED, "name": UPDATED, "required": False, "type": "long"},
]
_BATCH_ROWS = 16_384


class StoredFile(NamedTuple):
    """A data file.

    Attributes:
        path: Its location.
        sequence_number: Its data sequence number.
        first_row_id: The id of its first row, None without ids.
    """

    path: str
    sequence_number: int = 0
    first_row_id: int | None = None


def opened(path: str, table: Table) -> Any:
    """Return a file of a table as Arrow reads it; a context manager.

    Raises:
        OSError: It cannot be read.
    """
    local = local_path(path)
    return (
        load_file_io(table.io_properties, path).new_input(path).open() if local is None else pa.memory_map(str(local))
    )


def with_lineage(table: Table) -> Table:
    """Return the table with the columns of ids, if its rows have ids.

    Raises:
        UnsupportedError: It has a column of such a name.
    """
    if table.format_version < LINEAGE_VERSION:
        return table
    schema = json.loads(table.schema_json)
    names = {str(field["name"]) for field in _LINEAGE}
    if any(field["name"] in names for field in schema["fields"]):
        raise UnsupportedError(f"{table.identifier} has a column with a reserved name")
    return replace(table, schema_json=json.dumps({**schema, "fields": schema["fields"] + _LINEAGE}))


def chosen_rows(data_file: StoredFile, table: Table, chosen: Mask) -> Iterator[pa.Table]:
    """Yield the chosen rows of a file, in order, with the table's columns.

    Args:
        data_file: The file.
        table: The table.
        chosen: A mask of its rows; it may end early.

    Raises:
        ArrowInvalid: Only Iceberg can read the file as the table has it now.
        OSError: It cannot be read.
    """
    wanted = arrow_schema(table.schema)
    defaults = {
        str(number).encode(): field.initial_default
        for number, field in index_by_id(table.schema).items()
        if field.initial_default is not None
    }
    with opened(data_file.path, table) as source, parquet.ParquetFile(source) as file:
        names = {id_of(field): field.name for field in file.schema_arrow}
        if b"" in names:
            raise pa.ArrowInvalid(f"{data_file.path} has columns without ids")
        fields = {id_of(field) for field in wanted}
        columns = [name for number, name in names.items() if number in fields]
        for at, mask, batch in _batches(file, columns, chosen):
            values = [_column(batch, names, field, defaults, (data_file, at)) for field in wanted]
            yield pa.table(values, schema=wanted).filter(pa.array(mask))


def _batches(file: parquet.ParquetFile, columns: list[str], chosen: Mask) -> Iterator[tuple[int, Mask, pa.Table]]:
    """Yield batches that have chosen rows: the number of the first row, which are chosen, and all rows."""
    start, chosen = 0, np.pad(chosen, (0, file.metadata.num_rows - len(chosen)))
    for group in range(file.num_row_groups):
        at, start = start, start + file.metadata.row_group(group).num_rows
        groups = [group] if chosen[at:start].any() else []
        for batch in file.iter_batches(_BATCH_ROWS, groups, columns, use_threads=False) if groups else ():
            mask = chosen[at : at + len(batch)]
            if mask.any():
                yield at, mask, pa.Table.from_batches([batch])
            at += len(batch)


def _column(
    rows: pa.Table, names: dict[bytes, str], field: pa.Field, defaults: dict[bytes, Any], place: tuple[StoredFile, int]
) -> Any:
    """Return a column of the table, as a batch of rows of a file has it; `place`: the file, and its first row."""
    number, (file, at) = int(id_of(field)), place
    stored = rows[names[id_of(field)]] if id_of(field) in names else None
    default = defaults.get(id_of(field))
    if stored is None and default is None and not field.nullable:
        raise pa.ArrowInvalid(f"{file.path} lacks {field.name}, which is required")
    column = (
        default_column(field.type, default, len(rows))
        if stored is None
        else fitted(stored, field.type, defaults.keys())
    )
    if number == _ROW_ID and file.first_row_id is not None:
        return pc.coalesce(column, pa.array(np.arange(len(rows)) + (file.first_row_id + at), pa.int64()))
    if number == _UPDATED and file.first_row_id is not None:
        return pc.coalesce(column, pa.scalar(file.sequence_number, pa.int64()))
    return column


def default_column(kind: pa.DataType, default: Any, rows: int) -> pa.Array:
    """Return the values of a column in rows that are older than it; nulls without a default."""
    return pa.nulls(rows, kind) if default is None else pa.array([default], kind).take(pa.repeat(0, rows))
