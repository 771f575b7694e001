"""A replica takes over: reading goes on there by GTID, or ends with the reason. Two real servers behind a relay."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from calve.errors import PositionLostError, SourceError
from calve.sources.mysql.position.gtids import GtidSet
from kit.running import until
from services.mysql import MARIADB, MYSQL, MYSQL_5, Kind, MySql
from services.relay import Relay
from sources.database import pipeline
from sources.database.kills import Process, same_in_the_end
from sources.database.writers import MysqlWriter
from sources.mysql.follow import Follower, settings_of

pytestmark = pytest.mark.services

TABLES = (
    "create table app.t (id int primary key, n int)",
    "create table app.other (id int primary key)",
    "insert into app.t values (1, 1), (2, 2), (3, 3)",
    "insert into app.other values (1)",
)


class Pair:
    """A primary with a replica whose log has other files, and an address that leads to the primary."""

    def __init__(self, kind: Kind) -> None:
        more = {"log_slave_updates": "ON"}
        self.primary, self.replica = MySql(kind, **more), MySql(kind, server_id="2", **more)
        self.relay = Relay(self.primary.port)

    def __enter__(self) -> Pair:
        self.primary.start()
        self.replica.start()
        self.replica.follow(self.primary)
        self.primary.create_database("app")
        self.primary.run("flush binary logs", "flush binary logs", *TABLES)
        return self

    def __exit__(self, *_: object) -> None:
        self.relay.close()
        for server in (self.primary, self.replica):
            server.__exit__()

    def follower(self, folder: Path, **more: str) -> Follower:
        self.replica.catch_up(self.primary)
        settings = settings_of(self.primary, "app", connect_timeout=timedelta(seconds=10), **more)
        settings = replace(settings, port=self.relay.port)
        found = Follower(settings, folder)
        found.read()
        return found

    def take_over(self) -> None:
        """Kill the primary, and let the address lead to the replica."""
        self.primary.stop(kill=True)
        self.switch()
        self.replica.promote()

    def switch(self) -> None:
        self.relay.cut()
        self.relay.target = self.replica.port
        self.relay.mend()


@pytest.fixture(params=[MYSQL, MARIADB], ids=lambda kind: kind.name)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with Pair(request.param) as found:
        yield found


def rows(server: MySql, table: str = "t", columns: str = "id, n") -> list[list[str | None]]:
    return server.run(f"select {columns} from app.{table} order by id")


def followed(follower: Follower, *columns: str) -> list[list[str | None]]:
    found = follower.rows["t"]
    return [
        [None if found[key].get(name) is None else str(found[key][name]) for name in columns]
        for key in found_keys(found)
    ]


def found_keys(found: dict[str, dict]) -> list[str]:
    return sorted(found, key=int)


def test_reading_goes_on_at_the_server_that_took_over(pair: Pair, tmp_path: Path) -> None:
    follower = pair.follower(tmp_path)
    pair.primary.run("update app.t set n = 20 where id = 2", "insert into app.t values (4, 4)")
    follower.read()
    pair.primary.run("delete from app.t where id = 1", "insert into app.t values (5, 5)", "alter table app.t add m int")
    pair.primary.run("update app.t set m = n where id > 3")
    pair.replica.catch_up(pair.primary)
    pair.take_over()
    pair.replica.run("insert into app.t values (6, 6, 6)", "update app.t set n = 7 where id = 2")
    for more in range(10, 13):  # the first time reading goes on there, then on the same server
        follower.read()
        assert followed(follower, "id", "n", "m") == rows(pair.replica, columns="id, n, m")
        assert set(follower.rows["other"]) == {"1"}
        pair.replica.run(
            f"insert into app.t values ({more}, 1, 1)", "flush binary logs", "delete from app.t where id = 3"
        )
    follower.read()
    assert followed(follower, "id", "n", "m") == rows(pair.replica, columns="id, n, m")


def test_a_server_that_lacks_what_was_read_is_told_and_all_tables_can_be_loaded_anew(
    pair: Pair, tmp_path: Path
) -> None:
    follower = pair.follower(tmp_path)
    pair.replica.run("stop slave")
    pair.primary.run("insert into app.t values (9, 9)")
    follower.read()
    assert "9" in follower.rows["t"]
    pair.take_over()
    for _ in range(2):
        with pytest.raises(PositionLostError, match=r"lacks transactions that were read|does not have what follows"):
            follower.read()
        pair.replica.run("insert into app.t values (10, 10) on duplicate key update n = n + 1")
    follower.settings = replace(follower.settings, on_lost_position="reload")
    follower.read()
    follower.read()
    assert followed(follower, "id", "n") == rows(pair.replica)
    pair.replica.run("delete from app.t where id = 2")
    follower.read()
    assert followed(follower, "id", "n") == rows(pair.replica)


def test_a_server_that_has_removed_what_follows_is_told(pair: Pair, tmp_path: Path) -> None:
    follower = pair.follower(tmp_path)
    pair.primary.run("insert into app.t values (9, 9)")
    pair.replica.catch_up(pair.primary)
    pair.take_over()
    pair.replica.run("flush binary logs", "insert into app.t values (11, 9)", "flush binary logs")
    if pair.replica.kind == MARIADB:
        pair.replica.run("set global slave_connections_needed_for_purge = 0")
    last = pair.replica.run("show master status")[0][0]

    def purged() -> bool:
        pair.replica.run(f"purge binary logs to '{last}'")
        return len(pair.replica.run("show binary logs")) == 1

    until(purged, "the server no longer needs its older files")
    with pytest.raises(PositionLostError, match=r"has removed transactions|does not have what follows"):
        follower.read()


def test_another_server_without_gtids_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    options = {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"}
    with MySql(MYSQL_5, **options) as one, MySql(MYSQL_5, **options) as other:
        for server in (one, other):
            server.create_database("app")
            server.run(*TABLES)
        relay = Relay(one.port)
        follower = Follower(replace(settings_of(one, "app"), port=relay.port), tmp_path)
        follower.read()
        relay.cut()
        relay.target = other.port
        relay.mend()
        with pytest.raises(SourceError, match="is not the database that this state was begun with") as found:
            follower.read()
        assert "A server that took over is followed if both have GTIDs" in str(found.value)
        relay.close()


@pytest.mark.crash
@pytest.mark.parametrize("pair", [MYSQL, *([MARIADB] if "CALVE_KILLS" in os.environ else [])], indirect=True)
def test_a_failover_amid_writers_and_kills_ends_with_the_rows_of_the_new_server(pair: Pair, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    pair.primary.run(
        "create table app.item (id bigint primary key, v int, large text)",
        "create table app.pair (a int, b varchar(100) collate utf8mb4_bin, v int, primary key (a, b))",
        "insert into app.item select id, 0, null from app.t",
    )
    process, store = Process(tmp_path, "mysql", pair.relay.port, ""), pipeline.Store(tmp_path)
    writers = [MysqlWriter(pair.primary.connect, seed + number) for number in range(2)]
    for writer in writers:
        writer.start()
    process.start()
    process.commit(store, 8)
    process.kill()
    process.start()
    process.commit(store, 4)
    for writer in writers:
        writer.enough.set()
        writer.join()
    pair.replica.catch_up(pair.primary)
    process.kill()  # some of it is not read
    pair.take_over()
    writers = [MysqlWriter(pair.replica.connect, seed + number) for number in range(2, 4)]
    for writer in writers:
        writer.start()
    for _ in range(3):
        process.start()
        process.commit(store, 4)
        process.kill()
    for writer in writers:
        writer.enough.set()
        writer.join()
    process.start()
    items = pair.replica.run("select json_object('id', id, 'v', v, 'large', large) from app.item")
    expected = {str(row["id"]): {**row, "extra": None} for row in (json.loads(one[0] or "") for one in items)}
    same_in_the_end(process, {"item": expected}, seed)


def test_sets_of_gtids_grow_and_are_joined() -> None:
    one, two = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563"
    found = GtidSet(f"{one.upper()}:1-3:7,\n{two}:5")
    for number in (4, 6, 5):
        found.add(f"{one}:{number}")
    assert str(found) == f"{one}:1-7,{two}:5"
    assert f"{one}:7" in found
    assert f"{two}:4" not in found
    found = GtidSet("0-1-7,1-1-3")
    found.add("0-2-8")
    assert str(found) == "0-2-8,1-1-3"
    assert "0-1-8" in found
    assert "2-1-1" not in found
