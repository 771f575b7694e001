"""A slot is of one pipeline and database: another one is not taken, and one that somebody moved is not read on silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from calve.errors import PositionLostError, SettingsError, SourceError
from calve.sources.postgres import source
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.postgres.slot import release
from calve.sources.postgres.slot.acknowledged import Acknowledged
from calve.sources.source_files import LocalFiles
from calve.sources.tables import Tables
from calve.state.local_folder import LocalFolder
from services.postgres import PASSWORD, Postgres
from sources.mysql.follow import Follower, postgres_settings

pytestmark = pytest.mark.services

CREATE = "select pg_create_logical_replication_slot('{0}', 'pgoutput')"


def created_again(server: Postgres, database: str, slot: str) -> None:
    server.run(f"select pg_drop_replication_slot('{slot}')", "insert into t values (2)", database=database)
    server.run(CREATE.format(slot), database=database)


def read_by_another(server: Postgres, database: str, slot: str) -> None:
    options = "'proto_version', '1', 'publication_names', 'calve_p'"
    server.run("insert into t values (2)", database=database)
    server.run(
        f"select count(*) from pg_logical_slot_get_binary_changes('{slot}', null, null, {options})", database=database
    )


def advanced(server: Postgres, database: str, slot: str) -> None:
    server.run("insert into t values (2)", database=database)
    server.run(f"select pg_replication_slot_advance('{slot}', pg_current_wal_lsn())", database=database)


MOVED = pytest.mark.parametrize("move", [created_again, read_by_another, advanced], ids=lambda move: move.__name__)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


def followed(server: Postgres, database: str, folder: Path, on_lost_position: str = "fail") -> Follower:
    server.create_database(database)
    server.run("create table t (id int primary key)", "insert into t values (1)", database=database)
    settings = postgres_settings(
        server, database, slot=database, tables=Tables(include=["public.t"]), on_lost_position=on_lost_position
    )
    follower = Follower(settings, folder)
    follower.read()
    return follower


def ids(follower: Follower) -> list[int]:
    return sorted(row["id"] for row in follower.rows.get("t", {}).values())


@MOVED
def test_a_slot_that_was_moved_is_a_lost_position(
    server: Postgres, tmp_path: Path, move: Callable[[Postgres, str, str], None]
) -> None:
    database = f"fails_{move.__name__}"
    follower = followed(server, database, tmp_path)
    move(server, database, database)
    server.run("insert into t values (3)", database=database)
    for _ in range(2):
        with pytest.raises(PositionLostError, match="moved by somebody else"):
            follower.read()
    assert ids(follower) == [1]


@MOVED
def test_all_tables_are_loaded_anew_after_a_slot_was_moved_if_that_is_set(
    server: Postgres, tmp_path: Path, move: Callable[[Postgres, str, str], None]
) -> None:
    database = f"reloads_{move.__name__}"
    follower = followed(server, database, tmp_path, on_lost_position="reload")
    move(server, database, database)
    for _ in range(3):
        follower.read()
    server.run("insert into t values (3)", database=database)
    follower.read()
    assert ids(follower) == [1, 2, 3]


def test_what_the_server_is_told_while_nothing_changes_here_moves_no_position_away(
    server: Postgres, tmp_path: Path
) -> None:
    follower = followed(server, "idle", tmp_path)
    for number in range(2, 5):
        server.run("create table if not exists other (id int)", "insert into other values (1)")  # in another database
        follower.read()
        server.run(f"insert into t values ({number})", database="idle")
        follower.read()
    assert ids(follower) == [1, 2, 3, 4]


def test_the_server_is_told_only_what_is_written_down(tmp_path: Path) -> None:
    files = LocalFiles(LocalFolder(tmp_path))
    acknowledged = Acknowledged(files)
    assert acknowledged.until(5) == 0
    acknowledged.write(7)
    acknowledged.write(6)
    assert Acknowledged(files).at == 7
    assert acknowledged.until(9) == 7
    assert acknowledged.until(3) == 3


SLOTS = "select slot_name from pg_replication_slots where database = '{}'"


def test_the_slot_of_each_database_has_another_name() -> None:
    names = [PostgresSettings(host="h", database=name, username="u").slot_of("p") for name in ("one", "two")]
    assert names == ["calve_p_one", "calve_p_two"]
    long = [PostgresSettings(host="h", database="d" * 63 + end, username="u").slot_of("p") for end in "ab"]
    assert max(map(len, long)) == 63
    assert long[0] != long[1]


def test_a_state_keeps_the_name_of_the_slot_that_it_began_with(server: Postgres, tmp_path: Path) -> None:
    database = server.create_database("older")
    server.run("create table t (id int primary key)", "insert into t values (1)", database=database)
    settings = postgres_settings(server, database, slot="calve_p", tables=Tables(include=["public.t"]))
    Follower(settings, tmp_path).read()
    (tmp_path / "slot.json").unlink()  # as versions did that took this name by default
    now = postgres_settings(server, database, tables=Tables(include=["public.t"]))
    for number in (2, 3):
        server.run(f"insert into t values ({number})", database=database)
        follower = Follower(now, tmp_path)
        follower.position = {"chunk": 1}
        follower.read()
        assert number in ids(follower)
    assert server.run(SLOTS.format(database)) == [["calve_p"]]
    assert release.drop(now, "p")[0] == "the slot calve_p was dropped"


def test_a_slot_of_another_database_is_named_with_its_reader_and_nothing_tells_to_drop_it(
    server: Postgres, tmp_path: Path
) -> None:
    followed(server, "owner", tmp_path)
    database = server.create_database("neighbour")
    server.run("create table t (id int primary key)", database=database)
    settings = postgres_settings(server, database, slot="owner", tables=Tables(include=["public.t"]))
    for action in (source.check, release.drop):
        with pytest.raises(
            SourceError, match="database owner, plugin pgoutput, not read by any session now"
        ) as refused:
            action(settings, "p")
        assert "pg_drop" not in str(refused.value)
    assert server.run(SLOTS.format("owner")) == [["owner"]]


def test_all_rights_that_a_user_lacks_are_named_at_once_and_the_sql_gives_them(
    server: Postgres, tmp_path: Path
) -> None:
    database = server.create_database("rights")
    server.run(
        f"create role reader login password '{PASSWORD}'",
        "create schema s",
        "create table s.t (id int, primary key (id)) partition by range (id)",
        "create table s.t_1 partition of s.t for values from (0) to (9)",
        "create table s.seen (id int primary key)",
        "alter table s.seen enable row level security",
        "insert into s.t values (1)",
        database=database,
    )
    settings = replace(postgres_settings(server, database, tables=Tables(include=["s.*"])), username="reader")
    with pytest.raises(SourceError) as refused:
        source.check(settings, "p")
    for right in (
        "may not replicate",
        "may not read s.seen, s.t",
        "may not create it",
        "row-level security hides rows",
    ):
        assert right in str(refused.value)
    statements = str(refused.value).split("Run: ")[1]
    server.run(*filter(None, statements.split("; ")), database=database)
    source.check(settings, "p")
    follower = Follower(settings, tmp_path)
    follower.read()
    server.run("insert into s.t values (2)", "insert into s.seen values (3)", database=database)
    follower.read()
    assert ids(follower) == [1, 2]
    assert [row["id"] for row in follower.rows["seen"].values()] == [3]


def test_another_slot_that_does_not_exist_is_refused_and_the_first_one_continues(
    server: Postgres, tmp_path: Path
) -> None:
    follower = followed(server, "other_slot", tmp_path)
    settings = follower.settings
    follower.settings = replace(settings, slot="mistyped")
    with pytest.raises(SettingsError, match="the changes since the last run are in the slot other_slot") as refused:
        follower.read()
    assert "set slot: other_slot" in refused.value.hint
    server.run("insert into t values (2)", database="other_slot")
    follower.settings = replace(settings, slot=None)  # the state keeps the name
    follower.read()
    assert ids(follower) == [1, 2]
