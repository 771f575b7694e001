"""Writes one Parquet data file."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io

from calve.errors import CalveError, SetupError, WriteError
from calve.state.durable import is_lasting, local_path, try_folder
from calve.table.kinds import METADATA
from calve.write.bloom import bloom_options
from calve.write.content_file import Closed
from calve.write.footer import Marking
from calve.write.properties import WriteProperties
from calve.write.sort import UNSORTED, Sorter
from calve.write.stored import stored

__all__ = ["ParquetFile", "ParquetLayout", "remove", "storage_error", "try_writing"]

_GROUP_BYTES = 32 << 20
"""The size of buffered rows that become a row group, unless the table sets it."""
_MOST_GROUP_BYTES = 128 << 20
"""The largest such size; the table cannot exceed it, because memory is bounded."""
_SAMPLE_ROWS = 8192
_FEW_ROWS = 2048
"""Up to this number, rows are as small without a dictionary, and are written in half of the time."""
_BUFFER_BYTES = 64 << 10
"""The buffer of a local file, so that a small file needs one write."""
_FEW = 0.3
"""A column whose sample has at most this share of distinct values gets a dictionary (design, section 9)."""
_AROUND = re.compile(r"^When .*?: (?=AWS Error)|Unable to parse ExceptionName: |; Details: .*")
"""Text around the reason in errors of Arrow's object stores: the key, which differs each time, and repetitions."""


