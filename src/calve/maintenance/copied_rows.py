"""Copies the rows of data files into new ones, without those that are deleted; runs on executors.

The rows keep their order, so the place of each follows from the rows that were left out. On format version 3 they also
keep their ids and when they changed last, as columns of the new file (specification, "Row Lineage").
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from calve.arrays import Mask
from calve.errors import CalveError, UnsupportedError
from calve.maintenance.data_files import id_of, opened
from calve.maintenance.deleted_keys import Delete, DeletedKeys
from calve.record.content_file import ContentFile
from calve.record.target import RowStream
from calve.sources.prefetch import prefetch
from calve.structs import decode
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.write.parquet import storage_error
from calve.write.writer import UnwrittenFileError, Writers

__all__ = ["CopiedFile", "CopiedGroup", "FileGroup", "copied", "copy_on_executor", "packed", "unpacked"]

_ROW_IDS = 3
"""The format version with row ids, which a rewrite must keep."""
_ROW_ID, _UPDATED = 2147483540, 2147483539
_LINEAGE = [
    {"id": _ROW_ID, "name": "_row_id", "required": False, "type": "long"},
    {"id": _UPDATED, "name": "_last_updated_sequence_number", "required": False, "type": "long"},
]
_BATCH_ROWS = 16_384
_TARGET = "write.target-file-size-bytes"
_STREAM = RowStream(0, "")


class CopiedFile(NamedTuple):
    """A data file whose rows are copied.

    Attributes:
        path: Its location.
        size_bytes: Its size.
        rows: How many rows it has.
        keys: The equality deletes that apply to it.
        sequence_number: Its data sequence number.
        first_row_id: The id of its first row, None without ids.
        hidden: The rows that deletes by position hide, a bit for each, without zeros at the end.
    """

    path: str
    size_bytes: int = 0
    rows: int = 0
    keys: Sequence[Delete] = ()
    sequence_number: int = 0
    first_row_id: int | None = None
    hidden: bytes = b""


class FileGroup(NamedTuple):
    """Files whose rows become rows of the same files, and how many these should be."""

    files: Sequence[CopiedFile]
    into: int

    @property
    def size_bytes(self) -> int:
        """The bytes of the files."""
        return sum(file.size_bytes for file in self.files)


class CopiedGroup(NamedTuple):
    """What became of a group: the new files, in the order of their rows, and of each old file the rows left out."""

    files: list[ContentFile]
    dropped: list[bytes]


def copy_on_executor(
    table: Table, pieces: Iterable[Sequence[FileGroup]]
) -> Iterator[list[CopiedGroup] | CalveError | None]:
    """Copy groups of files; yield what became of each piece, or why there is nothing."""
    for groups in pieces:
        try:
            yield copied(table, groups)
        except CalveError as error:
            yield error
        except OSError as error:
            yield storage_error(table.location, error, "join data files")


def copied(table: Table, groups: Sequence[FileGroup]) -> list[CopiedGroup] | None:
    """Copy the rows of each group of files into new ones; None: only Iceberg can read one of them.

    Raises:
        OSError: A file cannot be read.
        CalveError: A file cannot be written.
    """
    name = f"joined-{uuid.uuid4().hex}"
    writers, keys = [Writers(f"{name}-{number:05d}", max_open=2) for number, _ in enumerate(groups)], DeletedKeys(table)
    try:
        return [_copy(table, group, writer, keys) for group, writer in zip(groups, writers, strict=True)]
    except BaseException as error:
        for writer in writers:
            writer.discard()
        if isinstance(error, (pa.ArrowException, UnsupportedError, UnwrittenFileError)):
            return None
        raise


def _copy(table: Table, group: FileGroup, writers: Writers, keys: DeletedKeys) -> CopiedGroup:
    if table.format_version >= _ROW_IDS:
        table = _with_lineage(table)
    size = str(group.size_bytes // group.into + 1 if group.into > 1 else 1 << 60)
    kept = [_kept(file, keys) for file in group.files]
    parts = (rows for file, mask in zip(group.files, kept, strict=True) for rows in _rows(file, table, mask))
    with contextlib.closing(prefetch([parts])) as tables:
        for rows in tables:
            writers.write(_STREAM, table, {**table.properties, _TARGET: size}, rows)
    written = writers.close().get(_STREAM)
    files = [decode(file, ContentFile) for file in (written.files if written else ())]
    files.sort(key=lambda file: file.file_path.rpartition("/")[2])  # their numbers; partitions have folders
    return CopiedGroup(files, [packed(~mask) for mask in kept])


def _with_lineage(table: Table) -> Table:
    """Return the table with the columns of ids.

    Raises:
        UnsupportedError: It has a column of such a name.
    """
    schema = json.loads(table.schema_json)
    names = {str(field["name"]) for field in _LINEAGE}
    if any(field["name"] in names for field in schema["fields"]):
        raise UnsupportedError(f"{table.identifier} has a column with a reserved name")
    return replace(table, schema_json=json.dumps({**schema, "fields": schema["fields"] + _LINEAGE}))


def packed(rows: Mask) -> bytes:
    """Return a bit for each row."""
    return np.packbits(rows, bitorder="little").tobytes()


def unpacked(bits: bytes, rows: int) -> Mask:
    """Return a mask of rows from their bits; zeros at the end may be absent."""
    padded = np.frombuffer(bits.ljust(-(-rows // 8), b"\0"), np.uint8)
    return np.unpackbits(padded, count=rows, bitorder="little").astype(bool)


def _kept(file: CopiedFile, keys: DeletedKeys) -> Mask:
    kept = ~unpacked(file.hidden, file.rows)
    return kept & keys.kept(file.path, file.keys).to_numpy() if file.keys else kept


def _rows(data_file: CopiedFile, table: Table, kept: Mask) -> Iterator[pa.Table]:
    """Yield the rows of a file that are kept, with the table's columns.

    Raises:
        ArrowInvalid: Only Iceberg can read the file as the table has it now.
    """
    wanted, at = arrow_schema(table.schema), 0
    defaults = {field.field_id for field in table.schema.fields if field.initial_default is not None}
    with opened(data_file.path, table) as source, parquet.ParquetFile(source) as file:
        names = {id_of(field): field.name for field in file.schema_arrow}
        if b"" in names:
            raise pa.ArrowInvalid(f"{data_file.path} has columns without ids")
        fields = {id_of(field) for field in wanted}
        columns = [name for number, name in names.items() if number in fields]
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
            mask = kept[at : at + len(batch)]
            if mask.any():
                rows = pa.Table.from_batches([batch])
                values = [_column(rows, names, field, defaults, (data_file, at)) for field in wanted]
                yield pa.table(values, schema=wanted).filter(pa.array(mask))
            at += len(batch)


def _column(
    rows: pa.Table, names: dict[bytes, str], field: pa.Field, defaults: set[int], place: tuple[CopiedFile, int]
) -> Any:
    """Return a column of the table, as a batch of rows of a file has it; `place`: the file, and its first row."""
    number, (file, at) = int(id_of(field)), place
    stored = rows[names[id_of(field)]] if id_of(field) in names else None
    if stored is not None and _parts(stored.type) != _parts(field.type):
        raise pa.ArrowInvalid(f"{file.path} has other parts of {field.name} than the table")
    column = pa.nulls(len(rows), field.type) if stored is None else stored.cast(field.type)
    if number == _ROW_ID and file.first_row_id is not None:
        return pc.coalesce(column, pa.array(np.arange(len(rows)) + (file.first_row_id + at), pa.int64()))
    if number == _UPDATED and file.first_row_id is not None:
        return pc.coalesce(column, pa.scalar(file.sequence_number, pa.int64()))
    if stored is None and (number in defaults or not field.nullable):
        raise pa.ArrowInvalid(f"{file.path} is older than {field.name}, which has a default value")
    return column


def _shape(fields: Iterable[pa.Field]) -> list[Any]:
    """Return the field ids and the names of columns; the parts of lists and maps have names without a meaning."""
    return [(id_of(field), field.name, _parts(field.type)) for field in fields]


def _parts(kind: pa.DataType) -> list[Any]:
    if pa.types.is_struct(kind):
        return _shape(kind.fields)
    if pa.types.is_map(kind):
        return [(id_of(field), _parts(field.type)) for field in (kind.key_field, kind.item_field)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [(id_of(kind.value_field), _parts(kind.value_type))]
    return []
