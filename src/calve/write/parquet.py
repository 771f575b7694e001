"""One Parquet data file that is being written."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io

from calve.errors import WriteError

__all__ = ["ParquetColumns", "ParquetFile", "compression", "local_path", "remove", "sync_folder"]

_GROUP_BYTES = 32 << 20
"""Rows are gathered up to this size before they become a row group."""
_SAMPLE_ROWS = 8192
_FEW = 0.3
"""A column whose sample has at most this share of distinct values gets a dictionary (design, section 9)."""
_AROUND = re.compile(r"^When .*?: (?=AWS Error)|; Details: .*")
"""What Arrow's object stores say around the reason: the key, which is another one each time, and the reason again."""


@dataclass(frozen=True)
class ParquetColumns:
    """The columns of a file, and the Parquet paths of those that get statistics."""

    schema: pa.Schema
    bounded: list[str]


class ParquetFile:
    """Gathers rows of one partition, writes them in row groups, and makes the file durable when it is closed."""

    def __init__(
        self, path: str, columns: ParquetColumns, properties: dict[str, str], io_properties: dict[str, str]
    ) -> None:
        self.path = path
        self.rows = 0
        self.pending_bytes = 0
        self._columns = columns
        self._properties = properties
        self._io_properties = io_properties
        self._pending: list[pa.Table] = []
        self._writer: Any = None
        self._sink: Any = None

    @property
    def size_bytes(self) -> int:
        """How long the file is so far, without what is gathered."""
        return int(self._sink.tell()) if self._sink is not None else 0

    def add(self, rows: pa.Table) -> None:
        """Take rows of the table's Arrow schema."""
        self._pending.append(rows)
        self.pending_bytes += rows.nbytes
        self.rows += len(rows)
        if self.pending_bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is gathered as a row group."""
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        self._pending, self.pending_bytes = [], 0
        try:
            if self._writer is None:
                self._open(rows)
            self._writer.write_table(rows, row_group_size=max(len(rows), 1))
        except (OSError, pa.ArrowException) as error:
            raise _failed(self.path, error) from error

    def close(self) -> tuple[int, Any]:
        """Finish the file; give its size in bytes and its Parquet metadata. A local file is then on disk."""
        self.flush()
        try:
            self._writer.close()
            size = self.size_bytes
            if isinstance(self._sink, _LocalFile):
                self._sink.sync()
            self._sink.close()
        except (OSError, pa.ArrowException) as error:
            raise _failed(self.path, error) from error
        return size, self._writer.writer.metadata

    def discard(self) -> None:
        """Give the file up; what is there of it is removed if it can be."""
        self._pending = []
        if self._sink is not None:
            try:
                self._sink.close()
                remove(self.path, self._io_properties)
            except Exception:  # it stays for orphan removal; the first error is the one that counts
                return

    def _open(self, rows: pa.Table) -> None:
        codec, level = compression(self._properties)
        local = local_path(self.path)
        if local is not None:
            self._sink = _LocalFile(local)
        else:
            self._sink = load_file_io(self._io_properties, self.path).new_output(self.path).create(overwrite=True)
        self._writer = pq.ParquetWriter(
            self._sink,
            self._columns.schema,
            write_statistics=self._columns.bounded,
            compression=codec,
            compression_level=level,
            use_dictionary=_dictionary_columns(rows),
            store_decimal_as_integer=True,
            data_page_size=_number(self._properties, "write.parquet.page-size-bytes"),
            write_page_index=False,
        )


class _LocalFile:
    """A local file that can be fsynced; pyarrow's own cannot."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file: BinaryIO = path.open("xb", buffering=0)
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        done = 0
        while done < len(view):  # a raw write may be short
            done += self._file.write(view[done:]) or 0
        return done

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        return

    def sync(self) -> None:
        os.fsync(self._file.fileno())
        sync_folder(self._path.parent)

    def close(self) -> None:
        self._file.close()
        self.closed = True


def sync_folder(path: Path) -> None:
    """Make the names in a local folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def local_path(location: str) -> Path | None:
    """Give the path of a local location, or None for an object store's."""
    parts = urlparse(location)
    if parts.scheme == "":
        return Path(location)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def remove(path: str, io_properties: dict[str, str]) -> None:
    """Remove one file; one that is not there is no error."""
    local = local_path(path)
    if local is not None:
        local.unlink(missing_ok=True)
        return
    io = load_file_io(io_properties, path)
    if io.new_input(path).exists():
        io.delete(path)


def compression(properties: dict[str, str]) -> tuple[str, int | None]:
    """Read `write.parquet.compression-codec` and `-level`; Iceberg's default is zstd."""
    codec = properties.get("write.parquet.compression-codec", "zstd").lower()
    level = properties.get("write.parquet.compression-level")
    usable = codec in ("zstd", "gzip", "brotli") and level not in (None, "", "null")
    return {"uncompressed": "none"}.get(codec, codec), int(str(level)) if usable else None


def _dictionary_columns(rows: pa.Table) -> list[str]:
    """Choose the columns where few values repeat: a dictionary helps these and slows the rest."""
    sample = rows.slice(0, _SAMPLE_ROWS)
    chosen = []
    for field in sample.schema:
        if (
            pa.types.is_nested(field.type)
            or pa.types.is_boolean(field.type)
            or isinstance(field.type, pa.BaseExtensionType)
        ):
            continue
        if pc.count_distinct(sample.column(field.name), mode="all").as_py() <= max(1, len(sample) * _FEW):
            chosen.append(field.name)
    return chosen


def _number(properties: dict[str, str], key: str) -> int | None:
    text = properties.get(key, "")
    return int(text) if text.isdigit() else None


def _failed(path: str, error: Exception) -> WriteError:
    """Name the folder, not the file: each attempt has its own, and the same failure is told once."""
    folder = path.rpartition("/")[0]
    reason = getattr(error, "strerror", None) or _AROUND.sub("", str(error).splitlines()[0])
    check = "space and permissions there" if local_path(path) else "that the storage is up and may be written to"
    return WriteError(
        f"Cannot write to {folder}: {reason}",
        step="write",
        target=folder,
        hint=f"Check {check}; the batch is tried again",
    )
