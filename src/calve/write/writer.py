"""Writes typed rows of many tables into data files, with a bounded number of them open."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table.locations import load_location_provider

from calve.convert.table import Table
from calve.stop_point import reach
from calve.write.content_file import Described, data_file
from calve.write.parquet import ParquetFile, ParquetLayout, remove
from calve.write.partition import Partition, Partitioner
from calve.write.properties import WriteProperties
from calve.write.sort import Sorter

__all__ = ["Writers", "Written", "check"]

_PENDING_BYTES = 256 << 20
"""Rows that all open files of a task together may gather in memory."""


@dataclass
class Written:
    """What one task wrote into one table: content files as JSON (half of the memory of dicts), rows and bytes."""

    table: Table
    files: list[msgspec.Raw] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0


class _TableWriter:
    def __init__(self, table: Table, properties: dict[str, str], equality_ids: Sequence[int]) -> None:
        self.table = table
        self.partitioner = Partitioner(table)
        wishes = WriteProperties.read(table.identifier, properties)
        self.locations = load_location_provider(table.location, wishes.places)
        sorter = Sorter(table)
        self.described = Described(table, wishes, sorter.columns, equality_ids)
        paths = {table.schema.find_column_name(key) or "": path for path, key in self.described.columns.items()}
        self.layout = ParquetLayout(schema_to_pyarrow(table.schema), paths, self.described.bounded, wishes, sorter)
        self.target_bytes = wishes.target_bytes


def check(table: Table, properties: dict[str, str]) -> tuple[str, ...]:
    """Say what of a table's properties cannot be read, before any file is written; runs on the driver.

    Args:
        table: The table.
        properties: Its properties with `write_properties` laid over them.

    Raises:
        UnsupportedError: It asks for files that Calve cannot write.
    """
    fresh = replace(table)  # what is parsed here is not pickled into tasks
    if fresh.spec.fields:
        Partitioner(fresh)
    return WriteProperties.read(table.identifier, properties).complaints


class Writers:
    """All open data files of one task attempt; runs on an executor.

    Args:
        name: Makes file names unique for this pipeline, batch, task and attempt; never the same twice.
        max_open: Files open at once; beyond it the one that was used longest ago is closed.
    """

    def __init__(self, name: str, max_open: int) -> None:
        self._name = name
        self._max_open = max_open
        self._tables: dict[Hashable, _TableWriter] = {}
        self._open: dict[tuple[Hashable, Partition], ParquetFile] = {}  # in the order of their last use
        self._written: dict[Any, Written] = {}
        self._count = 0
        self._made: list[tuple[str, dict[str, str]]] = []

    def write(
        self,
        key: Hashable,
        table: Table,
        properties: dict[str, str],
        rows: pa.Table,
        equality_ids: Sequence[int] = (),
    ) -> None:
        """Write typed rows of one table.

        Args:
            key: Under which `close` gives what was written.
            table: The table; the same one for a key each time.
            properties: The table's properties with `write_properties` laid over them.
            rows: Columns as `schema_to_pyarrow(table.schema)` gives them.
            equality_ids: For equality deletes: the field ids of the key, which `table` is reduced to.
        """
        writer = self._tables.get(key)
        if writer is None:
            writer = self._tables[key] = _TableWriter(table, properties, equality_ids)
        for partition, part in writer.partitioner.divide(rows):
            file = self._file((key, partition), writer)
            file.add(part)
            reach("task.in-write")
            if file.size_bytes + file.pending_bytes // 4 >= writer.target_bytes:  # zstd leaves about a quarter
                self._close((key, partition))
        self._stay_small()

    def close(self) -> dict[Any, Written]:
        """Close every file and give what was written, by key."""
        for key in list(self._open):
            self._close(key)
        return self._written

    def discard(self) -> None:
        """Remove what this attempt made: it is not staged, so nothing can refer to it."""
        for file in self._open.values():
            file.discard()
        for path, io_properties in self._made:
            try:
                remove(path, io_properties)
            except Exception:  # left for orphan removal
                continue
        self._open.clear()

    def _file(self, key: tuple[Hashable, Partition], writer: _TableWriter) -> ParquetFile:
        file = self._open.pop(key, None)
        if file is None:
            if len(self._open) >= self._max_open:
                self._close(next(iter(self._open)))
            name = f"{self._name}-{self._count:05d}.parquet"
            self._count += 1
            partition: Any = key[1] if key[1].path else None  # it has the one method that the providers ask for
            path = writer.locations.new_data_location(name, partition)
            file = ParquetFile(path, writer.layout, writer.table.io_properties)
        self._open[key] = file
        return file

    def _close(self, key: tuple[Hashable, Partition]) -> None:
        file = self._open[key]
        writer = self._tables[key[0]]
        closed = file.close()
        del self._open[key]
        self._made.append((file.path, writer.table.io_properties))
        written = self._written.setdefault(key[0], Written(writer.table))
        described = data_file(file.path, closed, key[1], writer.described)
        written.files.append(msgspec.Raw(msgspec.json.encode(described)))
        written.rows += file.rows
        written.size_bytes += closed.size_bytes

    def _stay_small(self) -> None:
        gathered = sum(file.pending_bytes for file in self._open.values())
        for file in _largest_first(self._open):
            if gathered <= _PENDING_BYTES:
                return
            gathered -= file.pending_bytes
            file.flush()


def _largest_first(files: dict[tuple[Hashable, Partition], ParquetFile]) -> Iterator[ParquetFile]:
    yield from sorted(files.values(), key=lambda file: -file.pending_bytes)
