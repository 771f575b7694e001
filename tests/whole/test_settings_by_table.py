"""Tables of one sink with settings of their own."""

from __future__ import annotations

import json

import pytest

from kit.running import Calve

pytestmark = pytest.mark.spark

YAML = """
shop:
  source: {file: {path: "*.ndjson"}}
  sink:
    - iceberg:
        table_identifier: shop.${/t}
        auto_create: true
        tables:
          - {name: shop.orders, identifier_columns: [id], operation: "${/op}", write_mode: merge-on-read, sort_by: [n desc]}
          - {name: shop.lines, identifier_columns: [order, line], upsert: true, partition_by: ["bucket(2, order)"]}
          - {regex: "shop.l.*", branch: raw, table_properties: {owner: me}}
"""
FIRST = [
    {"t": "orders", "op": "c", "id": 1, "n": 1},
    {"t": "orders", "op": "c", "id": 2, "n": 2},
    {"t": "lines", "order": 1, "line": 1, "n": 1},
    {"t": "log", "op": "d", "n": 1},
]
SECOND = [
    {"t": "orders", "op": "d", "id": 1},
    {"t": "orders", "op": "u", "id": 2, "n": 3},
    {"t": "lines", "order": 1, "line": 1, "n": 7},
    {"t": "log", "op": "d", "n": 1},
]


def test_tables_with_different_keys_operations_and_branches_need_one_sink(calve) -> None:
    job: Calve = calve(YAML)
    for name, events in (("a", FIRST), ("b", SECOND)):
        (job.folder / f"{name}.ndjson").write_text("".join(f"{json.dumps(event)}\n" for event in events))
        assert job.once() == 0, job.said()
    assert [(row["id"], row["n"]) for row in job.rows("shop.orders").to_pylist()] == [(2, 3)], "readable by PyIceberg"
    assert job.shared_spark().table("lakehouse.shop.lines").select("n").collect() == [(7,)]
    assert job.rows("shop.log").num_rows == 0
    log = job.catalog().load_table("shop.log")
    assert log.scan(snapshot_id=log.snapshot_by_name("raw").snapshot_id).count() == 2
    assert log.properties["owner"] == "me"
    orders = job.catalog().load_table("shop.orders")
    assert [(str(field.direction), field.source_id) for field in orders.sort_order().fields] == [
        ("DESC", orders.schema().find_field("n").field_id)
    ]
    lines = job.call("validate", "pipelines.yaml", "--connect").output.splitlines()
    assert [line.partition("; ")[2] for line in lines[:3]] == ["shop.orders", "shop.lines", "shop.log"], lines
