"""Variants from events to readers: Spark without Calve, and DuckDB, on the same tables."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from kit.readers import PlainSpark
from kit.running import Calve

pytestmark = pytest.mark.spark

SINK = """
    - iceberg:
        table_identifier: db.{mode}
        write_mode: {mode}
        auto_create: true
        operation: ${{/op}}
        exclude_keys: [op]
        identifier_columns: [id]
        table_properties: {{format-version: "3"}}
        schema:
          columns:
            - {{name: id, type: long, required: true}}
            - {{name: v, type: variant}}
            - {{name: s, type: "struct<a: variant, n: int>"}}
"""
MODES = ("equality-delete", "merge-on-read", "copy-on-write")
YAML = "p:\n  source: {file: {path: in/*.ndjson}}\n  sink:" + "".join(SINK.format(mode=mode) for mode in MODES)
EDGES = [
    "null", "-0.0", "12345678901234567890.123", "1.10", "1e300", "-9223372036854775808", "18446744073709551616", '"é😀"', "[]", "{}",
    '{"é":1,"a":{"b":[null,{"c":"x"}]},"":true}', "99999999999999999999999999999999999999", "1e-38", '"' + "y" * 70_000 + '"',
]  # fmt: skip
COUNT = 150


def json_text(rng: random.Random, depth: int = 0) -> str:
    """A random JSON value."""
    kind = rng.randrange(9 if depth < 4 else 7)
    if kind < 2:
        return str(rng.randint(-(10 ** rng.randint(1, 20)), 10 ** rng.randint(1, 20)))
    if kind == 2:
        return f"{rng.randint(-999, 999)}.{rng.randint(0, 10**12)}"
    if kind == 3:
        return repr(rng.gauss(0, 1) * 10.0 ** rng.randint(-200, 200))
    if kind == 4:
        return json.dumps("".join(rng.choices('ab"\\\n é😀', k=rng.randint(0, 90))))
    if kind < 7:
        return rng.choice(["true", "false", "null"])
    items = [json_text(rng, depth + 1) for _ in range(rng.randint(0, 5))]
    if kind == 7:
        return "[" + ",".join(items) + "]"
    return "{" + ",".join(f'"{rng.choice("abcdefé")}":{item}' for item in items) + "}"


def plain(text: str | None) -> Any:
    """A JSON value as something to compare: numbers by what they are, the last of repeated keys."""
    return None if text is None else json.loads(text, parse_int=Decimal, parse_float=Decimal)


VALUES = [*EDGES, *(json_text(random.Random(seed)) for seed in range(COUNT))]
GONE, CHANGED = 3, {0: '{"now":[]}', 5: "null", 7: '"text"'}


@pytest.fixture(scope="module")
def calve(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Calve:
    """Three tables of the same rows, of which some were changed and one deleted, in the three ways to do that."""
    calve = Calve(tmp_path_factory.mktemp("variant"), YAML, spark)
    folder = calve.folder / "in"
    folder.mkdir()
    lines = [f'{{"op":"insert","id":{number},"v":{value},"s":{{"a":{value}}}}}' for number, value in enumerate(VALUES)]
    lines += [f'{{"op":"insert","id":{len(VALUES)}}}', f'{{"op":"insert","id":{len(VALUES) + 1},"v":[1e999]}}']
    (folder / "1.ndjson").write_text("\n".join(lines))
    assert calve.once() == 0, calve.said()[-3000:]
    changes = [f'{{"op":"update","id":{number},"v":{value}}}' for number, value in CHANGED.items()]
    (folder / "2.ndjson").write_text("\n".join([*changes, f'{{"op":"delete","id":{GONE}}}']))
    assert calve.once() == 0, calve.said()[-3000:]
    return calve


QUERY = """
SELECT '{mode}', id, to_json(v), to_json(s.a), v IS NULL, schema_of_variant(v), variant_get(v, '$.a.b[1].c', 'string')
FROM lakehouse.db.`{mode}`
"""


def expected() -> dict[int, Any]:
    found = {number: plain(CHANGED.get(number, value)) for number, value in enumerate(VALUES) if number != GONE}
    return found | {len(VALUES): None, len(VALUES) + 1: None}


def test_spark_without_calve_reads_what_the_events_said_whatever_the_write_mode(
    calve: Calve, plain_spark: PlainSpark
) -> None:
    query = " UNION ALL ".join(QUERY.format(mode=mode) for mode in MODES)
    [rows] = plain_spark(calve.folder / "lakehouse", [query])
    untouched = {number: plain(value) for number, value in enumerate(VALUES) if number not in (*CHANGED, GONE)}
    for mode in MODES:
        mine = {row[1]: row[2:] for row in rows if row[0] == mode}
        assert {number: plain(row[0]) for number, row in mine.items()} == expected()
        assert {number: plain(mine[number][1]) for number in untouched} == untouched
        assert [number for number, row in mine.items() if row[2]] == [len(VALUES), len(VALUES) + 1]
        assert [mine[number][3] for number in (2, 11)] == ["DECIMAL(23,3)", "DECIMAL(38,0)"]
        assert mine[10][4] == "x"


def test_duckdb_reads_the_files_as_variants(calve: Calve) -> None:
    files = str(calve.folder / "lakehouse/db/equality-delete/data/*.parquet")
    sql = (
        f"SELECT id, variant_typeof(v), v::JSON::VARCHAR FROM read_parquet('{files}', union_by_name=true) WHERE id = 10"
    )
    [(_, kind, text)] = duckdb.connect().execute(sql).fetchall()
    assert kind.startswith("OBJECT")
    assert plain(text) == plain(VALUES[10])


def test_a_number_that_no_variant_holds_is_counted(calve: Calve) -> None:
    tables = calve.status("p")["tables"]
    assert [tables[f"db.{mode}"]["nulled"] for mode in MODES] == [{"v": 1}] * 3
