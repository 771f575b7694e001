"""The staged files of a MERGE: keys of rows to delete, and updates that lack columns. Read by the driver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from calve.arrays import RowNumbers
from calve.catalog.catalog import Catalog
from calve.engine.engine import Engine
from calve.errors import SinkUnavailableError
from calve.event import duckdb_session
from calve.reduce.absent import lacks
from calve.reduce.key import ABSENT, EVENTS

__all__ = ["StagedChanges", "staged", "staged_file"]

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class StagedChanges:
    """Changes of rows by one key.

    Attributes:
        paths: The path of names to each column of the key; longer than one if it is nested.
        columns: The names of the updates' columns, by field id; empty without updates.
        required: The field ids of the required ones.
        types: Spark's types of all columns of the rows, as SQL.
        deletes: The keys of rows to delete: `k0`, `k1`, ….
        updates: Rows: the key's columns, `c<field id>`, `ABSENT` and `EVENTS`.
        fresh: The positions of the updates whose older row is deleted first.
    """

    paths: tuple[tuple[str, ...], ...]
    columns: Mapping[int, str]
    required: frozenset[int]
    types: Mapping[str, str]
    deletes: pa.Table
    updates: pa.Table
    fresh: RowNumbers

    @property
    def absent(self) -> list[int]:
        """The field ids of the columns that some update lacks."""
        if not self.columns:
            return []
        numbers: list[int] = pc.unique(pc.list_flatten(self.updates.column(ABSENT))).to_pylist()
        return numbers

    def incomplete(self) -> tuple[RowNumbers, RowNumbers]:
        """Return the positions of updates that are certainly not rows, and of those that need an older row."""
        mask = np.zeros(len(self.updates), bool)
        for number in self.required.intersection(self.absent):
            mask |= lacks(duckdb_session.one_array(self.updates.column(ABSENT)), number)
        surely = self.fresh[mask[self.fresh]]
        mask[self.fresh] = False
        return surely, np.flatnonzero(mask)

    def keys_of(self, updates: RowNumbers, spark: Engine) -> DataFrame:
        """Return the keys of updates, and their positions as `row`."""
        keys = self.updates.select(self.deletes.column_names).take(pa.array(updates))
        return self._frame(keys.append_column("row", pa.array(updates, pa.int64())), spark)

    def letters_of(self, updates: RowNumbers) -> list[list[bytes]]:
        """Return the dead letters of each of these updates, as lines of JSON."""
        lines: list[list[bytes] | None] = self.updates.column(EVENTS).take(pa.array(updates)).to_pylist()
        return [batch_lines or [] for batch_lines in lines]

    def without(self, lost: RowNumbers) -> StagedChanges:
        """Leave updates out; older rows that a DELETE before them removed stay deleted."""
        rest = np.setdiff1d(np.arange(len(self.updates)), lost)
        gone = self.updates.take(pa.array(np.intersect1d(lost, self.fresh))).select(self.deletes.column_names)
        return replace(
            self,
            columns=self.columns if len(rest) else {},
            deletes=pa.concat_tables([self.deletes, gone]),
            updates=self.updates.take(pa.array(rest)),
            fresh=np.flatnonzero(np.isin(rest, self.fresh)),
        )

    def frame(self, spark: Engine) -> DataFrame:
        """Return one row per key, broadcast to every task; `ABSENT` is null if the row is deleted."""
        rows = self.deletes
        if self.columns:
            absent = duckdb_session.one_array(self.updates.column(ABSENT))
            keeps = np.ones(len(self.updates), bool)
            keeps[self.fresh] = False
            nothing = pa.array([[]], absent.type).take(pa.repeat(0, len(absent)))
            absent = pc.if_else(pa.array(keeps), absent, nothing)
            updates = self.updates.drop_columns([ABSENT, EVENTS]).append_column(ABSENT, absent)
            rows = pa.concat_tables([updates, rows], promote_options="default")
        return self._frame(rows, spark)

    def _frame(self, rows: pa.Table, spark: Engine) -> DataFrame:
        schema = StructType.fromDDL(", ".join(f"{name} {self.types[name]}" for name in rows.column_names))
        batch = rows.combine_chunks()  # Spark 4.1 stops at a batch without rows
        return spark.session.createDataFrame(batch, schema).hint("broadcast")


def staged(catalog: Catalog, table: Any, ids: Sequence[int], paths: Sequence[str]) -> StagedChanges:
    """Read the files of one key.

    Args:
        catalog: The catalog of the table.
        table: The Java table: columns get its current names and types, not those of the files.
        ids: The field ids of the key.
        paths: Files with these columns; those with `ABSENT` are updates.

    Raises:
        SinkUnavailableError: A file cannot be read at the moment.
    """
    schema, io_properties = table.schema(), catalog.io_properties(table)
    read = [_read(path, io_properties) for path in paths]
    columns = {number: name for rows in read if ABSENT in rows.column_names for number, name in _names(schema, rows)}
    keys = {f"k{at}": number for at, number in enumerate(ids)}
    types = {**keys, **{f"c{number}": number for number in columns}}
    convert = catalog.spark.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert
    fields = {name: schema.findField(number) for name, number in types.items()}
    updates = [_updates(rows, keys, columns) for rows in read if ABSENT in rows.column_names]
    deletes = [_keys(rows, keys) for rows in read if ABSENT not in rows.column_names]
    rows_of_batch = StagedChanges(
        paths=tuple(_path(catalog, schema, number) for number in ids),
        columns=columns,
        required=frozenset(number for number in columns if schema.findField(number).isRequired()),
        types={
            **{name: convert(field.type()).asNullable().sql() for name, field in fields.items()},
            ABSENT: "array<int>",
            "row": "bigint",
        },
        deletes=pa.concat_tables(deletes) if deletes else updates[0].select(list(keys)).slice(0, 0),
        updates=pa.concat_tables(updates) if updates else deletes[0].slice(0, 0),
        fresh=np.zeros(0, np.int64),
    )
    return _freshened(rows_of_batch, list(keys)) if updates and deletes else rows_of_batch


def _freshened(staged: StagedChanges, keys: list[str]) -> StagedChanges:
    """Remove the keys of updates from the deletes."""
    numbered = [
        rows.select(keys).append_column("row", pa.array(range(len(rows)), pa.int64()))
        for rows in (staged.updates, staged.deletes)
    ]
    sql = f"SELECT updates.row AS one, deletes.row AS other FROM updates JOIN deletes USING ({', '.join(keys)})"
    both = duckdb_session.run(sql, updates=numbered[0], deletes=numbered[1])
    if not len(both):
        return staged
    kept = np.setdiff1d(np.arange(len(staged.deletes)), both.column("other").to_numpy())
    return replace(staged, deletes=staged.deletes.take(pa.array(kept)), fresh=both.column("one").to_numpy())


@contextlib.contextmanager
def staged_file(path: str, io_properties: dict[str, str]) -> Iterator[pq.ParquetFile]:
    """Open a staged file.

    Raises:
        SinkUnavailableError: It cannot be read at the moment.
    """
    try:
        with load_file_io(io_properties, path).new_input(path).open() as stream, pq.ParquetFile(stream) as file:
            yield file
    except OSError as error:
        raise SinkUnavailableError(
            f"The staged keys {path} cannot be read: {error}",
            step="commit",
            target=path,
            hint="Calve tries again; check that the table's storage is reachable",
        ) from error


def _read(path: str, io_properties: dict[str, str]) -> pa.Table:
    with staged_file(path, io_properties) as file:
        return file.read()


def _names(schema: Any, rows: pa.Table) -> list[tuple[int, str]]:
    """Return the columns of rows that the table still has, with their current names."""
    numbers = [number for number in map(_number, rows.schema) if number is not None]
    return [(number, str(schema.findColumnName(number))) for number in numbers if schema.findField(number) is not None]


def _path(catalog: Catalog, schema: Any, number: int) -> tuple[str, ...]:
    """Return the path of names to a field; each name may contain dots."""
    parents = catalog.spark.jvm.org.apache.iceberg.types.TypeUtil.indexParents(schema.asStruct())
    above = parents.get(number)
    return (*(_path(catalog, schema, above) if above is not None else ()), str(schema.findField(number).name()))


def _number(field: pa.Field) -> int | None:
    """Return the id of a field; the parts of a variant have none."""
    number = (field.metadata or {}).get(_FIELD_ID)
    return None if number is None else int(number)


def _keys(rows: pa.Table, keys: Mapping[str, int]) -> pa.Table:
    """Return the columns of the key by field id, at any depth."""
    while any(pa.types.is_struct(field.type) for field in rows.schema):
        rows = rows.flatten()  # `a` with a field `b` becomes `a.b`
    columns = {_number(field): column for field, column in zip(rows.schema, rows.columns, strict=True)}
    return pa.table({name: _plain(columns[number]) for name, number in keys.items()})


def _updates(rows: pa.Table, keys: Mapping[str, int], columns: Mapping[int, str]) -> pa.Table:
    updates = _keys(rows, keys)
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if _number(field) in columns:
            updates = updates.append_column(f"c{_number(field)}", _plain(column))
    return updates.append_column(ABSENT, rows.column(ABSENT)).append_column(EVENTS, rows.column(EVENTS))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with the types that Spark has, at any depth: from DuckDB a UUID is text, a `fixed` is binary."""
    if not _is_odd(column.type):
        return column
    return duckdb_session.run("SELECT key FROM rows", rows=pa.table({"key": column})).column("key")


def _is_odd(kind: pa.DataType) -> bool:
    """Return whether Spark has another type for this type, or for a type inside it."""
    inside = [kind.field(at).type for at in range(kind.num_fields)]
    return isinstance(kind, pa.UuidType) or pa.types.is_fixed_size_binary(kind) or any(map(_is_odd, inside))
