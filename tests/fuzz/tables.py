"""What a round left in its tables, as Spark, PyIceberg and DuckDB read it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyspark.sql.functions import col, to_json
from pyspark.sql.types import VariantType

from calve.table.schema import read_schema
from kit.running import Calve, each_event
from services import duckdb_iceberg

UNREADABLE_IN_SPARK = ("time", "timestamp_ns", "timestamptz_ns")
"""Types that Iceberg's Spark has no counterpart of."""

DEEPEST_IN_DUCKDB = 12
"""Each level of a type doubles the time that DuckDB 1.5 needs for its values."""


@dataclass(frozen=True)
class Found:
    """One table: its schema, and its rows as plain values, None where only DuckDB reads it; `faults` of its readers."""

    name: str
    schema: Schema
    rows: list[dict[str, Any]] | None
    faults: list[str]


class Readers:
    """Three programs that read tables; DuckDB is missing where it cannot be had."""

    def __init__(self) -> None:
        program = duckdb_iceberg.fetch()
        self.duckdb = duckdb_iceberg.Reader(program) if program else None
        self.have_duckdb = self.duckdb is not None

    def read(self, job: Calve, namespace: str, branch: str | None) -> list[Found]:
        """Read all tables of a namespace, and of those below it."""
        return [self._read(job, levels, place, branch) for levels, place in tables(job.folder, namespace)]

    def close(self) -> None:
        """End what was started."""
        if self.duckdb:
            self.duckdb.close()

    def _read(self, job: Calve, levels: list[str], place: str, branch: str | None) -> Found:
        metadata = json.loads(Path(place).read_bytes())
        current = next(each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"])
        schema = read_schema(json.dumps(current))
        if branch and branch not in metadata["refs"]:
            return Found(".".join(levels), schema, [], [])
        kinds = {str(each.field_type) for each in schema._lazy_id_to_field.values()}
        found: dict[str, Any] = {}
        if not kinds & {*UNREADABLE_IN_SPARK}:
            found["Spark"] = lambda: _with_spark(job, levels, branch)
        if "variant" not in kinds and not _equality_deletes(table := StaticTable.from_metadata(place), branch):
            found["PyIceberg"] = lambda: _with_pyiceberg(table, branch)
        if self.duckdb and not branch and "variant" not in kinds and depth(schema.as_struct()) <= DEEPEST_IN_DUCKDB:
            found["DuckDB"] = lambda: self.duckdb and self.duckdb.ids(place)
        rows: list[dict[str, Any]] | None = None
        ids: dict[str, Counter[str]] = {}
        faults = []
        for reader, read in found.items():
            try:
                got = read()
            except Exception as error:
                faults.append(f"{reader} cannot read it: {_cause(error)}")
                continue
            if reader != "DuckDB":
                rows = got if rows is None or reader == "Spark" else rows
                got = [row.get("id") for row in got]
            ids[reader] = Counter(map(repr, got))
        if len({frozenset(each.items()) for each in ids.values()}) > 1:
            faults.append(f"the readers see different ids: { {name: len(one) for name, one in ids.items()} }")
        return Found(".".join(levels), schema, rows, faults)


def depth(kind: iceberg.IcebergType) -> int:
    """Return how many lists, maps and structs lie within each other."""
    match kind:
        case iceberg.StructType():
            return 1 + max((depth(each.field_type) for each in kind.fields), default=0)
        case iceberg.ListType():
            return 1 + depth(kind.element_type)
        case iceberg.MapType():
            return 1 + max(depth(kind.key_type), depth(kind.value_type))
    return 0


def _cause(error: Exception) -> str:
    """Return the innermost message of an error, without Java's stack."""
    text = f"{type(error).__name__}: {error}".rpartition("Caused by: ")[2]
    return text.split("\n\tat ")[0][:1500]


def tables(folder: Path, namespace: str) -> list[tuple[list[str], str]]:
    """Return the tables of a namespace of the embedded catalog: their names, and where their metadata are."""
    file = folder / "lakehouse" / "catalog.db"
    if not file.exists():
        return []
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as catalog:
        asked = "select table_namespace, table_name, metadata_location from iceberg_tables order by 1, 2"
        found = catalog.execute(asked).fetchall()
    return [
        ([*levels.split("."), name], place)
        for levels, name, place in found
        if levels == namespace or levels.startswith(f"{namespace}.")
    ]


def _with_spark(job: Calve, levels: list[str], branch: str | None) -> list[dict[str, Any]]:
    spark = job.shared_spark()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.caseSensitive", "true")
    name = ".".join(f"`{level}`" for level in ["lakehouse", *levels])
    version = f" VERSION AS OF '{branch}'" if branch else ""
    found = spark.sql(f"SELECT * FROM {name}{version}")
    for field in found.schema:
        if isinstance(field.dataType, VariantType):  # Spark's own toArrow takes no variant that is null
            found = found.withColumn(field.name, to_json(col(f"`{field.name}`")))
    return plain_rows(found.toArrow())


def _with_pyiceberg(table: StaticTable, branch: str | None) -> list[dict[str, Any]]:
    scan = table.scan(snapshot_id=_snapshot(table, branch))
    rows = scan.to_arrow()
    assert set(rows.column_names) == set(schema_to_pyarrow(scan.projection()).names)
    return plain_rows(rows)


def _snapshot(table: StaticTable, branch: str | None) -> int | None:
    return table.metadata.refs[branch].snapshot_id if branch else None


def _equality_deletes(table: StaticTable, branch: str | None) -> bool:
    snapshot = table.snapshot_by_id(number) if (number := _snapshot(table, branch)) else table.current_snapshot()
    return bool(snapshot and snapshot.summary and int(snapshot.summary["total-equality-deletes"] or 0))


def plain_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows with times as whole numbers of their unit, maps as lists of pairs and UUIDs as bytes."""
    columns = [_cast(column, _plain_type(column.type)).to_pylist() for column in rows.columns]
    return [dict(zip(rows.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(_plain_type(kind.value_type))
    if pa.types.is_date32(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_temporal(kind) else kind


def letters(job: Calve, pipeline: str, sinks: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the dead letters of a pipeline, wherever its sinks put them; `sinks` are their options by label."""
    found = job.dead_letters(pipeline)
    for options in sinks.values():
        match options.get("dlq"):
            case str(folder):
                files = sorted((job.folder / folder).glob("[!_.]*.ndjson"))
                lines = [line for path in files for line in path.read_bytes().splitlines()]
                found += [entry for line in lines for entry in each_event(line)]
            case {"table": name}:
                for _, place in tables(job.folder, name.partition(".")[0]):
                    found += StaticTable.from_metadata(place).scan().to_arrow().to_pylist()
    return found
