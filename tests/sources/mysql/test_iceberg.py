"""Tables of MySQL into Iceberg tables, by the command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

import pytest

from kit.running import Calve
from services.mysql import PASSWORD, MySql

pytestmark = [pytest.mark.services, pytest.mark.spark]

YAML = """
shop:
  source:
    mysql:
      host: 127.0.0.1
      port: {port}
      username: {user}
      password: "{password}"
      allow_cleartext_password: true
      tables: {{include: ["shop.*"]}}
  sink:
    - iceberg:
        table_identifier: "lake.${{getMetadata(\\"table_name\\")}}"
        auto_create: true
        schema_evolution: true
"""


TABLES = (
    "create table t (id int primary key, n int, price decimal(9,2), at datetime(6), old text)",
    "insert into t values (1, 1, 1.25, '2024-01-02 03:04:05.6', 'x'), (2, 2, null, '0000-00-00', 'x'), (3, 3, 3, null, '')",
    "create table no_key (a int)",
    "create table float_key (f double primary key)",
    "create table slow (a int primary key) engine = myisam",
    "create table child (a int primary key, t int, foreign key (t) references t (id) on delete cascade)",
    f"create user reader identified by '{PASSWORD}'",
    "grant select on shop.t to reader",
    "grant insert on shop.no_key to reader",
)
FIRST_MISSING = (
    "the server does not describe columns in its log (binlog_row_metadata is MINIMAL)",
    "binlog_row_image is MINIMAL, not FULL",
    "SET GLOBAL binlog_row_image = 'FULL'",
    "GRANT REPLICATION CLIENT, REPLICATION SLAVE, RELOAD ON *.* TO 'reader'@'%'",
    "GRANT SELECT ON `shop`.`no_key` TO 'reader'@'%'",
    "shop.no_key has no primary key",
)
THEN_MISSING = (
    "shop.float_key has the column f in its key, a double, which cannot be a key in Iceberg",
    "shop.slow has the engine MyISAM",
    "the foreign key child_ibfk_1 of shop.child changes rows without a trace in the log",
)
CHANGES = (
    "update t set n = n + 1, price = 2.5 where id = 1",
    "update t set id = 30 where id = 3",
    "alter table t add column extra json, rename column old to new, modify n bigint",
    "insert into t values (4, 9000000000, 4, '9999-12-31 23:59:59.999999', 'y', '{\"a\": [1]}')",
    "begin",
    "delete from t",
    "rollback",
    "delete from t where id = 2",
)
ROWS = [
    (1, 2, Decimal("2.50"), "2024-01-02 03:04:05.600000", "x", None),
    (4, 9000000000, Decimal("4.00"), "9999-12-31 23:59:59.999999", "y", '{"a": [1]}'),
    (30, 3, Decimal("3.00"), "None", "", None),
]


def test_tables_are_loaded_and_followed_and_what_is_missing_is_told_with_its_sql(calve: Callable[..., Calve]) -> None:
    options = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF", "binlog_row_metadata": "MINIMAL"}
    with MySql(**options, binlog_row_image="MINIMAL") as server:
        server.create_database("shop")
        server.run(*TABLES, database="shop")
        yaml = YAML.format(port=server.port, user="reader", password=PASSWORD)
        running = calve(yaml)
        _tells(running, FIRST_MISSING)
        server.run("set global binlog_row_image = 'FULL'", "grant select on *.* to reader")
        _tells(running, THEN_MISSING)
        server.run("grant replication client, replication slave, reload on *.* to reader")
        server.run("drop table no_key, float_key, slow, child", database="shop")
        assert running.once() == 0, running.said()[-4000:]
        server.run(*CHANGES, database="shop")
        assert running.once() == 0, running.said()[-4000:]
        assert "shop.t: at is written as text" in running.said()
        found = running.shared_spark().table("lakehouse.lake.t").toArrow().to_pylist()
        rows = [(row["id"], row["n"], row["price"], str(row["at"]), row["new"], row["extra"]) for row in found]
        assert sorted(rows) == ROWS
        assert running.status("shop")["source"].startswith("binary log bin.000001: ")
        server.run("flush binary logs", "reset master", "insert into t (id) values (5)", database="shop")
        assert running.once() == 1
        assert "it was reset" in running.said()
        running.configure(yaml.replace("username", "on_lost_position: reload\n      username"))
        server.run(
            "flush binary logs", "delete from t where id = 1", "update t set n = 7 where id = 5", database="shop"
        )
        assert running.once() == 0, running.said()[-4000:]
        found = running.shared_spark().table("lakehouse.lake.t").toArrow().to_pylist()
        assert sorted((row["id"], row["n"]) for row in found) == [(4, 9000000000), (5, 7), (30, 3)]


def _tells(running: Calve, expected: Iterable[str]) -> None:
    said = running.call("validate", "--connect", "pipelines.yaml").output
    assert [text for text in expected if text not in said] == [], said
