"""A table that matches `tables` and is new: it is published and loaded, or said with the SQL that helps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.sources.tables import Tables
from services.postgres import Postgres
from sources.mysql.follow import Follower, postgres_settings, stopped_in

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


def followed(server: Postgres, name: str, folder: Path, **more) -> Follower:
    server.create_database(name)
    server.run("create table t (id int primary key)", "insert into t values (1)", database=name)
    if "publication" in more:
        server.run("create publication p for table t", database=name)
    follower = Follower(postgres_settings(server, name, tables=Tables(include=["public.*"]), **more), folder)
    follower.read()
    return follower


def ids(follower: Follower, table: str) -> list[int]:
    return sorted(row["id"] for row in follower.rows.get(table, {}).values())


def test_a_new_table_is_published_and_all_its_rows_follow(server: Postgres, tmp_path: Path) -> None:
    follower = followed(server, "own", tmp_path)
    made = "create table added (id int, primary key (id)) partition by range (id)"
    part = "create table added_1 partition of added for values from (0) to (99)"
    server.run(made, part, "insert into added values (1), (2)", database="own")
    follower.read()
    server.run("insert into added values (3)", "delete from added where id = 1", database="own")
    for _ in range(2):
        follower.read()
    assert ids(follower, "added") == [2, 3]
    assert ids(follower, "t") == [1]
    assert stopped_in(tmp_path) == {}


def test_a_new_table_whose_changes_the_server_would_refuse_is_not_published_but_named(
    server: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    follower = followed(server, "refused", tmp_path)
    server.run("create table added (id int primary key deferrable)", "insert into added values (1)", database="refused")
    follower.read()
    assert "public.added is not read: public.added has a deferrable primary key" in caplog.text
    server.run("update added set id = 2", "alter table added replica identity full", database="refused")
    for _ in range(2):
        follower.read()
    assert ids(follower, "added") == [2]


def test_a_table_that_gets_an_identity_again_is_published_and_loaded_again(server: Postgres, tmp_path: Path) -> None:
    follower = followed(server, "again", tmp_path)
    server.run("alter table t replica identity nothing", database="again")
    follower.read()
    assert "public.t" in stopped_in(tmp_path)
    server.run("update t set id = 7", "alter table t replica identity default", database="again")
    for _ in range(2):
        follower.read()
    assert ids(follower, "t") == [7]
    assert stopped_in(tmp_path) == {}


def test_a_new_table_that_a_publication_of_somebody_else_lacks_is_named_with_the_sql(
    server: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    follower = followed(server, "other", tmp_path, publication="p", slot="other")
    server.run("create table added (id int primary key)", "insert into added values (1)", database="other")
    follower.read()
    assert caplog.text.count("public.added is not read: the publication p does not have it") == 1
    server.run(
        'ALTER PUBLICATION "p" ADD TABLE ONLY "public"."added"', "insert into added values (2)", database="other"
    )
    follower.read()
    assert ids(follower, "added") == [2]
