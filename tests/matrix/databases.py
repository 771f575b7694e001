"""Kills what reads a database, again and again, amid writers, DDL, cut connections and crashes of the server.

A round is one server: PostgreSQL, MySQL or MariaDB in turn. The process with the source and the smallest honest
pipeline behind it (`sources.database.pipeline`) is killed at random moments of the load and of the stream, while three
sessions write, a fourth one changes tables, and a fifth one ends connections. At the end each table must have exactly
the rows of the database, and one whose key was changed must be stopped alone.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calve.sources.database.connection import ClosedError, ServerError
from calve.sources.database.epochs import Epochs
from matrix.round import Counts
from running import until
from services.mysql import MARIADB, MYSQL, MySql
from services.postgres import Postgres
from sources.database import pipeline
from sources.database.kills import Process, Writer
from sources.mysql import test_kill as mysql
from sources.postgres import test_kill as postgres

__all__ = ["KINDS", "play"]

KINDS = ("postgres", "mysql", "mariadb")
KILLS = 12
WRITERS = 3
ANY = "any time"


class Shop:
    """One server with tables, and what happens to it."""

    def __init__(self, kind: str, chance: random.Random) -> None:
        self.kind, self.chance = kind, chance
        self.events: Counter[str] = Counter()
        self._columns = 0
        self._is_wide = False
        if kind == "postgres":
            self.server: Any = Postgres(max_wal_senders="24").start()
            self.database = self.server.create_database("kills")
            self._run(postgres.TABLES)
        else:
            self.server = MySql(MYSQL if kind == "mysql" else MARIADB).start()
            self.database = self.server.create_database("app")
            self._run(*(mysql.TABLES if kind == "mysql" else mysql.TABLES[1:]))
        self._run("create table app.lost (id int primary key, n int not null)", "insert into app.lost values (1, 1)")

    def _run(self, *statements: str) -> list[Any]:
        if self.kind == "postgres":
            return self.server.run(*statements, database=self.database)
        return self.server.run(*statements)

    def connect(self) -> Any:
        return self.server.connect(self.database) if self.kind == "postgres" else self.server.connect()

    def writer(self, seed: int) -> Writer:
        made = postgres.PostgresWriter if self.kind == "postgres" else mysql.MysqlWriter
        return made(self.connect, seed)

    def wanted(self) -> dict[str, dict[str, dict]]:
        """Return the rows of the tables, with the columns that they have by now."""
        names = [f"more_{number}" for number in range(1, self._columns + 1)]
        if self.kind == "postgres":
            return postgres.wanted(self.server, self.database)
        more = "".join(f", '{name}', {name}" for name in names)
        return mysql.wanted(self.server, more)

    def change(self) -> None:
        """Change a table."""
        self._columns += 1
        name = f"more_{self._columns}"
        self._run(f"alter table app.item add column {name} varchar(20)")
        self._run(f"update app.item set {name} = 'm{self._columns}' where id % 7 = {self._columns % 7}")
        self.events["columns added"] += 1

    def widen(self) -> None:
        """Widen a column; the table is written anew."""
        if self._is_wide:
            return
        word = "alter column v type" if self.kind == "postgres" else "modify v"
        self._run(f"alter table app.pair {word} bigint")
        self._is_wide = True
        self.events["columns widened"] += 1

    def lose(self) -> None:
        """Change a key, which cannot be followed."""
        drop = "drop constraint lost_pkey" if self.kind == "postgres" else "drop primary key"
        self._run("insert into app.lost values (2, 2)", f"alter table app.lost {drop}, add primary key (id, n)")
        self._run("insert into app.lost values (3, 3)")
        self.events["keys changed"] += 1

    def cut(self) -> None:
        """End all connections."""
        if self.kind == "postgres":
            self._run("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'calve%'")
        else:
            with self.connect() as connection:
                own = connection.query("select connection_id()")[0][0]
                for row in connection.query("show processlist"):
                    if row[0] != own and row[1] == "root":
                        connection.query(f"kill {row[0]}")
        self.events["connections cut"] += 1

    def crash(self) -> None:
        """Kill the server, and start it again."""
        self.server.stop(kill=True)
        self.server.start()
        self.events["servers crashed"] += 1

    def close(self) -> None:
        self.server.__exit__()


class Cutter(threading.Thread):
    """Ends all connections from time to time."""

    def __init__(self, shop: Shop, seed: int) -> None:
        super().__init__(daemon=True)
        self._shop, self._chance = shop, random.Random(seed)
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.wait(self._chance.uniform(0.5, 4)):
            try:
                self._shop.cut()
            except (ClosedError, ServerError):
                continue


def play(number: int, seed: str, folder: Path) -> tuple[str, Counts]:
    """Play one round; return the kind of the server, and what was found."""
    kind, chance = KINDS[number % len(KINDS)], random.Random(f"{seed}-{number}")
    folder.mkdir(parents=True)
    shop = Shop(kind, chance)
    counts = Counts()
    process = Process(folder, "postgres" if kind == "postgres" else "mysql", shop.server.port, shop.database)
    try:
        _kill(process, shop, chance, counts)
        _compare(process, shop, counts)
    finally:
        if process.runs:
            process.kill()
        shop.close()
    if not counts.lost.total() + counts.duplicated.total():
        shutil.rmtree(folder)
    return kind, counts


def _kill(process: Process, shop: Shop, chance: random.Random, counts: Counts) -> None:
    store = pipeline.Store(process.folder)
    writers: list[Any] = [shop.writer(chance.randrange(1 << 30)) for _ in range(WRITERS)]
    writers.append(Cutter(shop, chance.randrange(1 << 30)))
    for writer in writers:
        writer.start()
    for each in range(KILLS):
        process.start()
        if each >= KILLS / 2:
            until(lambda: store.is_loaded or not process.runs, "the load is committed")
        process.commit(store, chance.randrange(1, 9) if each else 1)
        time.sleep(chance.uniform(0, 0.3) if each else 0)
        process.kill()
        counts.kills["the load" if not store.is_loaded else "the stream"] += 1
        _again(lambda each=each: _shake(each, shop, store.is_loaded, chance))
    process.start()
    for writer in writers:
        writer.enough.set()
        writer.join()
    counts.besides.update(shop.events)


def _shake(each: int, shop: Shop, is_loaded: bool, chance: random.Random) -> None:
    """Do something to the tables, or to the server."""
    if each == KILLS - 2:
        shop.lose()
    if each == KILLS // 2:
        shop.crash()
    if is_loaded and chance.random() < 0.3:
        shop.widen()
    if chance.random() < 0.4:
        shop.change()


def _again(action: Callable[[], None]) -> None:
    """Repeat an action whose session may be cut."""
    while True:
        try:
            return action()
        except (ClosedError, ServerError):
            time.sleep(0.1)


def _compare(process: Process, shop: Shop, counts: Counts) -> None:
    """Wait until the rows are those of the database; count what is not."""
    store = pipeline.Store(process.folder)
    expected = shop.wanted()
    counts.events = store.commits

    def wrong() -> list[tuple[str, int, int]]:
        assert process.runs, (process.folder / "log").read_text()[-3000:]
        return [(name, *_differences(rows, store.rows(name))) for name, rows in expected.items()]

    try:
        until(lambda: not any(lost + more for _, lost, more in wrong()), "the rows are those of the database")
    except AssertionError:
        for name, lost, more in wrong():
            counts.lost[name] += lost
            counts.duplicated[name] += more
    epochs = Epochs(process.folder / "source")
    epochs.load()
    stopped = {table.full_name for table in epochs.tables.values() if table.stopped}
    assert stopped == {"app.lost"}, stopped
    assert set(store.rows("lost")) == {"1", "2"}


def _differences(expected: dict[str, dict], found: dict[str, dict]) -> tuple[int, int]:
    """Count the rows that are missing or other ones, and those that are too many; a column that was added is NULL."""
    same = sum(
        key in found and all(found[key].get(name) == value for name, value in row.items())
        for key, row in expected.items()
    )
    return len(expected) - same, len(found.keys() - expected.keys())
