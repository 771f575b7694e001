from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StructType
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog
from calve.table.ddl import add_columns, create_table
from calve.table.definition import schema_from_columns

TYPES = {
    "long": "bigint",
    "int": "int",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    "decimal(9,2)": "decimal(9, 2)",
    "uuid": "uuid",
    "variant": "variant",
    "unknown": "void",
    "struct<v: variant>": "struct<v: variant>",
    "list<long>": "array<bigint>",
    "map<string, struct<a: long required>>": "map<string, struct<a: bigint NOT NULL>>",
}


def test_types_have_the_names_of_spark() -> None:
    columns = [{"name": f"c{number}", "type": kind} for number, kind in enumerate(TYPES)]
    lines = create_table("c.n.t", schema_from_columns(columns)).splitlines()[1:-1]
    assert [line.strip().rstrip(",") for line in lines] == [
        f"c{number} {kind}" for number, kind in enumerate(TYPES.values())
    ]


def test_columns_have_their_descriptions() -> None:
    inner = StructType(NestedField(2, "x", LongType(), doc="X"))
    schema = Schema(NestedField(1, "a", inner, required=True, doc="of\na"), NestedField(3, "b", LongType()))
    lines = create_table("c.n.t", schema).partition("(")[2]
    assert lines == "\n  a struct<x: bigint COMMENT 'X'> NOT NULL COMMENT 'of\na',\n  b bigint\n) USING iceberg;"


def test_odd_names_and_texts_are_quoted() -> None:
    columns = [{"name": "a`b\n", "type": "int", "required": True}]
    made = create_table("c.n-1.t", schema_from_columns(columns), [("a-b", "identity")], {"k": "it's"}, "/l")
    assert made == (
        "CREATE TABLE c.`n-1`.t (\n  `a``b\\n` int NOT NULL\n) USING iceberg\n"
        "PARTITIONED BY (`a-b`)\nLOCATION '/l'\nTBLPROPERTIES ('k' = 'it\\'s');"
    )


def test_added_columns_are_named_by_their_paths() -> None:
    struct = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long", "doc": "X"}]}
    struct["fields"][0]["write-default"] = 7
    added = [
        ((), "n", "long", "it's", 5),
        ((), "v", "variant", "", None),
        (("s", "element"), "two words", struct, "", None),
    ]
    assert add_columns("c.n.t", added) == (
        "-- Calve also sets defaults, for which Iceberg has no Spark SQL: n 5, s.element.`two words`.x 7\n"
        "ALTER TABLE c.n.t ADD COLUMNS (\n  n bigint COMMENT 'it\\'s',\n  v variant,\n  s.element.`two words` struct<x: bigint COMMENT 'X'>\n);"
    )


@pytest.mark.spark
def test_spark_runs_the_statements_for_columns_with_defaults(spark: SparkSession, lake: Catalog) -> None:
    columns = [{"name": "id", "type": "long"}, {"name": "s", "type": "string default 'it''s'", "required": True}]
    create = create_table("lake.db.with_defaults", schema_from_columns(columns), properties={"format-version": "3"})
    for statement in (create, add_columns("lake.db.with_defaults", [((), "n", "int", "", 5)])):
        spark.sql(statement.removesuffix(";"))
    assert spark.table("lake.db.with_defaults").columns == ["id", "s", "n"]
