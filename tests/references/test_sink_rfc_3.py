"""Section 3 of the RFC of the iceberg sink: each example that it describes, run to its last row."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kit.running import Calve, post, until
from services.postgres import PASSWORD, Postgres
from services.process import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.services]

YAML = """
# Append-only: HTTP source to Iceberg, an existing table
append-only:
  source:
    http: {{port: {port}}}
  sink:
    - iceberg:
        table_identifier: "logs.events"
        flush_interval: "PT1S"
        commit_interval: "PT1S"
# Row-level changes: RDS source to Iceberg (multi-table)
row-level-changes:
  source:
    rds:
      host: 127.0.0.1
      port: {database_port}
      engine: postgresql
      database: shop
      authentication: {{username: postgres, password: "{password}"}}
      tls: {{insecure: true}}
  sink:
    - iceberg:
        table_identifier: "shop.${{getMetadata(\\"table_name\\")}}"
        operation: "${{getMetadata(\\"change_event_type\\")}}"
        auto_create: true
        flush_interval: "PT1S"
        commit_interval: "PT1S"
# Several sinks with static names, each with the events of its route
static-tables:
  source:
    file: {{path: "events.ndjson"}}
  route:
    - orders: '/kind == "order"'
    - visits: '/kind == "visit"'
  sink:
    - iceberg: {{table_identifier: "static.orders", routes: [orders], auto_create: true}}
    - iceberg: {{table_identifier: "static.visits", routes: [visits], auto_create: true}}
# A table from a definition in the YAML
defined:
  source:
    file: {{path: "events.ndjson"}}
  sink:
    - iceberg:
        table_identifier: "made.defined"
        auto_create: true
        schema:
          columns:
            - {{name: id, type: long, required: true}}
            - {{name: kind, type: string}}
            - {{name: at, type: timestamptz}}
          partition_spec:
            - {{column: at, transform: day}}
            - {{column: id, transform: "bucket[16]"}}
        table_properties: {{format-version: "2", write.parquet.compression-codec: zstd}}
# A table from the events
inferred:
  source:
    file: {{path: "events.ndjson"}}
  sink:
    - iceberg: {{table_identifier: "made.inferred", auto_create: true}}
"""
EVENTS: list[dict[str, Any]] = [
    {"id": 1, "kind": "order", "at": "2026-04-22T14:00:00Z", "in": {"a": 1}, "tags": ["x"], "ok": True, "price": 1.5},
    {"id": 2, "kind": "visit", "at": "2026-04-23T14:00:00Z", "in": {"a": 2}, "tags": [], "ok": False, "price": 2.5},
]
LOADED = ("create table orders (id int primary key, n int)", "insert into orders values (1, 1), (2, 2), (3, 3)")
CHANGED = (
    "update orders set n = 20 where id = 2",
    "delete from orders where id = 3",
    "create table customers (id int primary key, name text)",
    "insert into customers values (7, 'Ada')",
)


def test_each_example_writes_its_rows(calve: Callable[..., Calve]) -> None:
    [port] = free_ports(1)
    with Postgres() as server:
        server.run(*LOADED, database=server.create_database("shop"))
        running = calve(YAML.format(port=port, database_port=server.port, password=PASSWORD))
        (running.folder / "events.ndjson").write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
        (running.folder / "lakehouse").mkdir()
        running.shared_spark().sql("create namespace lakehouse.logs")
        running.shared_spark().sql("create table lakehouse.logs.events (id bigint, kind string)")
        with running.running():
            until(
                lambda: rows(running, "shop.orders") == [(1, 1), (2, 2), (3, 3)], "the rows of the database are there"
            )
            changed_at = datetime.now(UTC)
            server.run(*CHANGED, database="shop")
            until(lambda: post(port, EVENTS) == 200, "the http source listens")
            until(lambda: rows(running, "shop.customers") == [(7, "Ada")], "the row of a new table is there")
        assert rows(running, "shop.orders") == [(1, 1), (2, 20)]
        snapshot = running.catalog().load_table("shop.orders").current_snapshot()
        assert snapshot is not None
        through = str((snapshot.summary or {})["calve.valid-through"])
        assert changed_at <= datetime.fromisoformat(through) <= datetime.now(UTC), (
            "the time of the commit in the database"
        )
    assert rows(running, "logs.events") == [(1, "order"), (2, "visit")]
    assert [rows(running, f"static.{name}")[0][0] for name in ("orders", "visits")] == [1, 2]
    assert [row[:2] for row in rows(running, "made.defined")] == [(1, "order"), (2, "visit")]
    defined = running.catalog().load_table("made.defined")
    assert [str(field.transform) for field in defined.spec().fields] == ["day", "bucket[16]"]
    assert defined.properties["write.parquet.compression-codec"] == "zstd"
    inferred = {
        field.name: str(field.field_type) for field in running.catalog().load_table("made.inferred").schema().fields
    }
    assert inferred["id"] == "long"
    assert (inferred["ok"], inferred["price"], inferred["at"]) == ("boolean", "double", "timestamptz")
    assert inferred["in"].startswith("struct")
    assert inferred["tags"] == "list<string>"
    assert [
        letter for name in ("append-only", "row-level-changes", "defined") for letter in running.dead_letters(name)
    ] == []


def rows(running: Calve, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table, in their order; none if it does not exist yet."""
    spark = running.shared_spark()
    if not spark.catalog.tableExists(f"lakehouse.{table}"):
        return []
    return sorted(tuple(row) for row in spark.table(f"lakehouse.{table}").collect())
