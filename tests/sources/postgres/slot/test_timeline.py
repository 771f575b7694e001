"""A standby that was promoted is followed, if it has all that was read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from calve.errors import PositionLostError
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.tables import Tables
from services.postgres import PASSWORD, Postgres
from services.process import wait_until
from sources.mysql.follow import Follower

pytestmark = pytest.mark.services


def followed(server: Postgres, folder: Path) -> Follower:
    server.run("create table item (id int primary key)", "insert into item values (1)")
    tables = Tables(include=["public.item"])
    login = {"username": "postgres", "password": PASSWORD, "database": "postgres"}
    settings = PostgresSettings(host="127.0.0.1", port=server.port, tables=tables, min_free_bytes=0, **login)
    follower = Follower(settings, folder)
    follower.read()
    return follower


def promote(server: Postgres) -> None:
    """Start a stopped server as a standby, which becomes a primary with a timeline of its own."""
    (server.folder / "data" / "standby.signal").touch()
    server.start()
    server.run("select pg_promote()")
    wait_until(lambda: server.run("select pg_is_in_recovery()")[0][0] == "f", "it is a primary")


def ids(follower: Follower) -> list[int]:
    return sorted(row["id"] for row in follower.renamed("item"))


def test_a_promoted_server_with_everything_that_was_read_is_followed(tmp_path: Path) -> None:
    with Postgres() as server:
        follower = followed(server, tmp_path)
        server.run("insert into item values (2)")
        follower.read()
        server.stop()
        promote(server)
        server.run("insert into item values (3)")
        follower.read()
        assert ids(follower) == [1, 2, 3]


def test_a_promoted_server_that_lacks_what_was_read_is_a_lost_position(tmp_path: Path) -> None:
    with Postgres() as server:
        follower = followed(server, tmp_path)
        data, standby = server.folder / "data", server.folder / "standby"
        server.stop()
        subprocess.run(["cp", "-a", data, standby], check=True)
        server.start()
        server.run("insert into item values (2)")
        follower.read()
        server.stop()
        data.rename(server.folder / "lost")
        standby.rename(data)
        promote(server)
        server.run("insert into item values (3)")
        with pytest.raises(PositionLostError, match=r"was promoted .* without changes that Calve had read"):
            follower.read()


def test_a_slot_is_one_that_standbys_keep_in_step(tmp_path: Path) -> None:
    with Postgres() as server:
        followed(server, tmp_path)
        assert server.run("select failover from pg_replication_slots where not temporary")[0][0] == "t"
