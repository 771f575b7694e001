"""A slot that somebody else moved or created again has lost changes, and is not read on silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from calve.errors import PositionLostError
from calve.sources.database.settings import Tables
from calve.sources.postgres.acknowledged import Acknowledged
from calve.sources.source_files import LocalFiles
from services.postgres import Postgres
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
    files = LocalFiles(tmp_path)
    acknowledged = Acknowledged(files)
    assert acknowledged.until(5) == 0
    acknowledged.write(7)
    acknowledged.write(6)
    assert Acknowledged(files).at == 7
    assert acknowledged.until(9) == 7
    assert acknowledged.until(3) == 3
