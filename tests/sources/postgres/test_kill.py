"""kill -9 of the source and of the database, at any moment of the load, at its end, and in the stream."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from services.objects import ObjectStore
from services.postgres import Postgres
from sources.database.kills import KILLS, PLACES, Process, Writer, killed, place, reloaded, same_in_the_end

pytestmark = [pytest.mark.services, pytest.mark.crash]

TABLES = """
create schema app;
create table app.item (id bigint primary key, v int, large text);
alter table app.item alter large set storage external;
create table app.pair (a int, b text, v int, primary key (a, b));
insert into app.item select g, 0, case when g % 50 = 0 then repeat(md5(g::text), 100) end from generate_series(1, 12000) g;
insert into app.pair select g % 100, 'b' || g, g from generate_series(1, 5000) g;
"""


class PostgresWriter(Writer):
    """Changes rows of both tables."""

    def transaction(self) -> list[str]:
        count = self.random.choice([1, 1, 1, 3, 30])
        changes = "".join(self.change() for _ in range(count))
        return [f"begin; {changes} {self.random.choice(['commit'] * 9 + ['rollback'])}"]

    def change(self) -> str:
        one, other = self.random.randint(1, 7000), self.random.randint(1, 7000)
        return self.random.choice(
            [
                f"update app.item set v = v + 1 where id = {one};",
                f"update app.item set v = v + 1 where id % 500 = {one % 10 * 50};",
                f"update app.item set large = repeat(md5('{other}'), 90) where id = {one};",
                f"delete from app.item where id = {one};",
                "insert into app.item select max(id) + 1, 2 from app.item on conflict do nothing;",
                f"insert into app.item values ({one}, 1, repeat('x', {other})) on conflict (id) do nothing;",
                f"update app.item set id = {one} where id = {other} and not exists (select from app.item where id = {one});",
                f"insert into app.pair values ({one % 100}, 'n|{other}', {one}) on conflict do nothing;",
                f"delete from app.pair where a = {one % 100} and v % 7 = 0;",
                f"update app.pair set b = b || '\\' where a = {one % 100} and v = {other};",
            ]
        )


def wanted(server: Postgres, database: str) -> dict[str, dict[str, dict]]:
    items = server.run("select row_to_json(i) from app.item i order by id", database=database)
    pairs = server.run("select row_to_json(p) from app.pair p", database=database)
    escaped = {"\\": "\\\\", "|": "\\|"}
    found = [json.loads(row[0] or "") for row in pairs]
    return {
        "item": {str(row["id"]): row for row in (json.loads(one[0] or "") for one in items)},
        "pair": {f"{row['a']}|{''.join(escaped.get(each, each) for each in row['b'])}": row for row in found},
    }


@pytest.mark.parametrize("where", PLACES)
def test_after_kills_at_any_moment_the_rows_are_those_of_the_database(
    where: str, tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(1 << 30)
    with Postgres() as server:
        database = server.create_database("kills")
        server.run(TABLES, database=database)

        def shake(number: int) -> None:
            if number == KILLS // 3:
                server.run("alter table app.item add column extra text", database=database)
            if number == KILLS // 2:
                server.stop(kill=True)
                server.start()

        process = Process(tmp_path, "postgres", server.port, database, **place(where, object_store, monkeypatch))
        writers = [PostgresWriter(lambda: server.connect(database), seed + number) for number in range(2)]
        killed(process, seed, writers, shake)
        server.run("update app.item set extra = 'e' where id % 3 = 0", database=database)
        same_in_the_end(process, wanted(server, database), seed)


class Ticker(PostgresWriter):
    """Changes a row at a time, and those of `tick`, which only grow."""

    def transaction(self) -> list[str]:
        time.sleep(0.1)
        return [self.change(), f"update app.tick set n = n + 1 where id = {self.random.randint(1, 3)}"]


@pytest.mark.parametrize("where", PLACES)
def test_tables_are_loaded_anew_while_others_go_on_whatever_is_killed(
    where: str, tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(1 << 30)
    tick = "create table app.tick (id int primary key, n int); insert into app.tick values (1, 0), (2, 0), (3, 0)"
    more = "alter table app.item add column extra text"
    with Postgres() as server:
        database = server.create_database("kills")
        server.run(TABLES.replace("12000", "3000"), tick, more, database=database)
        process = Process(tmp_path, "postgres", server.port, database, **place(where, object_store, monkeypatch))
        writers = [Ticker(lambda: server.connect(database), seed + number) for number in range(2)]
        reloaded(process, writers, lambda: server.run("truncate app.pair", database=database))
        ticks = server.run("select id, row_to_json(t) from app.tick t", database=database)
        expected = {**wanted(server, database), "tick": {row[0] or "": json.loads(row[1] or "") for row in ticks}}
        same_in_the_end(process, expected, seed)
