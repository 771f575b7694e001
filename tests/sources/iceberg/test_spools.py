"""Rows of tables are written down with their types, and have the texts that `calve changes` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog
from calve.changes.plan import Planner
from calve.changes.table_changes import TableChanges
from calve.engine import session
from calve.event.columns import EVENT, SCHEMA, TYPED
from calve.event.typed import is_typed, with_text
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.sources.iceberg.settings import IcebergSourceSettings
from calve.sources.iceberg.source import IcebergSource
from calve.sources.source import Planned
from calve.state.local_folder import LocalFolder

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's, of `collect`
]

SCALARS = {
    "BOOLEAN": ["true", "false"],
    "INT": ["-2147483648", "7"],
    "BIGINT": ["9007199254740993", "-9223372036854775808"],
    "FLOAT": ["float(0.1)", "float('NaN')", "float('-0.0')", "float('Infinity')", "float(1e10)", "float(16777217)"],
    "DOUBLE": ["0.1D", "double('NaN')", "double('-Infinity')", "-0.0D", "1e10D", "1e-5D", "123456789D", "1e300D"],
    "DECIMAL(5, 2)": ["1.50", "-0.01", "999.99"],
    "DECIMAL(12, 10)": ["0.0000000001", "0.0000000000"],
    "DECIMAL(38, 10)": ["1234567890123456789012345678.0123456789", "-0.0000000001"],
    "DATE": ["DATE'2026-01-02'", "DATE'0001-01-01'", "DATE'1582-10-10'", "DATE'9999-12-31'"],
    "TIMESTAMP": ["TIMESTAMP'2026-01-02 03:04:05.678901Z'", "TIMESTAMP'0001-01-01 00:00:00'", "TIMESTAMP'9999-12-31 23:59:59.9Z'"],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ'1582-10-10 00:00:01.5'", "TIMESTAMP_NTZ'2026-01-02'"],
    "STRING": ["'a'", "''", "'\"\\\\/\\n\\u0001\\u2028é😀'", "repeat('x', 70000)"],
    "BINARY": ["X'00FF'", "X''", "X'" + "AB" * 100 + "'"],
}  # fmt: skip
COLUMNS = [
    *((f"c{number}", kind, [*values, "NULL"]) for number, (kind, values) in enumerate(SCALARS.items())),
    ("l", "ARRAY<DECIMAL(9, 2)>", ["array(1.50, NULL)", "array()", "NULL"]),
    ("s", "STRUCT<a: DECIMAL(9, 2), `b c`: STRUCT<d: DOUBLE>>", ["struct(1.5, struct(double('NaN')))", "struct(NULL, NULL)", "NULL"]),
    ("m", "MAP<STRING, DECIMAL(9, 2)>", ["map('\"k', 0.50, 'n', NULL)", "map()", "NULL"]),
    *(
        (f"m{number}", f"MAP<{kind}, ARRAY<{kind}>>", [f"map({value}, array({value}, NULL))" for value in values])
        for number, (kind, values) in enumerate(SCALARS.items())
        if kind not in ("FLOAT", "DOUBLE")
    ),
]  # fmt: skip


@pytest.fixture
def made(spark: SparkSession, lake: Catalog, request: pytest.FixtureRequest) -> str:
    """The name of a table that the test makes."""
    return "db." + request.node.name.removeprefix("test_").partition("[")[0][:60]


def source_of(lake: Catalog, name: str, folder: Path, more: str = "") -> IcebergSource:
    text = f"p:\n  source:\n    iceberg: {{tables: [{{table_name: {name}{more}}}]}}\n  sink:\n    - iceberg: {{table_identifier: a.b}}\n"
    settings = parse_text(text, PLUGINS).pipelines[0].source.value
    assert isinstance(settings, IcebergSourceSettings)
    source = IcebergSource(settings, LocalFolder(folder), "p", lambda properties: lake)
    source.start(None, True)
    return source


def planned(source: IcebergSource) -> Planned:
    found = source.plan(None, 1 << 30)
    assert found is not None
    return found


def read(source: IcebergSource, batch: Planned) -> Iterator[pa.Table]:
    for split in batch.splits:
        yield from map(pa.Table.from_batches, ([each] for each in source.reader.read(split)))


def told(spark: SparkSession, lake: Catalog, name: str) -> list[Any]:
    """The rows of a table as `calve changes` tells them."""
    changes = TableChanges(Planner(session.start()), name, lambda: lake.load_java(name))
    lines = [line for step in changes.steps() for line in changes.lines(step)]
    return sorted((json.loads(line, object_pairs_hook=tuple)[0][1] for line in lines), key=repr)


def events(tables: list[pa.Table]) -> list[Any]:
    texts = [text for rows in tables for text in with_text(rows)[EVENT].to_pylist()]
    return sorted((json.loads(text, object_pairs_hook=tuple) for text in texts), key=repr)


def test_texts_of_typed_rows_are_those_of_the_changes_of_a_table(
    spark: SparkSession, lake: Catalog, made: str, tmp_path: Path
) -> None:
    for setting, value in {"outputTimestampType": "INT96", "datetimeRebaseModeInWrite": "LEGACY"}.items():
        spark.conf.set(f"spark.sql.parquet.{setting}", value)
    spark.sql(
        f"CREATE TABLE lake.{made} (n INT, {', '.join(f'{name} {kind}' for name, kind, _ in COLUMNS)}) USING iceberg"
    )
    rows = []
    for number in range(max(len(values) for _, _, values in COLUMNS)):
        row = [f"CAST({values[number % len(values)]} AS {kind})" for _, kind, values in COLUMNS]
        rows.append(f"SELECT {number}, {', '.join(row)}")
    spark.sql(f"INSERT INTO lake.{made} {' UNION ALL '.join(rows)}")
    source = source_of(lake, made, tmp_path)
    tables = list(read(source, planned(source)))
    assert all(map(is_typed, tables))
    for mine, theirs in zip(events(tables), told(spark, lake, made), strict=True):
        assert mine == theirs
    kinds = [str(field.type) for field in tables[0][TYPED].type]
    assert kinds[7 : len(SCALARS) + 1] == [
        "decimal128(12, 10)",
        "decimal128(38, 10)",
        "date32[day]",
        "timestamp[us, tz=UTC]",
        "timestamp[us]",
        "string",
        "binary",
    ]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("MAP<DOUBLE, INT>", "map(1e10D, 1)"),
        ("MAP<STRUCT<a: INT>, INT>", "map(struct(1), 2)"),
        ("VARIANT", "parse_json('{\"a\":1}')"),
        ("STRUCT<v: ARRAY<VARIANT>>", "struct(array(parse_json('1')))"),
    ],
)
def test_rows_that_parquet_does_not_hold_are_written_down_as_texts(
    spark: SparkSession, lake: Catalog, made: str, tmp_path: Path, kind: str, values: str
) -> None:
    spark.sql(
        f"CREATE OR REPLACE TABLE lake.{made} (id INT, x {kind}) USING iceberg TBLPROPERTIES ('format-version'='3')"
    )
    spark.sql(f"INSERT INTO lake.{made} SELECT 1, {values}")
    source = source_of(lake, made, tmp_path)
    [rows] = read(source, planned(source))
    assert not is_typed(rows)
    assert json.loads(rows[EVENT][0].as_py())["id"] == 1


def test_columns_may_have_any_name_and_row_ids_are_one(
    spark: SparkSession, lake: Catalog, made: str, tmp_path: Path
) -> None:
    names = ["a.b", "A.b", " ,;{}()\t=", "ä\"'`", "event", "_typed"]
    columns = ", ".join("`" + name.replace("`", "``") + "` INT" for name in names)
    spark.sql(f"CREATE TABLE lake.{made} ({columns}) USING iceberg TBLPROPERTIES ('format-version'='3')")
    spark.sql(f"INSERT INTO lake.{made} VALUES (0, 1, 2, 3, 4, 5)")
    source = source_of(lake, made, tmp_path, ", row_id_column: row")
    [rows] = read(source, planned(source))
    assert rows[TYPED].to_pylist() == [{**{name: number for number, name in enumerate(names)}, "row": 0}]
    fields = json.loads(rows[SCHEMA][0].as_py())["fields"]
    assert [each["name"] for each in fields] == [*names, "row"]


def test_the_size_of_a_file_is_that_of_its_rows_however_well_they_compress(
    spark: SparkSession, lake: Catalog, made: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE lake.{made} USING iceberg AS SELECT id, repeat('x', 2000) AS s FROM range(0, 2000, 1, 1)")
    source = source_of(lake, made, tmp_path)
    batch = planned(source)
    size = sum(split.size_bytes for split in batch.splits)
    rows = pa.concat_tables(read(source, batch))
    assert 0.9 < size / rows[TYPED].nbytes < 1.1
    assert sum(file.stat().st_size for file in tmp_path.glob("*/part-*")) < size / 10


def test_a_spool_of_texts_from_an_earlier_version_is_read(
    spark: SparkSession, lake: Catalog, made: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE lake.{made} AS SELECT 1 AS id, 1.50 AS price")
    source = source_of(lake, made, tmp_path)
    batch = planned(source)
    [split] = batch.splits
    [typed] = read(source, batch)
    file = tmp_path / split.body["spool"] / split.body["part"]
    older = with_text(typed).drop_columns([SCHEMA])
    pa.parquet.write_table(older.set_column(0, EVENT, older[EVENT].cast(pa.string())), file)
    [rows] = read(source, batch)
    assert rows.drop_columns([TYPED] if is_typed(rows) else []).equals(with_text(typed).select(rows.column_names))
    assert rows[EVENT].to_pylist() == [b'{"id":1,"price":"1.50"}']
