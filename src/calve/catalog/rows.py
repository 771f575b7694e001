"""The current rows of a table without a JVM: PyIceberg reads the files, equality deletes are applied here.

PyIceberg plans no scan of a table with equality deletes. Here they are read as the data files that they are, and the
rows whose key they have are left out: those of files with an older sequence number, and of the same partition unless
the deletes are of a spec without partitions (Iceberg specification, scan planning). Keys are compared by DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import pyarrow as pyarrow_files
from pyiceberg.io.pyarrow import ArrowProjectionVisitor, ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table import FileScanTask, ManifestGroupPlanner, Table
from pyiceberg.types import NestedField

from calve.catalog.variant_files import TextFiles, variant_ids, with_texts
from calve.errors import UnsupportedError
from calve.expression.sql import duckdb_name
from calve.table.schema import is_variant, path_of

__all__ = ["TableRows"]

_READABLE = (FileFormat.PARQUET, FileFormat.PUFFIN)
"""PyIceberg reads no Avro, and not every column of ORC."""
_PLACE = "_place"
"""The number of a row in its batch."""


@dataclass(frozen=True)
class _Deletes:
    """A file of equality deletes, with its sequence number."""

    file: DataFile
    sequence: int
    is_global: bool

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(sorted(self.file.equality_ids or ()))

    def apply_to(self, file: DataFile, sequence: int) -> bool:
        """Return whether rows of a data file may be deleted."""
        if sequence >= self.sequence:
            return False
        return self.is_global or (self.file.spec_id, self.file.partition) == (file.spec_id, file.partition)


class _Projection(ArrowProjectionVisitor):
    """PyIceberg's, but a NULL list or map of structs stays NULL: PyIceberg 0.12 makes it empty."""

    def list(self, list_type: Any, list_array: Any, value_array: Any) -> Any:
        return _with_nulls(list_array, super().list(list_type, list_array, value_array))

    def map(self, map_type: Any, map_array: Any, key_result: Any, value_result: Any) -> Any:
        return _with_nulls(map_array, super().map(map_type, map_array, key_result, value_result))


vars(pyarrow_files).update(ArrowProjectionVisitor=_Projection)  # its functions take no other


def _with_nulls(before: Any, after: Any) -> Any:
    if after is None or after.null_count == before.null_count:
        return after
    return after.take(pc.if_else(before.is_valid(), pa.array(range(len(after)), pa.int64()), None))


