"""What holds on each server: tables without a key are refused together or have a history, and TRUNCATE is followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from calve.errors import SourceError
from calve.sources.database import reload
from calve.sources.database.settings import DatabaseSettings
from calve.sources.mysql import source as mysql
from calve.sources.postgres import source as postgres
from calve.sources.tables import Tables
from calve.state.local_folder import LocalFolder
from fuzz.databases import Dialect
from fuzz.mysql_dialect import MysqlDialect
from fuzz.postgres_tables import PostgresDialect
from services.mysql import MARIADB, MYSQL, MySql
from services.postgres import Postgres
from sources.mysql.follow import Follower, postgres_settings, settings_of, stopped_in

pytestmark = pytest.mark.services

TYPES = {"postgres": "float8, s text", "mysql": "double, s text", "mariadb": "double, s text"}
FULL = ("alter table t replica identity full",)
ROWS = ("insert into t values (1, -0.0, 'x'), (1, 0.0, 'x'), (1, 0.0, 'x'), (null, null, null), (null, null, null)",)
CHANGES = (
    "insert into t values (1, 0.0, 'x'), (2, 2.5, repeat('y', 9000))",
    "update t set a = a + 1 where a = 2",
    "begin", "delete from t where a = 1", "rollback",
    "update t set s = 'z' where a is null",
)  # fmt: skip
ONE_GOES = {
    "postgres": "delete from t where ctid = (select min(ctid) from t where a = 1)",
    "mysql": "delete from t where a = 1 limit 1",
    "mariadb": "delete from t where a = 1 limit 1",
}


class World:
    """One server with a database for each test."""

    def __init__(self, kind: str, server: Postgres | MySql) -> None:
        self.kind, self.server = kind, server
        self.dialect: Dialect = PostgresDialect(server) if isinstance(server, Postgres) else MysqlDialect(server)

    def run(self, database: str, *statements: str) -> None:
        self.server.run(*statements, database=database)

    def settings(self, database: str, **more: Any) -> DatabaseSettings:
        tables = Tables(include=[f"{'public' if self.kind == 'postgres' else database}.t*"])
        if isinstance(self.server, Postgres):
            return postgres_settings(self.server, database, tables=tables, **more)
        return settings_of(self.server, database, tables=tables, **more)

    def create(self, database: str, *statements: str) -> None:
        self.server.create_database(database)
        self.run(database, f"create table t (a int, f {TYPES[self.kind]})", *statements)
        if self.kind == "postgres":
            self.run(database, *FULL)


@pytest.fixture(scope="module", params=["postgres", "mysql", "mariadb"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    kind: str = request.param
    with Postgres() if kind == "postgres" else MySql(MARIADB if kind == "mariadb" else MYSQL) as server:
        yield World(kind, server)


def check(world: World, database: str, follower: Follower) -> None:
    """Compare what a history says with the database."""
    expected = Counter(tuple(sorted(row.items())) for row in world.dialect.rows(database, "t"))
    text = world.dialect.text
    found = [{name: text(value) for name, value in row.items()} for row in follower.renamed("t")]
    assert Counter(tuple(sorted(row.items())) for row in found) == expected


@pytest.mark.parametrize("no_key", ["append", "mirror"])
def test_a_history_or_a_mirror_has_the_rows_of_its_table_with_duplicates_at_each_position(
    world: World, tmp_path: Path, no_key: str
) -> None:
    database = no_key[0]
    world.create(database, *ROWS)
    follower = Follower(world.settings(database, no_key=no_key), tmp_path)
    while_it_begins = ("insert into t values (7, 7, 'between')", "delete from t where s = 'x' and f = 0 and a = 1")
    follower.before_first_plan = lambda: world.run(
        database, *while_it_begins
    )  # after the first position, before the load
    follower.read()
    follower.before_first_plan = lambda: None
    follower.read()
    check(world, database, follower)
    for statements in (ROWS, CHANGES, (ONE_GOES[world.kind],), ("alter table t add n int", "update t set n = a")):
        world.run(database, *statements)
        follower.read()
        check(world, database, follower)
    if no_key == "mirror":
        assert stopped_in(tmp_path) == {}
        return
    kinds = {row["change_type"] for row in follower.histories["t"]}
    assert kinds == {"LOAD", "INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"}
    assert all((row["change_time"] is None) == (row["change_type"] == "LOAD") for row in follower.histories["t"])
    assert stopped_in(tmp_path) == {}


@pytest.mark.parametrize("no_key", ["append", "mirror"])
def test_a_load_without_a_key_that_was_interrupted_begins_again_by_itself(
    world: World, tmp_path: Path, no_key: str
) -> None:
    database = f"again_{no_key}"
    world.create(database, *ROWS)
    settings = world.settings(database, no_key=no_key)
    opened = (postgres if world.kind == "postgres" else mysql).open(settings, LocalFolder(tmp_path), "p")
    opened.start(None, True)
    opened.stop()  # before its rows were read
    world.run(database, *CHANGES, ONE_GOES[world.kind])
    follower = Follower(settings, tmp_path)
    for _ in range(2):
        follower.read()
    check(world, database, follower)
    assert stopped_in(tmp_path) == {}


def test_all_tables_without_a_key_are_named_at_once_with_what_helps(world: World, tmp_path: Path) -> None:
    world.create("named", "create table t2 (a int)", "create table t3 (f float primary key)")
    opened = postgres if world.kind == "postgres" else mysql
    schema = "public" if world.kind == "postgres" else "named"
    with pytest.raises(
        SourceError, match=f"{schema}.t, {schema}.t2 have no primary key.*no_key: mirror, or no_key: append"
    ) as refused:
        opened.check(world.settings("named"), "p")
    assert f"{schema}.t3 has the column f in its key, a" in refused.value.message
    world.run("named", "drop table t3", *(["alter table t2 replica identity full"] * (world.kind == "postgres")))
    opened.check(world.settings("named", no_key="append"), "p")


def test_a_table_that_loses_its_key_or_comes_without_one_is_stopped_and_the_application_goes_on(
    world: World, tmp_path: Path
) -> None:
    database = "lost"
    world.server.create_database(database)
    drop = "drop constraint t_pkey" if world.kind == "postgres" else "drop primary key"
    world.run(database, "create table t (id int primary key, n int)", "insert into t values (1, 1)")
    follower = Follower(world.settings(database), tmp_path)
    follower.read()
    new = "create table t2 (x float primary key)" if world.kind != "postgres" else "create table t2 (x int)"
    world.run(database, f"alter table t {drop}", "insert into t values (1, 2)", new, "insert into t2 values (1)")
    follower.read()
    world.run(database, "update t set n = 3", "delete from t where n = 3", "update t2 set x = 2")
    follower.read()
    stopped = {name.split(".")[1]: why for name, why in stopped_in(tmp_path).items()}
    assert "its key has other columns now" in stopped["t"] or "no primary key" in stopped["t"]
    if world.kind != "postgres":
        assert "has the column x in its key, a float, which cannot be a key in Iceberg" in stopped["t2"]


def test_a_history_ends_when_its_table_gets_a_key_and_goes_on_in_another_target(world: World, tmp_path: Path) -> None:
    world.create("keyed", "insert into t values (1, 1, 'x')")
    follower = Follower(world.settings("keyed", no_key="append"), tmp_path)
    follower.read()
    world.run("keyed", "alter table t add primary key (a)", "insert into t values (2, 2, 'y')")
    follower.read()
    name = "public.t" if world.kind == "postgres" else "keyed.t"
    assert "its key has other columns now" in stopped_in(tmp_path)[name]
    reload.request(LocalFolder(tmp_path), 0, [name])
    follower.read()
    assert stopped_in(tmp_path) == {name: "its key has other columns now; drop its target table, then reload again"}


def test_a_history_and_a_shared_target_do_not_go_together(world: World) -> None:
    faults: Sequence[tuple[str, str]] = list(world.settings("none", no_key="append", merge_tables=True).check())
    assert faults == [("no_key", "append does not go together with merge_tables")]


DEFAULTS = {
    "postgres": ["n int default 5", "s text default 'a,b'", "r float8 default random()", "at timestamp default localtimestamp"],
    "mysql": ["n int default 5", "s varchar(9) not null default 'ü'", "r decimal(9,2) default 1.50",
              "at datetime(6) default now(6)", "z varchar(3) not null"],
    "mariadb": ["n int default 5", "s varchar(9) not null default 'ü'", "r varchar(40) default concat('ü', 1)",
                "at datetime(6) default now(6)", "z varchar(3) not null"],
}  # fmt: skip


def test_rows_from_before_have_the_default_of_a_new_column(world: World, tmp_path: Path) -> None:
    world.server.create_database("filled")
    rows = "insert into t (id) values (1), (2)"
    world.run("filled", "create table t (id int primary key)", rows, "create table t2 (id int primary key)")
    follower = Follower(world.settings("filled"), tmp_path)
    follower.read()
    world.run("filled", "insert into t (id) values (3)")
    world.run("filled", *(f"alter table t add {column}" for column in DEFAULTS[world.kind]))
    world.run("filled", "insert into t (id) values (4)", "delete from t where id = 2")
    for _ in range(3):
        follower.read()
    check(world, "filled", follower)
    assert stopped_in(tmp_path) == {}


PARTED = {
    "postgres": (
        "create table t3 (id int primary key, n int) partition by range (id)",
        "create table t3_0 partition of t3 for values from (0) to (10)",
        "create table t3_1 partition of t3 for values from (10) to (20)",
        "truncate t3_0",
    ),
}
PARTED["mysql"] = PARTED["mariadb"] = (
    "create table t3 (id int primary key, n int) partition by range (id) (partition p0 values less than (10), "
    "partition p1 values less than (20))",
    "alter table t3 truncate partition p0",
)


@pytest.mark.parametrize("policy", ["compare", "reload"])
def test_a_table_that_is_truncated_loses_its_rows_in_the_target_too(world: World, tmp_path: Path, policy: str) -> None:
    database = f"cut_{policy}"
    world.server.create_database(database)
    *parted, cut = PARTED[world.kind]
    made = "create table {} (id int primary key, n int)"
    world.run(database, *(made.format(name) for name in ("t", "t2")), *parted)
    for name in ("t", "t2", "t3"):
        world.run(database, f"insert into {name} values (1, 1), (2, 2), (12, 3)")
    settings = world.settings(database, on_truncate=policy, on_unlogged_change=policy)
    follower = Follower(settings, tmp_path)
    follower.read()
    world.run(
        database,
        "begin", "update t set n = 7", "truncate table t", "insert into t values (2, 5)", "commit",
        "insert into t values (3, 3)", "truncate table t", "insert into t values (1, 9), (4, 4)",
        "truncate table t2", "update t3 set n = 8 where id = 12", cut,
    )  # fmt: skip
    for _ in range(4):
        follower.read()
    assert stopped_in(tmp_path) == {}
    rows = {
        name: sorted((row["id"], row["n"]) for row in follower.rows.get(name, {}).values())
        for name in ("t", "t2", "t3")
    }
    assert rows == {"t": [(1, 9), (4, 4)], "t2": [], "t3": [(12, 8)]}
