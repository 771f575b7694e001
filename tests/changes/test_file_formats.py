"""Iceberg's generic reader has the rows of Spark's, whatever the format of the files; deletes are those by position."""

from __future__ import annotations

import json
from functools import partial

import pytest
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog
from calve.changes.plan import Planner
from calve.changes.table_changes import TableChanges
from calve.engine import session

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("file_format", ["avro", "orc"])
def test_rows_of_all_formats_are_those_of_spark(spark: SparkSession, lake: Catalog, file_format: str) -> None:
    name = f"lake.db.in_{file_format}"
    nested = "l ARRAY<STRUCT<x: DATE, b: BINARY>>, m MAP<STRING, DOUBLE>"
    columns = f"id INT, d DECIMAL(38, 3), at TIMESTAMP, {nested}, f FLOAT"
    properties = f"'format-version'='2', 'write.format.default'='{file_format}', 'write.delete.mode'='merge-on-read'"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING iceberg PARTITIONED BY (f) TBLPROPERTIES ({properties})")
    row = (
        "CAST('-12345678901234567890.125' AS DECIMAL(38, 3)), TIMESTAMP'1582-10-04 00:00:00.000001', "
        "array(named_struct('x', DATE'0001-01-01', 'b', X'00FF'), NULL)"
    )
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, {row}, map('a', -0.0D, 'b', NULL), 1.5F FROM range(3)")
    spark.sql(f"INSERT INTO {name} (id) VALUES (7)")
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    changes = TableChanges(
        Planner(session.start()), f"db.in_{file_format}", partial(lake.load_java, f"db.in_{file_format}")
    )
    by_spark = [sorted(changes.lines(step)) for step in changes.steps()]
    assert [len(lines) for lines in by_spark] == [3, 1, 1]
    assert changes.read_by_iceberg()
    assert [sorted(changes.lines(step)) for step in changes.steps()] == by_spark
    assert json.loads(by_spark[2][0])["metadata"]["iceberg_operation"] == "DELETE"
