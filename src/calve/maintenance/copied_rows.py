"""Copies the rows of data files into new ones, without those that are deleted; runs on executors.

The rows keep their order, so the place of each follows from the rows that were left out; those of a table with a sort
order are sorted, and their places noted. On format version 3 they also keep their ids and when they changed last, as
columns of the new file (specification, "Row Lineage").
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from calve.arrays import Mask
from calve.catalog.data_files import StoredFile, chosen_rows, with_lineage
from calve.errors import CalveError, UnsupportedError
from calve.maintenance.deleted_keys import Delete, DeletedKeys
from calve.record.content_file import ContentFile
from calve.record.target import RowStream
from calve.sources.prefetch import prefetch
from calve.structs import decode
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.write.parquet import storage_error
from calve.write.sort import Sorter
from calve.write.writer import UnwrittenFileError, Writers

__all__ = ["CopiedFile", "CopiedGroup", "FileGroup", "copied", "copy_on_executor", "packed", "unpacked"]

_TARGET = "write.target-file-size-bytes"
_SORTED_ROWS = 65_536
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

    @property
    def stored(self) -> StoredFile:
        """The file, to be read."""
        return StoredFile(self.path, self.sequence_number, self.first_row_id)


class FileGroup(NamedTuple):
    """Files whose rows become rows of the same files, and how many these should be."""

    files: Sequence[CopiedFile]
    into: int

    @property
    def size_bytes(self) -> int:
        """The bytes of the files."""
        return sum(file.size_bytes for file in self.files)


class CopiedGroup(NamedTuple):
    """What became of a group of files.

    Attributes:
        files: The new files, in the order of their rows.
        dropped: Of each old file the rows left out.
        places: The number of each copied row among the rows of the new files, 4 bytes each; empty: they are in order.
    """

    files: list[ContentFile]
    dropped: list[bytes]
    places: bytes = b""


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
    table = with_lineage(table)
    size = str(group.size_bytes // group.into + 1 if group.into > 1 else 1 << 60)
    kept = [_kept(file, keys) for file in group.files]
    parts = (
        rows for file, mask in zip(group.files, kept, strict=True) for rows in chosen_rows(file.stored, table, mask)
    )
    places: list[bytes] = []
    with contextlib.closing(prefetch([parts])) as tables:
        for rows in _sorted(table, tables, places) if table.sort_order.fields else tables:
            writers.write(_STREAM, table, {**table.properties, _TARGET: size}, rows)
    written = writers.close().get(_STREAM)
    copies = [decode(file, ContentFile) for file in (written.files if written else ())]
    copies.sort(key=lambda file: file.file_path.rpartition("/")[2])  # their numbers; partitions have folders
    return CopiedGroup(copies, [packed(~mask) for mask in kept], b"".join(places))


def _sorted(table: Table, parts: Iterator[pa.Table], places: list[bytes]) -> Iterator[pa.Table]:
    """Yield all rows in the table's order; add the place of each to `places`."""
    rows = pa.concat_tables([*parts, pa.Table.from_batches([], arrow_schema(table.schema))])
    order = Sorter(table).order(rows).to_numpy()
    place = np.empty(len(rows), "<u4")
    place[order] = np.arange(len(rows))
    places.append(place.tobytes())
    for start in range(0, len(rows), _SORTED_ROWS):
        yield rows.take(pa.array(order[start : start + _SORTED_ROWS]))


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
