"""Mirrors of tables without a key have the rows of `SELECT *`, each as often as there, wherever a commit died."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kit.examples import examples
from kit.running import Calve
from services.mysql import PASSWORD, MySql
from services.postgres import PASSWORD as POSTGRES_PASSWORD
from services.postgres import Postgres

pytestmark = [pytest.mark.services, pytest.mark.spark]

SINK = """
  sink:
    - iceberg:
        table_identifier: "lake.${getMetadata(\\"table_name\\")}"
        auto_create: true
        schema_evolution: true
        table_properties: {format-version: "VERSION"}
"""
POSTGRES = """
p:
  source:
    postgres: {{host: 127.0.0.1, port: {port}, database: logs, username: postgres, password: "{password}", slot: s, no_key: mirror}}
"""
MYSQL = """
p:
  source:
    mysql:
      host: 127.0.0.1
      port: {port}
      username: root
      password: "{password}"
      allow_cleartext_password: true
      tables: {{include: ["logs.*"]}}
      no_key: mirror
"""
VALUES = {
    "a": ["NULL", "0", "1", "2"],
    "f": ["NULL", "0.0", "-0.0", "2.5"],
    "s": ["NULL", "''", "'x'", "'NULL'", "repeat('y', 3000)"],
}


@pytest.fixture(scope="module", params=["postgres", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[Postgres | MySql]:
    with Postgres() if request.param == "postgres" else MySql() as running:
        running.create_database("logs")
        yield running


def statement(chosen: random.Random, kind: str) -> str:
    """Return a statement that changes some rows, of equal ones perhaps only one."""
    column = chosen.choice(list(VALUES))
    value = chosen.choice(VALUES[column])
    where = f"{column} is null" if value == "NULL" else f"{column} = {value}"
    other = chosen.choice(list(VALUES))
    match chosen.choice(("insert", "insert", "update", "delete", "one")):
        case "insert":
            rows = [f"({', '.join(chosen.choice(values) for values in VALUES.values())})" for _ in range(6)]
            return f"insert into t values {', '.join(rows)}"
        case "update":
            return f"update t set {other} = {chosen.choice(VALUES[other])} where {where}"
        case "delete":
            return f"delete from t where {where}"
        case _ if kind == "mysql":
            return f"delete from t where {where} limit 1"
        case _:
            return f"delete from t where ctid = (select min(ctid) from t where {where})"


def test_a_mirror_has_the_rows_of_its_table_as_often_as_they_are_there(
    server: Postgres | MySql, calve: Callable[..., Calve]
) -> None:
    is_postgres = isinstance(server, Postgres)
    kind, chosen = ("postgres" if is_postgres else "mysql"), random.Random(len(VALUES))
    server.run(
        "create table t (a int, f float8, s text)" if is_postgres else "create table t (a int, f double, s text)",
        database="logs",
    )
    if is_postgres:
        server.run("alter table t replica identity full", database="logs")
    server.run(*(statement(chosen, kind) for _ in range(4)), database="logs")
    yaml = (POSTGRES if is_postgres else MYSQL).format(
        port=server.port, password=POSTGRES_PASSWORD if is_postgres else PASSWORD
    )
    running = calve(yaml + SINK.replace("VERSION", "3" if is_postgres else "2"))
    for number in range(2 * examples(1)):
        if number % 2 and is_postgres:  # a slot moves with what is read, a log does not
            assert running.once(CALVE_STOP_AT="commit.before-swap") != 0
        elif number % 2:
            running.killed_at("commit.after-swap")
        assert running.once() == 0, running.said()[-3000:]
        assert "are not there" not in running.said()
        assert in_lake(running) == in_database(server), number
        server.run(*(statement(chosen, kind) for _ in range(8)), database="logs")


def in_database(server: Postgres | MySql) -> Counter[Any]:
    rows = server.run("select a, f, s from t", database="logs")
    return Counter((row[0] and int(row[0]), row[1] and repr(float(row[1])), row[2]) for row in rows)


def in_lake(running: Calve) -> Counter[Any]:
    rows = running.catalog().load_table("lake.t").scan().to_arrow().to_pylist()
    return Counter((row["a"], None if row["f"] is None else repr(row["f"]), row["s"]) for row in rows)
