"""Rows of typed sources keep their types and values on the whole way; PyIceberg and a plain Spark read the tables."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from kit.readers import PlainSpark

pytestmark = pytest.mark.spark

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
LONG = 2**53 + 1
FIRST = {
    "kind": pa.array(["a", "b", "b"]),
    "id": pa.array([1, 2, 3], pa.int32()),
    "long": pa.array([LONG, -(2**63), None], pa.int64()),
    "unsigned": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "float": pa.array([0.1, math.nan, None], pa.float32()),
    "double": pa.array([-0.0, -math.inf, None], pa.float64()),
    "price": pa.array([Decimal("1.50"), Decimal("-0.01"), None], pa.decimal128(9, 2)),
    "exact": pa.array([Decimal("1234567890123456789012345678.0123456789"), 0, None], pa.decimal128(38, 10)),
    "bytes": pa.array([b"\x00\xff", b"", None], pa.binary()),
    "fixed": pa.array([b"abcd", b"\0\0\0\0", None], pa.binary(4)),
    "day": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None], pa.date32()),
    "local": pa.array([MOMENT, dt.datetime(1, 1, 1), None], pa.timestamp("us")),
    "instant": pa.array([1_767_323_045_678, 0, None]).cast(pa.timestamp("ms", "Europe/Berlin")),
    "nanos": pa.array([1, 1_000, None], pa.int64()).cast(pa.timestamp("ns")),
    "category": pa.array(["x", "y", None]).dictionary_encode(),
    "nested": pa.array(
        [{"at": [MOMENT, None], "of": [(1, Decimal("0.5"))], "nan": math.nan}, {"at": [], "of": [], "nan": None}, None],
        pa.struct(
            [
                ("at", pa.list_(pa.timestamp("us", "UTC"))),
                ("of", pa.map_(pa.int32(), pa.decimal128(5, 1))),
                ("nan", pa.float64()),
            ]
        ),
    ),
}
TYPES = {
    "kind": "string",
    "id": "int",
    "long": "long",
    "unsigned": "decimal(20, 0)",
    "float": "float",
    "double": "double",
    "price": "decimal(9, 2)",
    "exact": "decimal(38, 10)",
    "bytes": "binary",
    "fixed": "fixed[4]",
    "day": "date",
    "local": "timestamp",
    "instant": "timestamptz",
    "nanos": "string",
    "category": "string",
}
TYPED = """
typed:
  source:
    file: {{path: "{folder}/*.parquet"}}
  sink:
    - iceberg: {{table_identifier: x.typed, auto_create: true, schema_evolution: true}}
"""
SPARKS = [
    1,
    "18446744073709551615",
    "0.1",
    "-0.0",
    "1234567890123456789012345678.0123456789",
    "00FF",
    "61626364",
    "0001-01-01",
    "2026-01-02 03:04:05.678901",
    "2026-01-02 03:04:05.678",
    "1970-01-01T00:00:00.000000001",
    '{"at":["2026-01-02T03:04:05.678Z",null],"of":{"1":0.5},"nan":"NaN"}',
]
"""The first row, as Spark shows it."""
DIVIDED = """
divided:
  source:
    iceberg: {tables: [{table_name: x.typed}]}
  sink:
    - iceberg: {table_identifier: "kept.${/kind}", auto_create: true}
"""


def types(table: pa.Table | object) -> dict[str, str]:
    return {each.name: str(each.field_type) for each in table.schema().fields}


def test_parquets_types_and_values_are_those_of_its_table_and_of_the_tables_made_from_that(
    tmp_path: Path, plain_spark: PlainSpark, calve
) -> None:
    pipeline = calve(TYPED.format(folder=tmp_path))
    parquet.write_table(pa.table(FIRST), tmp_path / "1.parquet")
    assert pipeline.once() == 0
    _is_first(pipeline, "x.typed", FIRST)
    pipeline.configure(DIVIDED)
    assert pipeline.once() == 0
    _is_first(pipeline, "kept.b", {name: column[1:] for name, column in FIRST.items()})
    query = (
        "SELECT id, string(unsigned), string(float), string(double), string(exact), hex(bytes), hex(fixed), string(day),"
        " string(local), string(instant), nanos, to_json(nested)"
    )
    lakehouse, names = pipeline.folder / "lakehouse", ("x.typed", "kept.a", "kept.b")
    asked = [f"{query} FROM lakehouse.{name} WHERE id < 3 ORDER BY id" for name in names]
    whole, *divided = plain_spark(lakehouse, asked)
    assert whole == [row for rows in divided for row in rows]
    assert whole[0] == SPARKS


def _is_first(pipeline, name: str, expected: dict[str, pa.Array]) -> None:
    table = pipeline.catalog().load_table(name)
    assert {**types(table), "nested": ""} == {**TYPES, "nested": ""}
    nested = str(table.schema().find_type("nested"))
    assert [kind in nested for kind in ("list<timestamptz>", "map<int, decimal(5, 1)>", "optional double")] == [
        True
    ] * 3
    found = table.scan().to_arrow().sort_by("id")
    for column, values in expected.items():
        if column != "nanos":
            kind = found[column].type
            assert repr(found[column].to_pylist()) == repr(values.cast(kind).to_pylist()), column


def test_a_later_file_of_wider_types_widens_the_columns(tmp_path: Path, calve) -> None:
    pipeline = calve(TYPED.format(folder=tmp_path))
    narrow = {
        "i": pa.array([1], pa.int32()),
        "f": pa.array([0.5], pa.float32()),
        "d": pa.array([1], pa.decimal128(9, 2)),
    }
    wide = {
        "i": pa.array([LONG]),
        "f": pa.array([0.1]),
        "d": pa.array([10**9], pa.decimal128(12, 2)),
        "new": pa.array([1], pa.date32()),
    }
    for number, columns in enumerate((narrow, wide)):
        parquet.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
        assert pipeline.once() == 0
    table = pipeline.catalog().load_table("x.typed")
    assert types(table) == {"i": "long", "f": "double", "d": "decimal(12, 2)", "new": "date"}
    found = table.scan().to_arrow().sort_by("i")
    assert found.to_pydict() == {
        "i": [1, LONG],
        "f": [0.5, 0.1],
        "d": [Decimal(1), Decimal(10**9)],
        "new": [None, dt.date(1970, 1, 2)],
    }
