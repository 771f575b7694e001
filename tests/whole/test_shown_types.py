"""`calve tables`, `show` and `sql` over tables with columns of every Iceberg type; Spark's changes are the oracle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from calve.catalog.appended import appended_lines
from calve.catalog.open_tables import OpenTables
from calve.catalog.sqlite import embedded
from calve.changes.plan import Planner
from calve.changes.table_changes import TableChanges
from calve.engine import session
from kit.running import Calve

pytestmark = pytest.mark.spark

DAY, UUID = "2026-01-31", "8a2c1e1e-0000-4000-8000-000000000001"
READ_BY_SPARK = {
    "boolean": True,
    "int": 1,
    "long": 2**53 + 1,
    "float": 1.5,
    "double": 2.0,
    "date": DAY,
    "timestamp": f"{DAY}T12:00:00.123456",
    "timestamptz": f"{DAY}T12:00:00Z",
    "string": 'a "b"\n',
    "uuid": UUID,
    "binary": "AAEC",
    "fixed[3]": "AAEC",
    "decimal(9,2)": "1.50",
    "struct<a: int, b: string>": {"a": 1, "b": "z"},
    "list<int>": [1, 2],
    "map<string, decimal(9,2)>": {"k": "1.25"},
    "list<struct<d: date, u: uuid>>": [{"d": DAY, "u": UUID}],
    "map<string, struct<d: date>>": {"k": {"d": DAY}},
}
READ_IN_V3 = {
    "variant": {"a": [1, "x", None, 1.50]},
    "unknown": None,
    "struct<n: unknown, i: int>": {"n": None, "i": 3},
}
NOT_IN_SPARK = {"time": "12:00:01.5", "list<struct<t: time>>": [{"t": "12:00:01"}]}
NOT_IN_SPARK_IN_V3 = {
    "timestamp_ns": f"{DAY}T12:00:00.123456789",
    "timestamptz_ns": f"{DAY}T12:00:00.123456789Z",
    "list<timestamp_ns>": [f"{DAY}T12:00:00.123456789"],
    "map<string, timestamp_ns>": {"k": f"{DAY}T12:00:00.123456789"},
}
TABLES = {
    "read.v1": (1, READ_BY_SPARK),
    "read.v2": (2, READ_BY_SPARK),
    "read.v3": (3, READ_BY_SPARK | READ_IN_V3),
    "alone.v1": (1, NOT_IN_SPARK),
    "alone.v2": (2, NOT_IN_SPARK),
    "alone.v3": (3, NOT_IN_SPARK | NOT_IN_SPARK_IN_V3),
}
PLACES = ("geography", "geometry")
EVERY_TYPE = {kind: value for _, kinds in TABLES.values() for kind, value in kinds.items()}
COLUMNS = {kind: f"c{number}" for number, kind in enumerate(EVERY_TYPE)}


def _row(kinds: dict[str, Any]) -> dict[str, Any]:
    return {"id": 1} | {COLUMNS[kind]: value for kind, value in kinds.items()}


def _sink(table: str, version: int, kinds: dict[str, Any]) -> dict[str, Any]:
    columns = [{"name": "id", "type": "long"}, *({"name": COLUMNS[kind], "type": kind} for kind in kinds)]
    settings = {"table_identifier": table, "auto_create": True, "on_type_mismatch": "dlq"}
    versions = {"table_properties": {"format-version": str(version)}}
    return {"iceberg": settings | versions | {"schema": {"columns": columns}, "include_keys": list(_row(kinds))}}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Calve:
    sinks = [_sink(table, version, kinds) for table, (version, kinds) in TABLES.items()]
    sinks += [_sink(f"places.{kind}", 3, {}) for kind in PLACES]
    source = {"file": {"path": "rows.ndjson"}}
    calve = Calve(tmp_path_factory.mktemp("types"), json.dumps({"types": {"source": source, "sink": sinks}}), spark)
    (calve.folder / "rows.ndjson").write_text(f'{json.dumps(_row(EVERY_TYPE))}\n{{"id": 2}}\n')
    assert calve.once() == 0, calve.said()[-2000:]
    assert calve.dead_letters("types") == []
    return calve


def _shown(lake: Calve, table: str) -> list[dict[str, Any]]:
    result = lake.call("show", table, "--json")
    assert result.exit_code == 0, result.output
    return list(map(json.loads, result.stdout.splitlines()))


def _changed(lake: Calve, table: str, *key: str) -> Iterator[dict[str, Any]]:
    changes = TableChanges(Planner(session.start()), table, partial(lake.java_table, table), "main", key)
    for step in changes.steps(None, None):
        yield from map(json.loads, changes.lines(step))


@pytest.mark.parametrize("table", TABLES)
def test_show_prints_what_changes_prints(lake: Calve, table: str) -> None:
    assert _shown(lake, table) == [change["event"] for change in _changed(lake, table)]


@pytest.mark.parametrize("table", TABLES)
def test_show_prints_what_was_written(lake: Calve, table: str) -> None:
    kinds = TABLES[table][1]
    assert _shown(lake, table) == [_row(kinds), _row(dict.fromkeys(kinds)) | {"id": 2}]


@pytest.mark.parametrize(
    ("table", "key"), [("read.v1", ""), ("read.v2", ""), ("read.v2", "id"), ("read.v2", "string int uuid")]
)
def test_changes_that_need_no_spark_are_those_of_spark(lake: Calve, table: str, key: str) -> None:
    columns = [COLUMNS.get(word, word) for word in key.split()]
    opened = OpenTables(embedded(lake.folder / "lakehouse")).open(table)
    lines = appended_lines(opened, "main", None, None, columns)
    assert lines is not None
    changes = list(map(json.loads, lines))
    by_spark = list(_changed(lake, table, *columns))
    assert changes == by_spark
    assert [list(change["metadata"]) for change in changes] == [list(change["metadata"]) for change in by_spark]


def test_tables_and_sql_have_all_of_them(lake: Calve) -> None:
    assert [line.split()[0] for line in lake.call("tables").stdout.splitlines()[1:]] == [
        *sorted(TABLES)[:3],
        *(f"places.{kind}" for kind in PLACES),
        *sorted(TABLES)[3:],
    ]
    query = f"SELECT {COLUMNS['variant']}->>'$.a[1]' AS x FROM read.v3 JOIN alone.v3 USING (id) WHERE id = 1"
    assert lake.call("sql", query).stdout.split() == ["x", "x"]


@pytest.mark.parametrize("kind", PLACES)
def test_a_place_is_shown_as_its_bytes(lake: Calve, kind: str, tmp_path: Path) -> None:
    table, iceberg = lake.java_table(f"places.{kind}"), session.start().jvm.org.apache.iceberg
    kinds = {"geometry": iceberg.types.Types.GeometryType, "geography": iceberg.types.Types.GeographyType}
    table.updateSchema().addColumn("place", kinds[kind].crs84()).commit()
    fields = [
        pa.field(name, type_, metadata={"PARQUET:field_id": str(number)})
        for number, (name, type_) in enumerate([("id", pa.int64()), ("place", pa.binary())], 1)
    ]
    path = tmp_path / "place.parquet"
    parquet.write_table(pa.table([[3], [b"\0\1\2"]], schema=pa.schema(fields)), path)
    file = iceberg.DataFiles.builder(table.spec()).withPath(str(path)).withFormat("parquet")
    table.newAppend().appendFile(file.withFileSizeInBytes(path.stat().st_size).withRecordCount(1).build()).commit()
    assert _shown(lake, f"places.{kind}") == [
        {"id": 3, "place": "AAEC"},
        {"id": 1, "place": None},
        {"id": 2, "place": None},
    ]
    tables = {table["table"]: table for table in json.loads(lake.call("tables", "--json").stdout)["tables"]}
    assert tables[f"places.{kind}"]["columns"][1]["type"].startswith(kind)
