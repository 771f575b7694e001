"""Two tables of one name in two schemas or databases: refused or stopped by name, or merged with a key that has both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.expression import compile_format
from calve.route.shared_targets import shared_targets
from calve.route.sink_route import SinkRoute
from calve.sources.database.settings import DatabaseSettings
from calve.sources.mysql import source as mysql
from calve.sources.postgres import source as postgres
from calve.sources.source import SourceContext
from calve.sources.tables import Tables
from calve.state.local_folder import LocalFolder
from services.mysql import MYSQL, MySql
from services.postgres import Postgres
from sources.mysql.follow import Follower, postgres_settings, settings_of, stopped_in

pytestmark = pytest.mark.services

NAMES = ("table_name", "schema_name", "database_name")


class Shop:
    """A database, or a server with databases, with its tables in two schemas."""

    def __init__(self, server: MySql | Postgres, settings: DatabaseSettings) -> None:
        self.server, self.settings = server, settings
        self.source = mysql if isinstance(server, MySql) else postgres

    def run(self, *statements: str) -> None:
        if isinstance(self.server, MySql):
            self.server.run(*statements)
        else:
            self.server.run(*statements, database="shop")


@pytest.fixture(scope="module", params=["mysql", "postgres"])
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    with ExitStack() as stack:
        if request.param == "mysql":
            server = stack.enter_context(MySql(MYSQL))
            tables = Tables(include=["one.*", "two.*", "three.*"])
            yield Shop(server, replace(settings_of(server, "one"), tables=tables))
        else:
            database = stack.enter_context(Postgres())
            database.create_database("shop")
            database.run("create publication everything for all tables", database="shop")
            yield Shop(database, postgres_settings(database, "shop", publication="everything"))


@pytest.fixture
def tables(shop: Shop) -> None:
    """Give a table of one name in each of two schemas."""
    for schema in ("one", "two", "three"):
        end = "" if shop.source is mysql else " cascade"
        shop.run(f"drop schema if exists {schema}{end}", f"create schema {schema}")
    for schema in ("one", "two"):
        shop.run(
            f"create table {schema}.t (id int primary key, n int)", f"insert into {schema}.t values (1, 1), (2, 2)"
        )


def to(text: str) -> partial:
    return partial(shared_targets, [SinkRoute(compile_format(text, NAMES))])


BY_TABLE, BY_SCHEMA = (
    'lake.${getMetadata("table_name")}',
    'lake.${getMetadata("schema_name")}_${getMetadata("table_name")}',
)


@pytest.mark.usefixtures("tables")
def test_two_tables_with_one_target_are_refused_by_name_by_validate_and_at_the_start(
    shop: Shop, tmp_path: Path
) -> None:
    for shared, target in ((to(BY_TABLE), "lake.t"), (to("lake.all"), "lake.all")):
        with pytest.raises(SourceError, match=rf"one\.t, two\.t would all be written to {target}") as refused:
            shop.source.check(shop.settings, "p", shared)
        opened = shop.source.open(shop.settings, LocalFolder(tmp_path), "p", SourceContext(shared_targets=shared))
        with pytest.raises(SourceError, match=r"one\.t, two\.t would all"):
            opened.start(None, True)
        opened.stop()
        assert "merge_tables" in (refused.value.hint or "")
    shop.source.check(shop.settings, "p", to(BY_SCHEMA))
    shop.source.check(replace(shop.settings, merge_tables=True), "p", to(BY_TABLE))
    shop.source.check(replace(shop.settings, tables=Tables(include=["one.*"])), "p", to(BY_TABLE))


@pytest.mark.usefixtures("tables")
def test_a_second_table_with_the_target_of_the_first_is_stopped_by_name_when_it_is_created(
    shop: Shop, tmp_path: Path
) -> None:
    shop.run("drop table two.t")
    shared = to(BY_TABLE)
    follower = Follower(shop.settings, tmp_path, shared)
    follower.read()
    shop.run("create table three.t (id int primary key, n int)", "create table three.u (id int primary key)")
    shop.run("insert into three.t values (1, 9)", "insert into one.t values (3, 3)", "insert into three.u values (1)")
    rows = follower.read()
    assert {name: {key: row.get("n") for key, row in each.items()} for name, each in rows.items()} == {
        "t": {"1": 1, "2": 2, "3": 3},
        "u": {"1": None},
    }
    assert "as one.t" in stopped_in(tmp_path)["three.t"]


@pytest.mark.usefixtures("tables")
def test_merged_tables_have_schema_and_name_in_their_rows_and_in_their_key(shop: Shop, tmp_path: Path) -> None:
    follower = Follower(replace(shop.settings, merge_tables=True), tmp_path, to(BY_TABLE))
    assert set(follower.read()["t"]) == {"one|t|1", "one|t|2", "two|t|1", "two|t|2"}
    with pytest.raises(SourceError, match="merge_tables was true"):
        shop.source.open(shop.settings, LocalFolder(tmp_path), "p", SourceContext(shared_targets=to(BY_SCHEMA))).start(
            None, True
        )
    shop.run(
        "update one.t set n = 7 where id = 1", "delete from two.t where id = 1", "update two.t set id = 8 where id = 2"
    )
    rows = follower.read()["t"]
    assert {key: tuple(row.values()) for key, row in rows.items()} == {
        "one|t|1": ("one", "t", 1, 7),
        "one|t|2": ("one", "t", 2, 2),
        "two|t|8": ("two", "t", 8, 2),
    }


@pytest.mark.usefixtures("tables")
def test_a_table_with_a_column_that_merging_adds_is_refused_by_name(shop: Shop) -> None:
    shop.run("create table one.clash (id int primary key, Schema_Name text)")
    with pytest.raises(
        SourceError, match=r"(?i)schema_name of one\.clash has the name of a column that merge_tables adds"
    ):
        shop.source.check(replace(shop.settings, merge_tables=True), "p", to(BY_TABLE))
