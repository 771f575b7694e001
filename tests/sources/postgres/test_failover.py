"""A standby that keeps the slot in step (PostgreSQL 17) is promoted when the primary is gone, and read on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from calve.errors import PositionLostError
from calve.sources.tables import Tables
from services.postgres import PASSWORD, Postgres
from services.process import nobody, wait_until
from sources.mysql.follow import Follower, postgres_settings

pytestmark = pytest.mark.services

STANDBY = "standby"
SLOT = "slot_name = 'calve_p_postgres'"


@pytest.fixture
def primary() -> Iterator[Postgres]:
    with Postgres() as server:
        server.run("create table item (id int primary key)", "insert into item values (1)")
        server.run(f"select pg_create_physical_replication_slot('{STANDBY}', true)")
        yield server


@pytest.fixture
def standby(primary: Postgres) -> Iterator[Postgres]:
    """A copy of the primary, which follows it and its slots."""
    server = Postgres(
        primary_conninfo=f"host=127.0.0.1 port={primary.port} user=postgres password='{PASSWORD}' dbname=postgres",
        primary_slot_name=STANDBY,
        hot_standby_feedback="on",
        sync_replication_slots="on",
        wal_receiver_status_interval="1s",
    )
    shutil.chown(server.folder, *nobody())
    primary.stop()
    subprocess.run(["cp", "-a", primary.folder / "data", server.folder / "data"], check=True)
    shutil.rmtree(server.folder / "data" / "pg_replslot" / STANDBY)
    (server.folder / "data" / "standby.signal").touch()
    primary.start()
    with server:
        yield server


def promoted(primary: Postgres, standby: Postgres) -> None:
    """Kill the primary when the standby has all, and let the standby take its place."""
    [[end]] = primary.run("select pg_current_wal_lsn()")
    wait_until(lambda: standby.run(f"select pg_last_wal_replay_lsn() >= '{end}'")[0][0] == "t", "the standby has all")
    primary.stop(kill=True)
    standby.run("select pg_promote()")


def begun(primary: Postgres, folder: Path) -> Follower:
    follower = Follower(postgres_settings(primary, "postgres", tables=Tables(include=["public.item"])), folder)
    follower.read()
    return follower


def test_the_new_primary_is_read_on_at_the_slot_that_it_kept_in_step(
    primary: Postgres, standby: Postgres, tmp_path: Path
) -> None:
    primary.run(f"alter system set synchronized_standby_slots = '{STANDBY}'", "select pg_reload_conf()")
    follower = begun(primary, tmp_path)

    def is_kept() -> bool:
        primary.run("select pg_log_standby_snapshot()")
        follower.read()  # a standby begins to keep a slot at a position of its own, which the slot must reach
        return bool(standby.run(f"select 1 from pg_replication_slots where {SLOT} and synced and not temporary"))

    wait_until(is_kept, "the standby has the slot")
    primary.run("insert into item select generate_series(2, 1000)")
    follower.read()  # the standby may keep an older position of the slot: these changes are sent again
    primary.run("insert into item values (1001)", "delete from item where id = 2")
    promoted(primary, standby)
    follower.settings = replace(follower.settings, port=standby.port)
    standby.run("insert into item values (1002)")
    follower.read()
    assert sorted(row["id"] for row in follower.renamed("item")) == [1, *range(3, 1003)]


def test_a_new_primary_without_the_slot_is_a_lost_position(
    primary: Postgres, standby: Postgres, tmp_path: Path
) -> None:
    standby.run("alter system set sync_replication_slots = off", "select pg_reload_conf()")
    follower = begun(primary, tmp_path)
    promoted(primary, standby)
    follower.settings = replace(follower.settings, port=standby.port)
    with pytest.raises(PositionLostError, match=r"slot calve_p_postgres .* does not exist any more"):
        follower.read()
