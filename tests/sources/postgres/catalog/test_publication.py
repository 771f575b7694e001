"""A publication that changes while it is read: no table loses changes silently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.sources.postgres import source
from calve.sources.tables import Tables
from services.postgres import Postgres
from sources.mysql.follow import Follower, postgres_settings, stopped_in

pytestmark = pytest.mark.services

CHANGED = "its publication was changed, and may have left out changes; the log does not have that"
LISTED = {
    "dropped": ["alter publication p drop table dropped"],
    "dropped_for_a_moment": [
        "alter publication p drop table dropped_for_a_moment",
        "update dropped_for_a_moment set n = 7",
        "alter publication p add table dropped_for_a_moment",
    ],
    "filtered": ["alter publication p set table same, dropped_for_a_moment, parted, filtered where (id > 1)"],
    "parted": ["alter publication p drop table parted"],
}
TABLES = [f"create table {name} (id int primary key, n int)" for name in ("same", *LISTED) if name != "parted"]
PARTED = [
    "create table parted (id int primary key, n int) partition by range (id)",
    "create table parted_1 partition of parted for values from (0) to (100)",
]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


def followed(server: Postgres, database: str, folder: Path, publication: str | None) -> Follower:
    settings = postgres_settings(
        server,
        database,
        slot=f"slot_{database}",
        publication=publication,
        tables=Tables(include=["public.*"]),
    )
    follower = Follower(settings, folder)
    follower.read()
    return follower


def changed(server: Postgres, database: str, name: str) -> None:
    server.run(f"insert into {name} values (1, 1), (2, 2)", f"update {name} set n = n + 1", database=database)


@pytest.mark.parametrize("via_root", ["true", "false"])
def test_a_table_that_its_publication_left_out_is_stopped_and_one_that_is_back_is_read_again(
    server: Postgres, tmp_path: Path, via_root: str
) -> None:
    database = server.create_database(f"listed_{via_root}")
    server.run(*TABLES, *PARTED, database=database)
    names = ", ".join(["same", *LISTED])
    server.run(
        f"create publication p for table {names} with (publish_via_partition_root = {via_root})", database=database
    )
    follower = followed(server, database, tmp_path, "p")
    follower.read()
    assert stopped_in(tmp_path) == {}
    for statements in LISTED.values():
        server.run(*statements, database=database)
    for name in ("same", *LISTED):
        changed(server, database, name)
    follower.read()
    parted = "parted" if via_root == "true" else "parted_1"
    assert stopped_in(tmp_path) == {f"public.{name}": CHANGED for name in ("dropped", "filtered", parted)}
    for name in ("same", "dropped_for_a_moment"):  # the second one is published again, and was read again
        assert {key: row["n"] for key, row in follower.rows[name].items()} == {"1": 2, "2": 3}, name


def test_a_table_that_is_not_logged_any_more_or_a_publication_without_updates_stops_its_tables(
    server: Postgres, tmp_path: Path
) -> None:
    database = server.create_database("every")
    server.run(*TABLES, "create publication p for all tables", database=database)
    follower = followed(server, database, tmp_path, "p")
    server.run("alter table dropped set unlogged", database=database)
    changed(server, database, "dropped")
    changed(server, database, "same")
    follower.read()
    assert stopped_in(tmp_path) == {"public.dropped": CHANGED}
    assert {key: row["n"] for key, row in follower.rows["same"].items()} == {"1": 2, "2": 3}
    server.run("alter publication p set (publish = 'insert')", database=database)
    server.run("update same set n = 0", database=database)
    follower.read()
    assert stopped_in(tmp_path)["public.same"] == CHANGED


def test_a_publication_of_a_schema_follows_until_the_schema_leaves_it(server: Postgres, tmp_path: Path) -> None:
    database = server.create_database("by_schema")
    server.run(*TABLES, "create publication p for tables in schema public", database=database)
    follower = followed(server, database, tmp_path, "p")
    server.run("create schema other", "alter publication p add tables in schema other", database=database)
    changed(server, database, "same")
    follower.read()
    assert stopped_in(tmp_path) == {}
    server.run("alter publication p drop tables in schema public", database=database)
    changed(server, database, "dropped")
    follower.read()
    assert stopped_in(tmp_path)["public.dropped"] == CHANGED


def test_a_publication_that_calve_made_counts_from_its_first_look_on(server: Postgres, tmp_path: Path) -> None:
    database = server.create_database("made")
    server.run(*TABLES, database=database)
    follower = followed(server, database, tmp_path, None)
    follower.read()
    server.run("alter publication calve_p drop table dropped", database=database)
    changed(server, database, "dropped")
    follower.read()
    assert stopped_in(tmp_path) == {"public.dropped": CHANGED}


def test_a_publication_without_truncate_is_refused_unless_rows_are_to_stay(server: Postgres, tmp_path: Path) -> None:
    database = server.create_database("cut")
    server.run(
        "create table t (id int primary key)",
        "create publication p for table t with (publish = 'insert, update, delete')",
        database=database,
    )
    with pytest.raises(SourceError, match=r"leaves out TRUNCATE.*set another `publication`, or on_truncate: ignore"):
        followed(server, database, tmp_path, "p")
    source.check(postgres_settings(server, database, publication="p", on_truncate="ignore"), "p")