_AWS_ERROR = re.compile(r"AWS Error (\w+)")
_LASTING_AWS = frozenset(
    ("ACCESS_DENIED", "NO_SUCH_BUCKET", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_SIGNATURE")
)
"""Codes of the AWS SDK for which a retry does not help; Arrow has them only in its text."""
_KEYS = ("HTTP status 401", "HTTP status 403", "ExpiredToken")
"""What a store says of keys that are perhaps replaced in time, such as those that a catalog lends."""


@dataclass(frozen=True)
class ParquetLayout:
    """The layout of a table's files.

    Attributes:
        schema: Their columns.
        paths: The Parquet paths of the columns by Iceberg's dotted names.
        bounded: The Parquet paths of the columns that get statistics.
        properties: The table's write properties.
        sorter: Sorts each row group.
        variants: The Parquet paths of the variants by field id; no other attribute has them.
        dictionaries: The columns that get a dictionary; known after the first file with enough rows.
    """

    schema: pa.Schema
    paths: dict[str, str]
    bounded: list[str]
    properties: WriteProperties
    sorter: Sorter
    variants: Mapping[int, str]
    dictionaries: list[list[str]] = field(default_factory=list)

    @property
    def group_bytes(self) -> int:
        """The size of buffered rows that become a row group."""
        return min(self.properties.group_bytes or _GROUP_BYTES, _MOST_GROUP_BYTES)

    def dictionary_columns(self, rows: pa.Table) -> list[str]:
        """Choose the columns of a file that get a dictionary: by its first rows, or as in the previous file.

        The names in a variant always get one: many rows have the same names.
        """
        names = [f"{path}.{METADATA}" for path in self.variants.values()]
        if len(rows) <= _FEW_ROWS:
            requested = self.properties.dictionaries
            return names + [
                self.paths[column] for column, wanted in requested.items() if wanted and column in self.paths
            ]
        if not self.dictionaries:
            self.dictionaries.append(names + _dictionary_columns(rows, self.properties.dictionaries, self.paths))
        return self.dictionaries[0]


class ParquetFile:
    """Buffers rows of one partition, writes them in row groups, and makes the file durable on `close`."""

    def __init__(self, path: str, layout: ParquetLayout, io_properties: dict[str, str]) -> None:
        self.path = path
        self.rows = 0
        self.pending_bytes = 0
        self._layout = layout
        self._io_properties = io_properties
        self._pending: list[pa.Table] = []
        self._flushes = 0
        self._writer: Any = None
        self._sink: Any = None
        self._marking: Marking | None = None
        self._is_local = False

    @property
    def size_bytes(self) -> int:
        """The length of the file so far, without buffered rows."""
        return int(self._sink.tell()) if self._sink is not None else 0

    @property
    def is_open(self) -> bool:
        """Whether a part of it is written, so that it uses more than memory."""
        return self._sink is not None

    def add(self, rows: pa.Table, size_bytes: int) -> None:
        """Add rows of the table's Arrow schema, of about this size."""
        self._pending.append(rows)
        self.pending_bytes += size_bytes
        self.rows += len(rows)
        if self.pending_bytes >= self._layout.group_bytes:
            self.flush()

    def drain(self, less_than_bytes: int) -> list[pa.Table] | None:
        """Remove and return the rows if they are smaller than this and nothing was written: then there is no file."""
        if self._writer is not None or self._sink is not None or self.pending_bytes >= less_than_bytes:
            return None
        return self._pending

    def flush(self) -> None:
        """Sort and write the buffered rows as a row group, or as several if they are too large."""
        if not self._pending:
            return
        rows = stored(self._layout.sorter.sort(pa.concat_tables(self._pending)), self._layout.schema)
        groups = max(1, self.pending_bytes // self._layout.group_bytes)
        self._pending, self.pending_bytes = [], 0
        self._flushes += 1
        try:
            if self._writer is None:
                self._open(rows)
            self._writer.write_table(rows, row_group_size=max(-(-len(rows) // groups), 1))
        except OSError as error:  # Arrow's own errors come from the rows
            raise _failed(self.path, error) from error

    def close(self) -> Closed:
        """Finish the file. A local file is then durable, except for its name: see `durable.sync`.

        The result has a sort order if all rows were sorted together.
        """
        self.flush()
        try:
            self._finish()
            size = self.size_bytes
            if self._is_local:
                self._sink.flush()
                os.fsync(self._sink.fileno())
            self._sink.close()
        except OSError as error:  # Arrow's own errors come from the rows
            raise _failed(self.path, error) from error
        order = self._layout.sorter.order_id if self._flushes == 1 else UNSORTED
        return Closed(size, self._writer.writer.metadata, order)

    def _finish(self) -> None:
        """Write the footer."""
        if self._marking is None:
            self._writer.close()
            return
        self._marking.hold()
        self._writer.close()
        self._marking.release()

    def discard(self) -> None:
        """Abandon the file, and remove it if possible."""
        self._pending = []
        if self._sink is not None:
            for undo in (self._sink.close, lambda: remove(self.path, self._io_properties)):
                with contextlib.suppress(Exception):  # left for orphan removal; only the first error matters
                    undo()

    def _open(self, rows: pa.Table) -> None:
        local = local_path(self.path)
        self._is_local = local is not None
        if local is not None:
            self._sink = _created(local)
        else:
            self._sink = load_file_io(self._io_properties, self.path).new_output(self.path).create(overwrite=True)
        layout, wishes = self._layout, self._layout.properties
        self._marking = Marking(self._sink, layout.variants) if layout.variants else None
        self._writer = pq.ParquetWriter(
            self._marking or self._sink,
            layout.schema,
            write_statistics=layout.bounded,
            compression=wishes.codec,
            compression_level=wishes.level,
            use_dictionary=layout.dictionary_columns(rows),
            dictionary_pagesize_limit=wishes.dictionary_bytes,
            store_decimal_as_integer=True,
            data_page_size=wishes.page_bytes,
            max_rows_per_page=wishes.page_rows,
            data_page_version=wishes.page_version,
            bloom_filter_options=bloom_options(wishes.blooms, wishes.bloom_bytes, rows, layout.paths),
            write_page_index=False,
        )


def _created(path: Path) -> BinaryIO:
    """Create a new local file, and its folder if it is missing; writes are buffered."""
    try:
        return path.open("xb", _BUFFER_BYTES)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb", _BUFFER_BYTES)


def remove(path: str, io_properties: dict[str, str]) -> None:
    """Remove one file, if it exists."""
    local = local_path(path)
    if local is not None:
        local.unlink(missing_ok=True)
        return
    io = load_file_io(io_properties, path)
    if io.new_input(path).exists():
        io.delete(path)


def try_writing(location: str, io_properties: Mapping[str, str], delete: Callable[[str], None]) -> None:
    """Check that a task could write files to a table's location; nothing remains of the check.

    Args:
        location: The table's location.
        io_properties: What a task's FileIO gets.
        delete: Deletes the file again. Arrow's FileIO would leave an object for its folder, which some catalogs take
            for a broken namespace.

    Raises:
        SetupError: It cannot, and a retry cannot help.
        WriteError: It cannot at the moment.
    """
    folder = local_path(location)
    if folder is not None:
        try_folder(folder)
        return
    probe = f"{location}/data/calve_probe_{uuid.uuid4().hex}.parquet"
    try:
        io = load_file_io(dict(io_properties), probe)
        with io.new_output(probe).create(overwrite=True) as stream:
            stream.write(b"calve")
    except (OSError, pa.ArrowException) as error:
        raise storage_error(location, error) from error
    delete(probe)


def _dictionary_columns(rows: pa.Table, requested: Mapping[str, bool], paths: Mapping[str, str]) -> list[str]:
    """Choose the columns with few distinct values: a dictionary helps only these. The table's settings come first."""
    sample = rows.slice(0, _SAMPLE_ROWS)
    chosen = [paths[column] for column, wanted in requested.items() if wanted and column in paths]
    for column_field in sample.schema:
        if (
            column_field.name in requested
            or pa.types.is_nested(column_field.type)
            or pa.types.is_boolean(column_field.type)
            or isinstance(column_field.type, pa.BaseExtensionType)
        ):
            continue
        if pc.count_distinct(sample.column(column_field.name), mode="all").as_py() <= max(1, len(sample) * _FEW):
            chosen.append(column_field.name)
    return chosen


def _failed(path: str, error: Exception) -> CalveError:
    """Return the error for the folder, not the file: files differ per attempt, and equal failures are logged once."""
    return storage_error(path.rpartition("/")[0], error)


def storage_error(folder: str, error: Exception, step: str = "write") -> CalveError:
    """Return the error for a folder or prefix that cannot be written; the error's code decides the verdict."""
    reason = getattr(error, "strerror", None) or _AROUND.sub("", str(error).splitlines()[0])
    is_local = local_path(folder) is not None
    code = _AWS_ERROR.match(reason)
    if (code and code[1] in _LASTING_AWS) or (isinstance(error, OSError) and is_local and is_lasting(error)):
        kind: type[CalveError] = SetupError
        hint = "Change the permissions there, or set another location"
        if not is_local:
            hint = "Check the bucket, the region, and the keys of `catalog:` and their permissions"
    else:
        kind = WriteError
        check = "the disk, and the space there" if is_local else "that the storage is up and writable"
        check = "the keys of the storage" if any(word in reason for word in _KEYS) else check
        hint = f"Check {check}; Calve retries the batch"
    return kind(f"Cannot write to {folder}: {reason}", step=step, target=folder, hint=hint)
