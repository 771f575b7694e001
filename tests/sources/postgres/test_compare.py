"""Tables that changed without a trace are compared with their Iceberg tables: only the rows that differ are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from calve.stop_point import VARIABLE
from kit.running import Calve
from services.postgres import PASSWORD, Postgres

pytestmark = [pytest.mark.services, pytest.mark.spark]

ROWS = 50
POINTS = ("pipeline.after-apart", "reload.after-begun", "pipeline.after-compare")
"""Where it is killed, each time between two durable steps."""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


def configured(server: Postgres, database: str, sink: dict[str, Any], more: dict[str, Any] | None = None) -> str:
    source = {
        "host": "127.0.0.1",
        "port": server.port,
        "database": database,
        "username": "postgres",
        "password": PASSWORD,
        "slot": f"slot_{database}",
    }
    iceberg = {"table_identifier": 'shop.${getMetadata("table_name")}', "auto_create": True, "schema_evolution": True}
    sinks = [{"iceberg": {**iceberg, **sink}}]
    return json.dumps({"shop": {"source": {"postgres": {**source, **(more or {})}}, "sink": sinks}})


def once(running: Calve, code: int = 0) -> str:
    """Run to the end of what is there; give what was said."""
    before = len(running.said())
    assert running.once() == code, running.said()[-4000:]
    return running.said()[before:]


def rows(running: Calve, table: str) -> list[dict[str, Any]]:
    found = running.shared_spark().table(f"lakehouse.shop.{table}").toArrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def same(running: Calve, server: Postgres, database: str, table: str) -> bool:
    expected = server.run(f"select row_to_json(t) from {table} t order by id", database=database)
    return rows(running, table) == [json.loads(row[0] or "") for row in expected]


def kept_rows(running: Calve, table: str) -> int:
    """Give how many rows the table had at least, in all of its snapshots after the first one with rows."""
    name = f"lakehouse.shop.{table}"
    sql = f"select s.summary from {name}.history h join {name}.snapshots s using (snapshot_id) where h.is_current_ancestor"
    return min(int(row["summary"]["total-records"]) for row in running.shared_spark().sql(sql).collect())


@pytest.mark.parametrize("mode", ["equality-delete", "merge-on-read", "copy-on-write"])
def test_only_rows_that_differ_are_written_and_the_table_is_never_empty(
    server: Postgres, calve: Callable[..., Calve], mode: str
) -> None:
    database = server.create_database(f"compare_{mode.replace('-', '_')}")
    server.run(
        "create table t (id int primary key, n int, f float8, gone int)",
        f"insert into t select g, g, 0, 1 from generate_series(1, {ROWS}) g",
        "create table parted (id int primary key, n int) partition by range (id)",
        "create table parted_1 partition of parted for values from (0) to (10)",
        "create table parted_2 partition of parted for values from (10) to (20)",
        "insert into parted values (1, 1), (11, 2)",
        "create table other (id int primary key)",
        database=database,
    )
    running = calve(configured(server, database, {"write_mode": mode, "metadata_columns": {"_lsn": "lsn"}}))
    once(running)
    server.run(
        "alter table t drop gone",
        "update t set n = -1 where id = 1",
        "alter table t alter n type bigint",
        "insert into t values (1000, 1099511627776, 'NaN')",
        "truncate parted_1",
        database=database,
    )
    said = once(running)
    assert "shop.t was compared with public.t: 2 rows differed (1 new, 1 changed, 0 gone)" in said
    assert "shop.parted was compared with public.parted: 1 row differed (0 new, 0 changed, 1 gone)" in said
    found = [(row["id"], row["n"], str(row["f"])) for row in rows(running, "t")]
    assert found == [(1, -1, "0.0"), *((each, each, "0.0") for each in range(2, ROWS + 1)), (1000, 1 << 40, "nan")]
    assert [row["id"] for row in rows(running, "parted")] == [11]
    assert kept_rows(running, "t") >= ROWS
    server.run(
        "alter table t add more int default 7",
        "update t set f = '-0' where id = 2",
        "insert into other values (1)",
        database=database,
    )
    said = once(running)
    assert f"shop.t was compared with public.t: {ROWS + 1} rows differed (0 new, {ROWS + 1} changed, 0 gone)" in said
    assert {row["more"] for row in rows(running, "t")} == {7}
    assert str(rows(running, "t")[1]["f"]) == "-0.0"
    branches = running.shared_spark().sql("select name from lakehouse.shop.t.refs").collect()
    assert [row["name"] for row in branches] == ["main"]


def test_a_comparison_that_is_killed_between_any_two_steps_is_made_once(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("compare_killed")
    server.run(
        "create table t (id int primary key, n int)",
        f"insert into t select g, g from generate_series(1, {ROWS}) g",
        database=database,
    )
    running = calve(configured(server, database, {}))
    once(running)
    server.run("alter table t add a int default 5", "insert into t values (100, 1)", database=database)
    for number, point in enumerate(POINTS):
        server.run(
            f"insert into t values ({1000 + number}, 1)", f"delete from t where id = {number}", database=database
        )
        assert running.start("--once", environment={VARIABLE: f"{point}:1"}).wait(240) == -9
    once(running)
    assert same(running, server, database, "t")
    assert kept_rows(running, "t") >= ROWS


def test_a_target_with_rows_of_others_is_not_compared_and_the_reason_is_said(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("compare_shared")
    for name in ("one", "two"):
        server.run(f"create table {name} (id int primary key)", f"insert into {name} values (1)", database=database)
    running = calve(configured(server, database, {"table_identifier": "shop.all"}, {"merge_tables": True}))
    once(running)
    server.run("alter table one add a int default 5", database=database)
    said = once(running, 1)
    assert "public.one is stopped, and the other tables go on: it changed without a trace in the log, and its" in said
    assert "its target has rows of other tables" in said
    assert "reads public.one again" not in once(running, 1)
