"""Makes files of the rows that updates change, within an attempt: reads older rows by position, and writes new ones.

The older rows of the table, and of files that earlier batches of the commit have staged, are read from the files that
the search has named. Rows of the table that are deleted already are left out. On format version 3 a changed row keeps
its id.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from calve.arrays import RowNumbers
from calve.catalog.data_files import UPDATED, StoredFile, opened, with_lineage
from calve.catalog.nested_columns import id_of
from calve.commit.key_search import KeySearch, UnsearchableError, reading
from calve.commit.older_rows import READERS, OlderFile, older_files, read_rows
from calve.commit.partial_updates import BatchPart, PartKind, apply_updates
from calve.commit.row_ids import OlderIds
from calve.errors import UnsupportedError
from calve.record.content_file import ContentFile
from calve.record.target import RowStream
from calve.reduce.key import ABSENT, Key
from calve.structs import decode
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.write.parquet import storage_error
from calve.write.writer import Writers

__all__ = ["UpdatedRows", "is_update", "updated_rows"]

_WRITTEN_ROWS = 65_536
_MOST_OPEN = 256
_STREAM = RowStream(0, "")
_Batches = Mapping[int, Sequence[ContentFile]]


class UpdatedRows(NamedTuple):
    """What became of the updates of batches.

    Attributes:
        files: The data files with the changed rows and the new ones; they belong to the attempt.
        letters: Of each batch the dead letters of updates that are no rows, as lines of JSON.
    """

    files: Sequence[ContentFile] = ()
    letters: Mapping[int, Sequence[bytes]] = {}


def is_update(schema: pa.Schema) -> bool:
    """Return whether a staged file of keys has updates that lack columns."""
    return ABSENT in schema.names


def updated_rows(
    java: Any,
    table: Table,
    search: KeySearch,
    batches: _Batches,
    positions: Mapping[str, RowNumbers],
    ids: OlderIds | str | None = None,
) -> UpdatedRows:
    """Apply the staged updates of batches to the rows that a search has found; the attempt deletes these.

    Args:
        java: A `Positions`, which has planned the files.
        table: The table.
        search: Of the keys.
        batches: Staged files.
        positions: The older rows of each file; some may be deleted already.
        ids: Those that rows of earlier batches of the commit get, if rows keep their ids.

    Raises:
        UnsearchableError: Only Spark can read a file, or knows which of its rows are deleted.
        CommitError: An update must be left out, but its dead letters were not staged.
        SinkUnavailableError: A file cannot be read at the moment.
    """
    try:
        written = with_lineage(table)
    except UnsupportedError as error:
        raise UnsearchableError(str(error)) from error
    parts = [
        _staged(table, search, batch, file) for batch, files in batches.items() for file in files if not file.is_data
    ]
    with ThreadPoolExecutor(READERS, "calve-rows") as pool:
        older = [*older_files(java, positions), *_in_batches(batches, positions)]
        parts += [part for part in pool.map(lambda file: _read(written, file), older) if len(part.rows)]
    applied = apply_updates(search, written, parts)
    rows = ids.filled(applied.rows) if isinstance(ids, OlderIds) else applied.rows
    return UpdatedRows(_written(written, rows), applied.letters)


def _staged(table: Table, search: KeySearch, batch: int, file: ContentFile) -> BatchPart:
    """Read the staged updates of a file, with the columns that it has, or its keys."""
    partial = Key(table, [table.schema.find_column_name(number) or "" for number in search.ids]).partial
    with reading(file.file_path), opened(file.file_path, table) as source, parquet.ParquetFile(source) as staged:
        kind = PartKind.UPDATE if is_update(staged.schema_arrow) else PartKind.DELETE
        if kind == PartKind.DELETE:
            return BatchPart(batch, kind, staged.read(use_threads=False))
        ids, rows = {id_of(field) for field in staged.schema_arrow}, staged.metadata.num_rows
    names = [field.name for field in arrow_schema(partial.schema) if id_of(field) in ids]
    [part] = [read_rows(partial, StoredFile(file.file_path), np.arange(rows))]
    return BatchPart(batch, kind, part.select(names))


def _in_batches(batches: _Batches, positions: Mapping[str, RowNumbers]) -> list[OlderFile]:
    """Return the staged files with older rows."""
    staged = {file.file_path: batch for batch, files in batches.items() for file in files if file.is_data}
    return [OlderFile(StoredFile(path), staged[path], rows) for path, rows in positions.items() if path in staged]


def _read(table: Table, older: OlderFile) -> BatchPart:
    rows = read_rows(table, older.file, older.rows)
    return BatchPart(older.batch, PartKind.ROW, rows.drop_columns([UPDATED]) if UPDATED in rows.column_names else rows)


def _written(table: Table, rows: pa.Table) -> list[ContentFile]:
    """Write rows into data files of the table.

    Raises:
        CalveError: The storage refuses.
    """
    writers = Writers(f"updated-{uuid.uuid4().hex}", _MOST_OPEN)
    try:
        for start in range(0, len(rows), _WRITTEN_ROWS):
            writers.write(_STREAM, table, table.properties, rows.slice(start, _WRITTEN_ROWS))
        files = writers.close().values()
    except BaseException as error:
        writers.discard()
        if isinstance(error, OSError):
            raise storage_error(table.location, error) from error
        raise
    return [decode(file, ContentFile) for written in files for file in written.files]
