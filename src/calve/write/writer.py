"""Writes typed rows of many tables into data files, with bounded memory and a bounded number of open files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyiceberg.table.locations import LocationProvider, load_location_provider

from calve.errors import CalveError
from calve.record.target import RowStream
from calve.state.durable import local_path, sync
from calve.stop_point import fail_if, stop_at
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.write.content_file import Described, data_file
from calve.write.finish import FINISHERS, Finishing
from calve.write.parquet import ParquetFile, ParquetLayout, remove
from calve.write.partition import Partition, Partitioner
from calve.write.properties import WriteProperties
from calve.write.shuffle import Shuffle
from calve.write.sort import Sorter
from calve.write.stored import stored_schema

__all__ = ["UnwrittenFileError", "Writers", "Written", "check"]

_KEPT_BYTES = 512 << 20
"""The most bytes of rows that wait in the memory of a task; beyond it each table gets a row group (decision 56)."""
_PART_BYTES = 4096
"""The overhead of each waiting part."""
_PREFIXES = ("write.", "encryption.")
"""The prefixes of the properties that configure the writer."""
_Key = tuple[RowStream, Partition]


class UnwrittenFileError(Exception):
    """A file of a stream (`key`) could not be finished, for an unexpected reason (its cause)."""

    def __init__(self, key: RowStream) -> None:
        super().__init__(key)
        self.key = key


@dataclass
class Written:
    """The files that one task wrote for one table: as JSON (a quarter of the memory), with rows and bytes."""

    table: Table
    files: list[msgspec.Raw] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0


class _Plan:
    """How to write files: shared by all tables with the same columns, partitions, sort order and properties."""

    def __init__(self, table: Table, wanted: WriteProperties, equality_ids: Sequence[int]) -> None:
        self.partitioner = Partitioner(table)
        sorter = Sorter(table)
        self.described = Described(table, wanted, sorter.columns, equality_ids)
        paths = {table.schema.find_column_name(key) or "": path for path, key in self.described.plain.items()}
        schema = stored_schema(arrow_schema(table.schema))
        self.layout = ParquetLayout(schema, paths, self.described.bounded, wanted, sorter, self.described.variants)
        self.target_bytes = wanted.target_bytes
        self.location_properties = wanted.location_properties


class _TableWriter(NamedTuple):
    table: Table
    locations: LocationProvider
    plan: _Plan


def check(table: Table, properties: dict[str, str]) -> tuple[str, ...]:
    """Return complaints about a table's properties, before any file is written; runs on the driver.

    Args:
        table: The table.
        properties: Its properties, overridden by `write_properties`.

    Raises:
        UnsupportedError: It requires files that Calve cannot write.
    """
    fresh = replace(table)  # cached parse results must not be pickled into tasks
    if fresh.spec.fields:
        Partitioner(fresh)
    return WriteProperties.read(table.identifier, properties).complaints


class Writers:
    """All data files of one task attempt; runs on an executor.

    Rows wait in memory as long as there is space, so that most files are written at once.

    Args:
        name: The prefix of file names; unique for this pipeline, batch, task and attempt.
        max_open: The most open files; beyond it the least recently used one is closed.
        shuffle: Gets the rows of files that would be small.
    """

    def __init__(self, name: str, max_open: int, shuffle: Shuffle | None = None) -> None:
        self._name = name
        self._shuffle = shuffle
        self._max_open = max_open
        self._plans: dict[Hashable, _Plan] = {}
        self._tables: dict[RowStream, _TableWriter] = {}
        self._files: dict[_Key, ParquetFile] = {}
        self._open: dict[_Key, None] = {}  # files that are partly on disk, least recently used first
        self._kept_bytes = 0
        self._written: dict[RowStream, Written] = {}
        self._count = 0
        self._made: list[tuple[str, dict[str, str]]] = []
        self._folders: set[str] = set()
        self._finishing = Finishing(self._finished)

    def write(
        self,
        key: RowStream,
        table: Table,
        properties: dict[str, str],
        rows: pa.Table,
        equality_ids: Sequence[int] = (),
        size_bytes: int = 0,
    ) -> None:
        """Write typed rows of one table.

        Args:
            key: The stream of the rows.
            table: The table; always the same for a stream.
            properties: The table's properties, overridden by `write_properties`.
            rows: Columns as in `arrow_schema(table.schema)`; may be a slice of many tables' rows.
            equality_ids: For equality deletes: the field ids of the key, which `table` is reduced to.
            size_bytes: About the size of the rows; 0: it is measured.
        """
        writer = self._tables.get(key)
        if writer is None:
            writer = self._tables[key] = self._writer(table, properties, equality_ids)
        row_bytes = size_bytes / max(len(rows), 1)
        for partition, part in writer.plan.partitioner.divide(rows):
            self._add((key, partition), writer, part, int(row_bytes * len(part)) or int(part.nbytes))
            stop_at("task.in-write")
        if self._kept_bytes > _KEPT_BYTES:
            self._flush()

    def close(self) -> dict[RowStream, Written]:
        """Close every file and return what was written, by stream."""
        self._shuffle_small_parts(list(self._files))
        for key in list(self._files):
            self._close(key)
        self._finishing.finish()
        folders = list(filter(None, map(local_path, self._folders)))
        with ThreadPoolExecutor(FINISHERS) as pool:  # many tables have many folders, and each waits for the disk
            list(pool.map(sync, folders))
        return self._written

    def discard(self) -> None:
        """Remove the files of this attempt: they are not staged, so nothing refers to them."""
        self._finishing.abandon()
        for file in self._files.values():
            file.discard()
        for path, io_properties in self._made:
            try:
                remove(path, io_properties)
            except Exception:  # left for orphan removal
                continue
        self._files.clear()

    def _writer(self, table: Table, properties: dict[str, str], equality_ids: Sequence[int]) -> _TableWriter:
        writer_properties = tuple(sorted(pair for pair in properties.items() if pair[0].startswith(_PREFIXES)))
        plan_key = table.columns_json, table.spec_json, table.sort_order_json, tuple(equality_ids), writer_properties
        plan = self._plans.get(plan_key)
        if plan is None:
            write_properties = WriteProperties.read(table.identifier, properties)
            plan = self._plans[plan_key] = _Plan(table, write_properties, equality_ids)
        return _TableWriter(table, load_location_provider(table.location, plan.location_properties), plan)

    def _add(self, key: _Key, writer: _TableWriter, rows: pa.Table, size_bytes: int) -> None:
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = self._new_file(key, writer)
        file.add(rows, size_bytes)
        self._kept_bytes += size_bytes + _PART_BYTES
        if file.is_open:
            self._opened(key)
        if file.size_bytes + file.pending_bytes // 4 >= writer.plan.target_bytes:  # zstd leaves about a quarter
            self._close(key)

    def _new_file(self, key: _Key, writer: _TableWriter) -> ParquetFile:
        name = f"{self._name}-{self._count:05d}.parquet"
        self._count += 1
        partition: Any = key[1] if key[1].path else None  # it has the only method that the providers call
        path = writer.locations.new_data_location(name, partition)
        return ParquetFile(path, writer.plan.layout, writer.table.io_properties)

    def _opened(self, key: _Key) -> None:
        self._open.pop(key, None)
        self._open[key] = None
        if len(self._open) > self._max_open:
            self._close(next(iter(self._open)))

    def _flush(self) -> None:
        """Write all waiting rows. Rows of many tables share memory, which is freed only when none of them waits."""
        self._shuffle_small_parts(list(self._files))
        for key, file in sorted(self._files.items(), key=lambda entry: -entry[1].pending_bytes):
            if file.pending_bytes and key in self._files:  # it may have been closed because too many files were open
                file.flush()
                self._opened(key)
        self._kept_bytes = 0

    def _shuffle_small_parts(self, keys: Sequence[_Key]) -> None:
        """Move the rows of files that would be small to the shuffle, if there is one."""
        if self._shuffle is None:
            return
        for key in keys:
            stream, partition = key
            if rows := self._files[key].drain(self._shuffle.limit(stream)):
                self._shuffle.add(stream, partition.path, rows)
                del self._files[key]
        self._shuffle.pack()

    def _close(self, key: _Key) -> None:
        file = self._files.pop(key)
        self._open.pop(key, None)
        self._finishing.submit(file.pending_bytes, lambda: self._finish(key, file))

    def _finish(self, key: _Key, file: ParquetFile) -> tuple[_Key, ParquetFile, int, msgspec.Raw]:
        """Close a file and describe it, on another thread."""
        writer = self._tables[key[0]]
        try:
            fail_if("task.finish", lambda: [file.path])
            closed = file.close()
            self._made.append((file.path, writer.table.io_properties))
            described = data_file(file.path, closed, key[1], writer.plan.described)
            return key, file, closed.size_bytes, msgspec.Raw(msgspec.json.encode(described))
        except (CalveError, OSError):
            file.discard()
            raise
        except Exception as error:
            file.discard()
            raise UnwrittenFileError(key[0]) from error

    def _finished(self, finished: tuple[_Key, ParquetFile, int, msgspec.Raw]) -> None:
        (key, _), file, size_bytes, described = finished
        self._folders.add(file.path.rpartition("/")[0])
        written = self._written.setdefault(key, Written(self._tables[key].table))
        written.files.append(described)
        written.rows += file.rows
        written.size_bytes += size_bytes
