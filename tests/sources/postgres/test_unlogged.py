"""What the stream does not carry: a table equals the database, or is stopped with the reason, or is loaded again by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calve.sources.tables import Tables
from services.postgres import Postgres
from sources.mysql.follow import Follower, postgres_settings, stopped_in

pytestmark = pytest.mark.services

COLUMNS = "id int primary key, n int, c varchar(10), e mood, g int generated always as (id + 1) stored"
ROWS = "(1, 1, 'one', 'sad'), (2, null, null, 'glad')"
EXACT = {
    "added": ["alter table {} add a int, add a2 text default null"],
    "default_later": ["alter table {} add a int", "alter table {} alter a set default 5"],
    "dropped": ["alter table {} drop n"],
    "renamed": ["alter table {} rename n to m", "alter table {} add n int", "update {} set n = 5 where id = 1"],
    "longer": ["alter table {} alter c type varchar(20)"],
    "to_text": ["alter table {} alter c type text"],
    "rewritten": ["vacuum full {}", "cluster {} using {}_pkey"],
    "constrained": [
        "update {} set n = 7",
        "alter table {} alter n set not null, alter n set default 1, add check (n < 9)",
    ],
    "analyzed": ["create index on {} (n)", "analyze {}", "vacuum {}"],
    "replaced": ["insert into {} values (1, 9), (4, 4) on conflict (id) do update set n = excluded.n + 1"],
    "child": ["alter table {} add foreign key (n) references parent (id) on delete cascade", "delete from parent"],
    "computed": ["alter table {} add a int generated always as (n + 1) stored"],
}
AGAIN = "was dropped, and there is another one of that name"
FILLED = "older rows have a value in the new column"
REWRITTEN = "its rows were rewritten, and may have other values in its column"
ROW = "insert into {} (id) values (3)"
STOPPED = {
    "again": (["alter table {} drop n, add n int", ROW], AGAIN),
    "again_last": (["alter table {} drop e", "alter table {} add e mood", ROW], AGAIN),
    "again_without_rows": (["alter table {} drop e, add e mood"], AGAIN),
    "again_with_rows": (["alter table {} drop n", ROW, "alter table {} add n int"], AGAIN),
    "again_by_name": (["alter table {} drop n, add m int", "alter table {} rename m to n", ROW], AGAIN),
    "filled": (["alter table {} add a int default 5", ROW], FILLED),
    "filled_without_rows": (["alter table {} add a text not null default 'x'"], FILLED),
    "filled_by_rows": (["alter table {} add a uuid default gen_random_uuid()", ROW], REWRITTEN),
    "numbered": (["alter table {} add a serial", ROW], REWRITTEN),
    "expression": (["alter table {} alter g drop expression", ROW], FILLED),
    "doubled": (["alter table {} alter n type int using n * 2", ROW], REWRITTEN),
    "doubled_without_rows": (["alter table {} alter n type int using n * 2"], REWRITTEN),
    "wider": (["alter table {} alter n type bigint", ROW], REWRITTEN),
}
LABELS = "a label of an enumeration has another name"
PARTED = "create table {} (id int primary key, n int) partition by range (id)"
PART = "create table {}_{} partition of {} for values from ({}) to ({})"
PARTS = {
    "attached": (
        ["create table loose (id int primary key, n int)", "insert into loose values (501, 1)",
         "alter table {} attach partition loose for values from (500) to (600)"],
        "a partition was attached",
    ),
    "detached": (["alter table {} detach partition {}_1"], "a partition was dropped or detached"),
    "removed": (["drop table {}_1"], "a partition was dropped or detached"),
    "emptied": (["truncate {}_1"], "a partition was truncated"),
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


class Shop:
    """A followed database with a table for each case.

    Args:
        server: The server.
        database: Its name.
        folder: A new folder.
        **more: Settings.
    """

    def __init__(self, server: Postgres, database: str, folder: Path, **more: Any) -> None:
        self.server, self.database = server, server.create_database(database)
        self.run("create type mood as enum ('sad', 'glad')", "create type size as enum ('s', 'l')")
        self.run("create table parent (id int primary key)", "insert into parent values (1)")
        self.run("create table labelled (id int primary key, s size)", "insert into labelled values (1, 's')")
        for name in (*EXACT, *STOPPED):
            self.run(f"create table {name} ({COLUMNS})", f"insert into {name} values {ROWS}")
        for name in (*PARTS, "parted"):
            self.run(PARTED.format(name), PART.format(name, 1, name, 0, 100), PART.format(name, 2, name, 100, 200))
            self.run(f"insert into {name} values (1, 1), (101, 1)")
        settings = postgres_settings(
            server,
            database,
            slot=f"slot_{database}",
            tables=Tables(include=["public.*"], exclude=["public.loose", "public.*_1"]),
            **more,
        )
        self.follower = Follower(settings, folder)
        self.follower.read()

    def run(self, *statements: str, name: str = "") -> None:
        self.server.run(*(one.replace("{}", name) for one in statements), database=self.database)

    def same(self, table: str) -> bool:
        """Return whether the rows are those of the database, without generated columns."""
        generated = (
            "array(select attname::text from pg_attribute where attgenerated <> '' and attrelid = '{}'::regclass)"
        )
        sql = f"select row_to_json(t)::jsonb - {generated.format(table)} from {table} t"
        rows = self.server.run(sql, database=self.database)
        expected = [json.loads(row[0] or "") for row in rows]
        names = set(expected[0]) if expected else set()
        found = [{name: row.get(name) for name in names} for row in self.follower.renamed(table)]
        one, other = (
            sorted(json.dumps(row, default=str, sort_keys=True) for row in rows) for rows in (found, expected)
        )
        return one == other


def test_a_table_is_exact_or_stopped_when_values_change_without_rows_in_the_stream(
    server: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(server, "unlogged", tmp_path, on_unlogged_change="fail")
    shop.run("insert into added (id) values (9)", "alter type mood add value 'new' before 'sad'")
    for name, statements in {**EXACT, **{one: found for one, (found, _) in (STOPPED | PARTS).items()}}.items():
        shop.run(*statements, name=name)
    shop.run(PART.format("parted", 3, "parted", 200, 300), "insert into parted values (201, 2)")
    shop.follower.read()
    stopped = {name.removeprefix("public."): why for name, why in stopped_in(tmp_path).items()}
    for name in (*EXACT, "parted", "labelled"):
        assert name not in stopped, stopped[name]
        assert shop.same(name), name
    for name, (_, why) in (STOPPED | PARTS).items():
        assert why in stopped.get(name, ""), name
    shop.run("drop table added")
    shop.run("alter type size rename value 's' to 'small'")
    shop.follower.read()
    assert stopped_in(tmp_path)["public.labelled"].startswith(LABELS)
    assert "dropped in PostgreSQL, but not in the target: public.added" in caplog.text


def test_a_table_that_changed_without_a_trace_is_read_again_and_compared_by_itself(
    server: Postgres, tmp_path: Path
) -> None:
    shop = Shop(server, "healed", tmp_path)
    for name, (statements, _) in (STOPPED | PARTS).items():
        shop.run(*statements, name=name)
    shop.run("alter type size rename value 's' to 'small'")
    shop.follower.read()
    assert stopped_in(tmp_path) == {}
    for name in (*STOPPED, *PARTS, "labelled"):
        assert shop.same(name), name
    shop.run("insert into wider values (9, 1 << 40)", "delete from doubled where id = 1")
    shop.follower.read()
    assert shop.same("wider")
    assert shop.same("doubled")


def test_a_table_that_cannot_be_compared_is_stopped_with_the_reason_and_not_read_again_and_again(
    server: Postgres, tmp_path: Path
) -> None:
    shop = Shop(server, "refused", tmp_path)
    shop.follower.fault = "its target has rows of other tables"
    shop.run(*STOPPED["filled"][0], name="filled")
    for _ in range(2):
        shop.follower.read()
        [(name, why)] = stopped_in(tmp_path).items()
        assert (name, why) == (
            "public.filled",
            "it changed without a trace in the log, and its target has rows of other tables",
        )


RELOADED = ("again", "filled", "filled_by_rows", "doubled", "expression")


def test_a_table_is_loaded_anew_by_itself_if_that_is_set(server: Postgres, tmp_path: Path) -> None:
    shop = Shop(server, "reloaded", tmp_path, on_unlogged_change="reload")
    for name in RELOADED:
        shop.run(*STOPPED[name][0], name=name)
    shop.run("alter type size rename value 's' to 'small'")
    shop.run(*PARTS["attached"][0], name="attached")
    for _ in range(len(RELOADED) + 4):
        shop.follower.read()
    assert stopped_in(tmp_path) == {}
    for name in (*RELOADED, "labelled", "attached"):
        assert shop.same(name), name


def test_older_values_stay_if_that_is_set_and_the_log_says_so_once(
    server: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(server, "ignored", tmp_path, on_unlogged_change="ignore")
    shop.run(*STOPPED["filled"][0], name="filled")
    for _ in range(2):
        shop.follower.read()
    assert stopped_in(tmp_path) == {}
    assert {key: row.get("a") for key, row in shop.follower.rows["filled"].items()} == {"1": None, "2": None, "3": 5}
    assert caplog.text.count("public.filled is not what it is in PostgreSQL") == 1
