"""The current rows of a table without a JVM: PyIceberg reads the files, equality deletes are applied here.

PyIceberg plans no scan of a table with equality deletes. Here they are read as the data files that they are, and the
rows whose key they have are left out: those of files with an older sequence number, and of the same partition unless
the deletes are of a spec without partitions (Iceberg specification, scan planning). Keys are compared by DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, ManifestGroupPlanner, Table
from pyiceberg.types import NestedField

from calve.errors import UnsupportedError
from calve.sql import duckdb_name

__all__ = ["TableRows"]


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


class TableRows:
    """The rows of a table's newest snapshot.

    Args:
        table: The table, as PyIceberg loaded it.

    Attributes:
        schema: The columns of all rows, as Arrow.

    Raises:
        UnsupportedError: It has columns that PyIceberg cannot read.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        try:
            self.schema: pa.Schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        except (ValueError, NotImplementedError, TypeError) as error:
            name = ".".join(table.name())
            message = f"The table {name} has columns that only Spark reads: {error}"
            raise UnsupportedError(message, step="read", target=name, hint="calve changes reads it") from error

    def reader(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Return the rows as a stream; None: with all columns."""
        names = [name for name in self.schema.names if columns is None or name in columns]
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        sequences, deletes, tasks = self._plan()
        groups: dict[tuple[_Deletes, ...], list[FileScanTask]] = {}
        for task in tasks:
            sequence = sequences[task.file.file_path]
            groups.setdefault(tuple(one for one in deletes if one.apply_to(task.file, sequence)), []).append(task)
        for applied, files in groups.items():
            keys = _Keys(self._table, applied)
            fields = {field.field_id: field for field in self._table.schema().fields if field.name in schema.names}
            wanted = Schema(*({**fields, **keys.fields}).values())
            for batch in self._scan(wanted).to_record_batches(files):
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
            if file.content != DataFileContent.EQUALITY_DELETES:
                sequences[file.file_path] = sequence
                return True
            deletes.append(_Deletes(file, sequence, not self._table.specs()[file.spec_id].fields))
            return False

        if snapshot is None:
            return sequences, deletes, []
        planner = ManifestGroupPlanner(self._table.metadata, self._table.io)
        return sequences, deletes, list(planner.plan_files(snapshot.manifests(self._table.io), is_planned))

    def _scan(self, schema: Schema) -> ArrowScan:
        return ArrowScan(self._table.metadata, self._table.io, schema, AlwaysTrue())


class _Keys:
    """The deleted keys of some files of equality deletes, as tables of DuckDB, one for each set of key columns."""

    def __init__(self, table: Table, deletes: Sequence[_Deletes]) -> None:
        known = dict(chain.from_iterable(((field.field_id, field) for field in one.fields) for one in _schemas(table)))
        self._sets: dict[str, list[str]] = {}
        self.fields: dict[int, NestedField] = {}
        if not deletes:
            return
        self._database = duckdb.connect(config={"threads": 1})
        for number, ids in enumerate(sorted({one.ids for one in deletes})):
            fields = {field_id: known[field_id] for field_id in ids}
            scan = ArrowScan(table.metadata, table.io, Schema(*fields.values()), AlwaysTrue())
            keys = scan.to_table([FileScanTask(one.file) for one in deletes if one.ids == ids])
            self._database.register("keys", keys)
            self._database.execute(f"CREATE TABLE keys_{number} AS SELECT * FROM keys")
            self._sets[f"keys_{number}"] = [field.name for field in fields.values()]
            self.fields |= fields

    def without_deleted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows whose key was not deleted."""
        if not self._sets or not batch.num_rows:
            return batch
        names = list(dict.fromkeys(chain.from_iterable(self._sets.values())))
        columns: list[Any] = [*(batch.column(name) for name in names), pa.array(range(batch.num_rows), pa.int64())]
        rows = pa.table(columns, names=[*(f"c{number}" for number in range(len(names))), "place"])
        self._database.register("rows_", rows)
        conditions = [
            f"NOT EXISTS (SELECT 1 FROM {keys} k WHERE {_same(columns, names)})" for keys, columns in self._sets.items()
        ]
        kept = self._database.execute(f"SELECT place FROM rows_ r WHERE {' AND '.join(conditions)} ORDER BY place")
        return batch.take(pa.array([place for (place,) in kept.fetchall()], pa.int64()))


def _same(columns: Sequence[str], names: Sequence[str]) -> str:
    return " AND ".join(f"k.{duckdb_name(name)} IS NOT DISTINCT FROM r.c{names.index(name)}" for name in columns)


def _schemas(table: Table) -> list[Schema]:
    """Return the table's schemas, the current one last: a key may have a column that is gone."""
    return [*table.schemas().values(), table.schema()]
