"""kill -9 of the source and of the database, at any moment of the load, at its end, and in the stream."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from services.mysql import MARIADB, MYSQL, Kind, MySql
from sources.database.kills import KILLS, Process, Writer, killed, reloaded, same_in_the_end

pytestmark = [pytest.mark.services, pytest.mark.crash]

NUMBERS = "(with recursive g as (select 1 n union all select n + 1 from g where n < {}) select n from g) g"
TABLES = [
    "set session cte_max_recursion_depth = 20000",
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


KINDS = [MYSQL, MARIADB] if "CALVE_KILLS" in os.environ else [MYSQL]
"""MariaDB has the same code but for the events that begin a transaction."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_after_kills_at_any_moment_the_rows_are_those_of_the_database(kind: Kind, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    with MySql(kind) as server:
        server.create_database("app")
        server.run(*(TABLES if kind == MYSQL else TABLES[1:]))

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


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_tables_are_loaded_anew_while_others_go_on_whatever_is_killed(kind: Kind, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    tick = ["create table app.tick (id int primary key, n int)", "insert into app.tick values (1, 0), (2, 0), (3, 0)"]
    with MySql(kind) as server:
        server.create_database("app")
        tables = [statement.replace("12000", "3000") for statement in TABLES]
        server.run(*(tables if kind == MYSQL else tables[1:]), *tick, "alter table app.item add column extra text")
        process = Process(tmp_path, "mysql", server.port, "")
        writers = [Ticker(server.connect, seed + number) for number in range(2)]
        reloaded(process, writers, lambda: server.run("truncate app.pair"))
        ticks = server.run("select id, json_object('id', id, 'n', n) from app.tick")
        expected = {**wanted(server), "tick": {row[0] or "": json.loads(row[1] or "") for row in ticks}}
        same_in_the_end(process, expected, seed)