class TableRows:
    """The rows of a table's newest snapshot.

    Args:
        table: The table, as PyIceberg loaded it.

    Attributes:
        schema: The columns of all rows, as Arrow; variants are JSON, in structs text.

    Raises:
        UnsupportedError: It has columns that PyIceberg cannot read.
    """

    def __init__(self, table: Table) -> None:
        self._variants = variant_ids(table.metadata)
        self._table = with_texts(table)
        try:
            self.schema = _with_json(schema_to_pyarrow(self._table.schema(), include_field_ids=False), table.schema())
        except (ValueError, NotImplementedError, TypeError) as error:
            raise _unreadable(table, "columns", str(error)) from error

    def reader(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Return the rows as a stream, those of the newest files first; None: with all columns."""
        names = [name for name in self.schema.names if columns is None or name in columns]
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def files(self, columns: Sequence[str]) -> Iterator[tuple[int, Callable[[], Iterator[pa.RecordBatch]]]]:
        """Yield the size of each data file in bytes, and what reads its rows; those of the newest files first."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        for applied, task in self._newest_first():
            yield task.file.file_size_in_bytes, partial(self._read, schema, applied, [task])

    def of_files(self, files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of data files as they were written, whatever was deleted later."""
        for file in files:
            yield from self._read(self.schema, (), [FileScanTask(file)])

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        groups: dict[tuple[_Deletes, ...], list[FileScanTask]] = {}
        for applied, task in self._newest_first():
            groups.setdefault(applied, []).append(task)
        for applied, tasks in groups.items():
            yield from self._read(schema, applied, tasks)

    def _newest_first(self) -> Iterator[tuple[tuple[_Deletes, ...], FileScanTask]]:
        """Yield the data files with the equality deletes that apply to each."""
        sequences, deletes, tasks = self._plan()
        for task in sorted(tasks, key=lambda task: -sequences[task.file.file_path]):
            sequence = sequences[task.file.file_path]
            yield tuple(delete for delete in deletes if delete.apply_to(task.file, sequence)), task

    def _read(
        self, schema: pa.Schema, applied: tuple[_Deletes, ...], tasks: list[FileScanTask]
    ) -> Iterator[pa.RecordBatch]:
        keys = _Keys(self._table, applied)
        fields = {field.field_id: field for field in self._table.schema().fields if field.name in schema.names}
        wanted = Schema(*({**keys.fields, **fields}).values())
        io = self._table.io
        if self._variants:
            io = TextFiles(io, {task.file.file_path for task in tasks}, self._variants)
        for batch in ArrowScan(self._table.metadata, io, wanted, AlwaysTrue()).to_record_batches(tasks):
            kept = keys.without_deleted(batch).select(schema.names)
            yield pa.RecordBatch.from_arrays(
                [column.cast(kind) for column, kind in zip(kept.columns, schema.types, strict=True)], schema=schema
            )

    def _plan(self) -> tuple[dict[str, int], list[_Deletes], list[FileScanTask]]:
        """Return the sequence numbers of data files, the equality deletes, and the tasks that read the data files."""
        snapshot = self._table.current_snapshot()
        sequences: dict[str, int] = {}
        deletes: list[_Deletes] = []

        def is_planned(entry: ManifestEntry) -> bool:
            file, sequence = entry.data_file, entry.sequence_number or 0
            if file.file_format not in _READABLE:
                raise _unreadable(self._table, f"files ({file.file_format.value})")
            if file.content != DataFileContent.EQUALITY_DELETES:
                sequences[file.file_path] = sequence
                return True
            deletes.append(_Deletes(file, sequence, not self._table.specs()[file.spec_id].fields))
            return False

        if snapshot is None:
            return sequences, deletes, []
        planner = ManifestGroupPlanner(self._table.metadata, self._table.io)
        return sequences, deletes, list(planner.plan_files(snapshot.manifests(self._table.io), is_planned))


def _unreadable(table: Table, what: str, why: str = "") -> UnsupportedError:
    name = ".".join(table.name())
    message = f"The table {name} has {what} that only Spark reads{why and ': '}{why}"
    return UnsupportedError(message, step="read", target=name, hint=f"calve changes {name} reads it")


def _with_json(schema: pa.Schema, columns: Schema) -> pa.Schema:
    for number, column in enumerate(columns.fields):
        if is_variant(columns, column.field_id):
            schema = schema.set(number, schema.field(number).with_type(pa.json_(pa.large_string())))
    return schema


class _Keys:
    """The deleted keys of some files of equality deletes, as tables of DuckDB, one for each set of key columns.

    Attributes:
        fields: The top-level columns that have keys, by id.
    """

    def __init__(self, table: Table, deletes: Sequence[_Deletes]) -> None:
        self._sets: dict[str, list[tuple[str, ...]]] = {}
        self.fields: dict[int, NestedField] = {}
        if not deletes:
            return
        self._database = duckdb.connect(config={"threads": 1})
        for number, ids in enumerate(sorted({delete.ids for delete in deletes})):
            schema = _schema_with(table, ids)
            scan = ArrowScan(table.metadata, table.io, prune_columns(schema, set(ids)), AlwaysTrue())
            keys = scan.to_table([FileScanTask(delete.file) for delete in deletes if delete.ids == ids])
            self._database.register("keys", keys)
            self._database.execute(f"CREATE TABLE keys_{number} AS SELECT * FROM keys")
            paths = [path_of(schema, field_id) for field_id in ids]
            self._sets[f"keys_{number}"] = paths
            self.fields |= {(field := schema.find_field(path[0])).field_id: field for path in paths}

    def without_deleted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows whose key was not deleted."""
        if not self._sets or not batch.num_rows:
            return batch
        names = [field.name for field in self.fields.values()]
        columns: list[Any] = [*(batch.column(name) for name in names), pa.array(range(batch.num_rows), pa.int64())]
        self._database.register("batch", pa.table(columns, names=[*names, _PLACE]))
        conditions = [
            f"NOT EXISTS (SELECT 1 FROM {keys} k WHERE {' AND '.join(map(_is_same, paths))})"
            for keys, paths in self._sets.items()
        ]
        query = f"SELECT {_PLACE} FROM batch r WHERE {' AND '.join(conditions)} ORDER BY {_PLACE}"
        return batch.take(pa.array([place for (place,) in self._database.execute(query).fetchall()], pa.int64()))


def _is_same(path: Sequence[str]) -> str:
    name = ".".join(map(duckdb_name, path))
    return f"k.{name} IS NOT DISTINCT FROM r.{name}"


def _schema_with(table: Table, ids: Sequence[int]) -> Schema:
    """Return the newest schema that has all of these columns: one of them may be gone from the current one."""
    schemas = [table.schema(), *(schema for _, schema in sorted(table.schemas().items(), reverse=True))]
    return next((schema for schema in schemas if set(ids) <= set(schema.field_ids)), table.schema())
