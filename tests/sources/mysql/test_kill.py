"""kill -9 of the source and of the database, at any moment of the load, at its end, and in the stream."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.sources.database import reload
from calve.state.local_folder import LocalFolder
from kit.running import until
from services.mysql import MARIADB, MYSQL, MYSQL_5, Kind, MySql
from services.objects import ObjectStore
from sources.database import pipeline
from sources.database.kills import KILLS, PLACES, Process, Writer, killed, overview, place, reloaded, same_in_the_end
from sources.mysql.ddl.test_describe import BUSY, FLIPS, Busy

pytestmark = [pytest.mark.services, pytest.mark.crash]

NUMBERS = (
    "(select @n := @n + 1 n from (select @n := 0) zero, information_schema.collations a, "
    "information_schema.collations b limit {}) g"
)
TABLES = [
    "create table app.item (id bigint primary key, v int, large text)",
    "create table app.pair (a int, b varchar(100) collate utf8mb4_bin, v int, primary key (a, b))",
    f"insert into app.item select n, 0, if(n % 50 = 0, repeat(md5(n), 100), null) from {NUMBERS.format(12000)}",
    f"insert into app.pair select n % 100, concat('b', n), n from {NUMBERS.format(5000)}",
    "analyze table app.item, app.pair",  # the number of ranges follows from the sizes
]


class MysqlWriter(Writer):
    """Changes rows of both tables."""

    def transaction(self) -> list[str]:
        count = self.random.choice([1, 1, 1, 3, 30])
        changes = [self.change() for _ in range(count)]
        return ["begin", *changes, self.random.choice(["commit"] * 9 + ["rollback"])]

    def change(self) -> str:
        one, other = self.random.randint(1, 7000), self.random.randint(1, 7000)
        return self.random.choice(
            [
                f"update app.item set v = v + 1 where id = {one}",
                f"update app.item set v = v + 1 where id in ({', '.join(str(one + 500 * n) for n in range(20))})",
                f"update app.item set large = repeat(md5('{other}'), 90) where id = {one}",
                f"delete from app.item where id = {one}",
                f"insert ignore into app.item (id, v) values ({20000 + one * 7000 + other}, 2)",
                f"insert ignore into app.item (id, v, large) values ({one}, 1, repeat('x', {other}))",
                f"update ignore app.item set id = {one} where id = {other}",
                f"insert ignore into app.pair values ({one % 100}, 'n|{other}', {one})",
                f"delete from app.pair where a = {one % 100} and v % 7 = 0",
                f"replace into app.pair values ({one % 100}, 'b{other}', {one})",
                f"update ignore app.pair set b = concat(b, '\\\\') where a = {one % 100} and v = {other}",
            ]
        )


def wanted(server: MySql, more: str = ", 'extra', extra") -> dict[str, dict[str, dict]]:
    """Give the rows of both tables by key; `more`: the added columns of `item`."""
    items = server.run(f"select json_object('id', id, 'v', v, 'large', large{more}) from app.item order by id")
    pairs = server.run("select json_object('a', a, 'b', b, 'v', v) from app.pair")
    escaped = {"\\": "\\\\", "|": "\\|"}
    found = [json.loads(row[0] or "") for row in pairs]
    return {
        "item": {str(row["id"]): row for row in (json.loads(one[0] or "") for one in items)},
        "pair": {f"{row['a']}|{''.join(escaped.get(each, each) for each in row['b'])}": row for row in found},
    }


KINDS = [MYSQL, MARIADB, MYSQL_5] if "CALVE_KILLS" in os.environ else [MYSQL]
"""MariaDB has the same code but for the events that begin a transaction."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_after_kills_at_any_moment_the_rows_are_those_of_the_database(kind: Kind, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    with MySql(kind) as server:
        server.create_database("app")
        server.run(*TABLES)

        def shake(number: int) -> None:
            if number == KILLS // 3:
                server.run("alter table app.item add column extra text")
            if number == KILLS // 2:
                server.stop(kill=True)
                server.start()
            if number % 3 == 2:
                server.run("flush binary logs")

        process = Process(tmp_path, "mysql", server.port, "")
        killed(process, seed, [MysqlWriter(server.connect, seed + number) for number in range(2)], shake)
        server.run("update app.item set extra = 'e' where id % 3 = 0")
        same_in_the_end(process, wanted(server), seed)


class Ticker(MysqlWriter):
    """Changes a row at a time, and those of `tick`, which only grow."""

    def transaction(self) -> list[str]:
        time.sleep(0.1)
        return [self.change(), f"update app.tick set n = n + 1 where id = {self.random.randint(1, 3)}"]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_tables_are_loaded_anew_while_others_go_on_whatever_is_killed(
    kind: Kind, where: str, tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(1 << 30)
    tick = ["create table app.tick (id int primary key, n int)", "insert into app.tick values (1, 0), (2, 0), (3, 0)"]
    with MySql(kind) as server:
        server.create_database("app")
        tables = [statement.replace("12000", "3000") for statement in TABLES]
        server.run(*tables, *tick, "alter table app.item add column extra text")
        process = Process(tmp_path, "mysql", server.port, "", **place(where, object_store, monkeypatch))
        writers = [Ticker(server.connect, seed + number) for number in range(2)]
        reloaded(process, writers, lambda: server.run("truncate app.pair"))
        ticks = server.run("select id, json_object('id', id, 'n', n) from app.tick")
        expected = {**wanted(server), "tick": {row[0] or "": json.loads(row[1] or "") for row in ticks}}
        same_in_the_end(process, expected, seed)


def test_amid_kills_and_ddl_that_the_log_does_not_describe_a_table_is_right_or_stopped(tmp_path: Path) -> None:
    chance, store = random.Random(), pipeline.Store(tmp_path)
    names = ("busy0", "busy1", "busy2")

    def stopped() -> list[str]:
        with contextlib.suppress(SourceError):  # no load has begun
            return [
                name for name, what in overview(LocalFolder(tmp_path / "source")).items() if what.startswith("stopped")
            ]
        return []

    with MySql(MYSQL_5) as server:
        server.create_database("app")
        server.run(*BUSY, "create table last (id int primary key)", "insert into last values (1)", database="app")
        process = Process(tmp_path, "mysql", server.port, "", on_unlogged_change="ignore")
        flips = [flip for flip in FLIPS if "change" not in flip[0] and "add k" not in flip[0]]
        busy = [Busy(server, "app", chance.random(), flips if number == 0 else ()) for number in range(3)]
        for one in busy:
            one.start()
        for _ in range(KILLS):
            process.start()
            enough = store.commits + chance.randrange(1, 9)
            until(
                lambda enough=enough: store.commits >= enough or len(stopped()) == len(names),
                "batches are committed, or all tables are stopped, after which there are none",
            )
            process.kill()
            if found := stopped():
                reload.request(LocalFolder(tmp_path / "source"), 0, found)
        for one in busy:
            one.enough.set()
            one.join()
            assert not one.failed
        server.run("insert into app.last values (2)")
        process.start()
        until(lambda: "2" in store.rows("last"), "everything is read")
        reload.request(LocalFolder(tmp_path / "source"), 0, stopped())
        expected = {
            name: {
                row[0] or "": json.loads(row[1] or "")
                for row in server.run(
                    f"select id, json_object('id', id, 'a', a, 'b', b, 'e', e, 'c', c) from app.{name}"
                )
            }
            for name in names
        }
        same_in_the_end(process, expected, 0)
