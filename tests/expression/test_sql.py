"""Whatever a name or a text holds, DuckDB and Spark read it as it is."""

from __future__ import annotations

import duckdb
import pytest
from pyspark.sql import SparkSession

from calve.expression.sql import duckdb_name, duckdb_text, spark_name, spark_text

TEXTS = [
    "",
    "plain",
    "it's",
    "''",
    "a\\'b",
    "\\",
    "\\n",
    'say "x"',
    "`",
    "a.b",
    "é 😀",
    "line\nbreak",
    "-- no comment",
    "${x}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_duckdb_reads_a_text_and_a_name_as_they_are(text: str) -> None:
    assert duckdb.sql(f"SELECT {duckdb_text(text)}").fetchall() == [(text,)]
    if text:
        assert duckdb.sql(f"SELECT 1 AS {duckdb_name(text)}").columns == [text]


@pytest.mark.spark
def test_spark_reads_a_text_and_a_name_as_they_are(spark: SparkSession) -> None:
    texts = [text for text in TEXTS if "${" not in text]  # Spark puts variables into statements
    assert list(spark.sql(f"SELECT {', '.join(map(spark_text, texts))}").collect()[0]) == texts
    names = [name for name in texts if name]
    frame = spark.createDataFrame(
        [(tuple(range(len(names))),)], "s struct<" + ",".join(f"{spark_name(name)}: int" for name in names) + ">"
    )
    found = frame.selectExpr(*(spark_name("s", name) for name in names))
    assert list(found.collect()[0]) == list(range(len(names)))


def test_a_path_is_quoted_name_by_name() -> None:
    assert spark_name("a", "b.c", "d`e") == "`a`.`b.c`.`d``e`"
