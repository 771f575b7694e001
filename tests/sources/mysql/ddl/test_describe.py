"""Servers whose log does not describe columns: tables equal the database, or are stopped with the reason."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from calve.errors import SourceUnavailableError
from calve.sources.database import reload
from calve.sources.database.connection import ServerError
from calve.sources.database.table import DatabaseTable
from calve.sources.mysql.catalog.database import MysqlCatalog
from calve.sources.mysql.system import MysqlSystem
from calve.state.local_folder import LocalFolder
from services.mysql import MARIADB, MYSQL, MYSQL_5, Kind, MySql
from sources.mysql.follow import Follower, check_all_types, settings_of, stopped_in

pytestmark = pytest.mark.services

SILENT = {MYSQL_5: {}, MYSQL: {"binlog_row_metadata": "MINIMAL"}, MARIADB: {"binlog_row_metadata": "NO_LOG"}}


@pytest.fixture(scope="module", params=SILENT, ids=lambda kind: f"{kind.name}-{kind.version}")
def server(request: pytest.FixtureRequest) -> Iterator[MySql]:
    kind: Kind = request.param
    with MySql(kind, **SILENT[kind]) as running:
        yield running


def test_every_type_has_the_values_of_the_database_from_the_load_and_from_the_log(
    server: MySql, tmp_path: Path
) -> None:
    check_all_types(server, tmp_path)


class Shop:
    """A database, and what follows it.

    Args:
        server: The server.
        folder: A new folder.
        *statements: What is there before the load; ends with the first rows.
        **more: Settings.
    """

    def __init__(self, server: MySql, folder: Path, *statements: str, **more: Any) -> None:
        self.server = server
        server.run("drop database if exists shop", "create database shop character set utf8mb4")
        self.run(*statements)
        self.follower = Follower(settings_of(server, "shop", **{"on_unlogged_change": "ignore", **more}), folder)
        self.follower.read()

    def run(self, *statements: str) -> None:
        self.server.run(*statements, database="shop")

    @property
    def stopped(self) -> dict[str, str]:
        return stopped_in(self.follower.folder)

    def reload(self, *tables: str) -> None:
        """Load tables again."""
        reload.request(LocalFolder(self.follower.folder), 0, [f"shop.{table}" for table in tables])
        self.follower.read()

    def same(self, table: str) -> bool:
        """Return whether the rows are those of the database."""
        columns = [row[0] or "" for row in self.server.run(f"show columns from shop.`{table}`")]
        rows = self.server.run(f"select {', '.join(f'`{name}`' for name in columns)} from shop.`{table}`")
        found = self.follower.renamed(table)
        followed = [[None if row.get(name) is None else str(row[name]) for name in columns] for row in found]
        return sorted(map(repr, followed)) == sorted(map(repr, rows))


T = (
    "create table t (id int primary key, a int, b int, e enum('x', 'y'), s set('p', 'q'), "
    "c varchar(20) character set latin1, f varchar(10), u smallint)",
    "create table other (id int primary key)",
    "insert into t values (1, 1, 2, 'x', 'p', 'ä', 'f', 1)",
)
ROW = "insert into t (id, e, s, c) select max(id) + 1, 'y', 'q', 'ö' from t"
STEPS = [
    ["alter table t change a b int, change b a int", "update t set a = 5, b = 6"],
    ["alter table t modify e enum('y', 'x')"],
    ["alter table t modify s set('q', 'new', 'p')", "update t set s = 'new,p' where id = 1"],
    ["alter table t modify c varchar(5) character set utf8mb4"],  # as many bytes as before
    ["alter table t add n varchar(9) first, add m decimal(20, 3) after id", "update t set m = 1.5, n = 'ü'"],
    ["alter table t drop column f"],
    ["alter table t modify u smallint unsigned", "update t set u = 65535"],
    ["alter table t modify u int unsigned", "update t set u = 4294967295"],
    ["alter table t convert to character set latin1", "update t set n = 'é'"],
    ["alter table t add index (a), comment 'x'", "analyze table t", "drop index a on t"],
    ["alter table t change m `x y` decimal(30, 3), add v int as (a + 1)", "update t set a = 7"],
]


def test_a_table_is_followed_over_ddl_that_the_rows_do_not_show(server: MySql, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path, *T)
    for step in STEPS:
        shop.run(*step, ROW, "insert into other select count(*) from t")
        shop.follower.read()
        assert shop.stopped == {}
        assert shop.same("t"), step
    shop.run(*(statement for step in STEPS[:1] + STEPS[9:10] + STEPS[:1] for statement in step[:1]), ROW)
    shop.follower.read()
    assert shop.same("t"), "several statements without rows between them"
    assert shop.same("other")


def test_older_rows_keep_the_columns_that_they_had_and_what_cannot_be_known_is_stopped(
    server: MySql, tmp_path: Path
) -> None:
    shop = Shop(server, tmp_path, *T, "create table u (id int primary key, a int, b int)")
    rows = ["insert into t (id, a, e) values (9, 9, 'y')", "insert into u values (1, 1, 2)"]
    swap = "alter table {} change a b int, change b a int"
    last = ["insert into t (id, a, e) values (10, 10, 'y')", "insert into u values (2, 1, 2)"]
    between = [swap.format("u"), "insert into u values (3, 1, 2)", "alter table u add index (a)", swap.format("u")]
    new = [
        "create table new (id int primary key, a int, b int)",
        "insert into new values (1, 1, 2)",
        swap.format("new"),
    ]
    shop.run(*rows, swap.format("t"), "alter table t modify e enum('y', 'x')", *between, *last, *new)
    shop.run("insert into other values (1)")
    shop.follower.read()
    assert shop.same("t"), "all statements that change it come between rows that the catalog need not describe"
    assert shop.same("other")
    assert set(shop.stopped) == {"shop.u", "shop.new"}
    for why in shop.stopped.values():
        assert why.startswith("it changed again before its columns could be read")
    assert shop.follower.rows["u"] == {"1": {"id": 1, "a": 1, "b": 2}}, "everything before is written"
    shop.reload("u", "new")
    shop.run("insert into u values (4, 3, 4)", "insert into new values (2, 5, 6)")
    shop.follower.read()
    assert shop.stopped == {}
    assert shop.same("u")
    assert shop.same("new")


def test_what_comes_again_after_a_crash_has_the_columns_that_it_had(server: MySql, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path, *T)
    for step in STEPS[:3]:
        shop.run("insert into t (id) select max(id) + 1 from t", *step, ROW)
        shop.follower.read()
        (tmp_path / "seen.json").unlink(missing_ok=True)
    shop.run(STEPS[3][0], ROW)
    shop.follower.read()
    assert shop.stopped == {}
    assert shop.same("t")


def test_a_statement_that_is_not_in_the_log_stops_the_table(server: MySql, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path, *T)
    shop.run("insert into t (id) values (2)", "insert into other values (2)")
    shop.follower.read()
    shop.run("set sql_log_bin = 0", STEPS[0][0])
    shop.run(ROW, "insert into other values (3)")
    shop.follower.read()
    assert shop.stopped["shop.t"].startswith("its columns changed without a statement in the log")
    assert shop.same("other")


def test_a_statement_has_the_character_set_of_its_session(server: MySql, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path, "create table `tÃ¤` (id int primary key, a int, b int)")
    shop.run("set names latin1", STEPS[0][0].replace("table t", "table `tä`"))
    shop.run("insert into `tÃ¤` values (1, 2, 3)", "insert into `tÃ¤` values (2, 2, 3)")
    shop.follower.read()
    assert shop.stopped == {}
    assert shop.same("tÃ¤")


FLIPS = [
    ("modify e enum('x', 'y')", "modify e enum('y', 'x')"),
    ("change a b int, change b a int",),
    ("modify c varchar(20) character set latin1", "modify c varchar(5) character set utf8mb4"),
    ("add k int", "drop column k"),
    ("add index i (a)", "drop index i"),
]
BUSY = [
    f"create table busy{number} (id int primary key, a int, b int, e enum('y', 'x'), c varchar(5))"
    for number in range(3)
]
SECONDS = float(os.environ.get("CALVE_DESCRIBE_SECONDS", "3"))


class Busy(threading.Thread):
    """Writes rows all the time, or changes tables by turns.

    Args:
        server: The server.
        database: The database, which has the tables `BUSY`.
        seed: Of what it does.
        flips: What it does to tables; it writes rows if there are none.

    Attributes:
        still: Who has it keeps it from doing anything.
    """

    def __init__(self, server: MySql, database: str, seed: int, flips: Sequence[Sequence[str]] = ()) -> None:
        super().__init__(daemon=True)
        self._server, self._database, self._random, self._flips = server, database, random.Random(seed), flips
        self.enough, self.still, self.failed = threading.Event(), threading.Lock(), ""

    def run(self) -> None:
        turns: Counter[tuple[int, int]] = Counter()
        with self._server.connect() as connection:
            connection.query(f"use {self._database}")
            while not self.enough.wait(self._random.choice([0, 0.3, 0.9]) if self._flips else 0.002):
                table = self._random.randrange(3)
                statement = self._row(f"busy{table}")
                if self._flips:
                    at, flip = self._random.choice([*enumerate(self._flips)])
                    turns[table, at] += 1
                    statement = f"alter table busy{table} {flip[(turns[table, at] - 1) % len(flip)]}"
                try:
                    with self.still:
                        connection.query(statement)
                except ServerError as error:
                    self.failed = self.failed or f"{statement}: {error}"

    def _row(self, table: str) -> str:
        chance = self._random
        values = f"{chance.randrange(9)}, {10 + chance.randrange(9)}, '{chance.choice('xy')}', '{chance.choice('äöé')}'"
        if chance.random() < 0.7:
            return f"replace into {table} (id, a, b, e, c) values ({chance.randrange(200)}, {values})"
        return f"delete from {table} where id = {chance.randrange(200)}"


def test_amid_ddl_and_writers_a_table_equals_the_database_or_is_stopped(server: MySql, tmp_path: Path) -> None:
    shop = Shop(server, tmp_path, *BUSY)
    seed = random.randrange(1 << 30)
    busy = [Busy(server, "shop", seed, FLIPS), Busy(server, "shop", seed + 1), Busy(server, "shop", seed + 2)]
    for one in busy:
        one.start()
    timer = threading.Timer(SECONDS, lambda: [one.enough.set() for one in busy])
    timer.start()
    reloads = 0
    while timer.is_alive():
        shop.follower.read()
        if stopped := [name.removeprefix("shop.") for name in shop.stopped]:
            with busy[0].still:  # columns that change places during a load are another matter
                shop.reload(*stopped)
            reloads += 1
    for one in busy:
        one.join()
        assert not one.failed
    shop.follower.read()
    stopped = [name.removeprefix("shop.") for name in shop.stopped]
    for why in shop.stopped.values():
        assert why.startswith("it changed again before its columns could be read")
    for table in {"busy0", "busy1", "busy2"}.difference(stopped):
        assert shop.same(table), (seed, reloads)
    shop.reload(*stopped)
    assert shop.stopped == {}
    assert all(map(shop.same, stopped)), (seed, reloads)


def test_a_start_that_is_tried_again_reads_nothing_from_before_its_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows from before have other columns by then, which a log that does not describe them does not tell."""
    check, failed = MysqlSystem._require_unchanged, []

    def changed(self: MysqlSystem, database: MysqlCatalog, tables: Sequence[DatabaseTable], start: int) -> None:
        if not failed:
            failed.append(start)
            server.run("insert into t values (2, 'ö')", "alter table t modify c varchar(5)", database="shop")
        check(self, database, tables, start)

    monkeypatch.setattr(MysqlSystem, "_require_unchanged", changed)
    with MySql(MYSQL_5) as server:
        server.run("create database shop character set utf8mb4")
        server.run("create table t (id int primary key, c varchar(20) character set latin1)", database="shop")
        server.run("insert into t values (1, 'ä')", database="shop")
        follower = Follower(settings_of(server, "shop", on_unlogged_change="ignore"), tmp_path)
        with pytest.raises(SourceUnavailableError):
            follower.read()
        follower.read()
        server.run("insert into t values (3, 'é')", database="shop")
        rows = follower.read()["t"]
    assert {key: row["c"] for key, row in rows.items()} == {"1": "ä", "2": "ö", "3": "é"}
