"""Names of columns that readers of Iceberg tables cannot have or cannot distinguish: renamed, or refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.database.target_names import names_fault
from calve.sources.tables import Tables
from services.mysql import MYSQL, MySql
from services.postgres import Postgres
from sources.mysql.follow import Follower, postgres_settings, settings_of, stopped_in


def table(*names: str, dropped: tuple[str, ...] = (), kind: str = "string") -> DatabaseTable:
    columns, gone = (
        tuple(Column(name, number, kind, kind, 0, 0) for number, name in enumerate(each)) for each in (names, dropped)
    )
    return DatabaseTable("d", 1, "app", "t", columns, dropped=gone)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (table("id", "n"), ""),
        (table("_deleted", "_ROW_ID", "_pos"), ""),
        (table("n", dropped=("n",)), ""),
        (table("id", "ID"), "the column ID: it differs from the column id by case only"),
        (table("straße", "STRAßE"), "the column STRAßE: it differs from the column straße by case only"),
        (table("ID", dropped=("id",)), "the dropped column id: it differs from the column ID by case only"),
        (table("deleted_", "_deleted"), "the column _deleted: it has the same full name as the column deleted_"),
        (table("a.element", "a", kind="list<int>"), "the column a: its elements have the same full name as"),
        (table("a b", "a_x20b"), "in Parquet files it has the same name as the column a b"),
    ],
)
def test_a_table_whose_columns_readers_cannot_distinguish_has_a_fault(columns: DatabaseTable, reason: str) -> None:
    assert reason in names_fault(columns) if reason else names_fault(columns) == ""


def test_a_reserved_name_gets_its_underscore_at_the_end() -> None:
    renamed = table("_deleted", "__pos", "_FILE", "_id").source_table().schema_json
    assert [field["name"] for field in json.loads(renamed)["fields"]] == ["deleted_", "__pos", "FILE_", "_id"]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.mark.services
def test_reserved_columns_of_postgresql_are_renamed_and_case_twins_stop_their_table_alone(
    server: Postgres, tmp_path: Path
) -> None:
    server.create_database("names")
    server.run(
        "create table soft (_row_id int primary key, _deleted boolean)",
        "create table grows (id int primary key, n int)",
        "insert into soft values (1, false), (2, true)",
        "insert into grows values (1, 1)",
        database="names",
    )
    follower = Follower(postgres_settings(server, "names", slot="names"), tmp_path)
    assert follower.read()["soft"]["2"] == {"row_id_": 2, "deleted_": True}
    server.run(
        "update soft set _deleted = true where _row_id = 1",
        "update grows set n = 2",
        'alter table grows add "ID" int',
        "update grows set n = 3",
        "delete from soft where _row_id = 2",
        database="names",
    )
    rows = follower.read()
    assert rows["soft"] == {"1": {"row_id_": 1, "deleted_": True}}
    assert rows["grows"] == {"1": {"id": 1, "n": 2}}
    why = "the target cannot have the column ID: it differs from the column id by case only; rename it"
    assert stopped_in(tmp_path)["public.grows"].startswith(why)


@pytest.mark.services
def test_a_start_names_every_table_whose_columns_differ_by_case_only(server: Postgres, tmp_path: Path) -> None:
    server.create_database("twins")
    server.run(
        'create table one (id int primary key, "Id" int)',
        "create table two (_pos int primary key, pos_ int)",
        "create table fine (id int primary key)",
        database="twins",
    )
    with pytest.raises(SourceError) as refused:
        Follower(postgres_settings(server, "twins", slot="twins"), tmp_path).read()
    assert "public.one: the target cannot have the column Id: it differs from the column id" in str(refused.value)
    assert "public.two: the target cannot have the column pos_" in str(refused.value)
    assert "public.fine" not in str(refused.value)
    only = Tables(include=["public.fine"])
    assert Follower(postgres_settings(server, "twins", slot="twins", tables=only), tmp_path).read() == {}


@pytest.mark.services
def test_reserved_columns_of_mysql_are_renamed_in_rows_of_the_load_and_of_the_log(tmp_path: Path) -> None:
    with MySql(MYSQL) as running:
        running.create_database("names")
        running.run(
            "create table soft (_file int primary key, _deleted bool)",
            "insert into soft values (1, 0)",
            database="names",
        )
        follower = Follower(settings_of(running, "names"), tmp_path)
        assert follower.read()["soft"] == {"1": {"file_": 1, "deleted_": 0}}
        running.run("update soft set _deleted = 1", "insert into soft values (2, 1)", database="names")
        assert follower.read()["soft"] == {"1": {"file_": 1, "deleted_": 1}, "2": {"file_": 2, "deleted_": 1}}
