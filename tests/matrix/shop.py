"""One server of a database with tables, the sessions that write to them, and what happens to it."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from calve.sources.database.connection import ClosedError, ServerError
from services.mysql import MARIADB, MYSQL, MySql
from services.postgres import Postgres
from sources.database.kills import Writer
from sources.mysql import test_kill as mysql
from sources.postgres import test_kill as postgres

__all__ = ["KINDS", "Cutter", "Shop", "again"]

KINDS = ("postgres", "mysql", "mariadb")
MORE_PAIRS = 500


class Shop:
    """One server with tables, and what happens to it.

    Args:
        kind: One of `KINDS`.
        is_small: Whether the tables are a fraction of their size, and are written to more slowly.
    """

    def __init__(self, kind: str, is_small: bool = False) -> None:
        self.kind, self._is_small = kind, is_small
        self.events: Counter[str] = Counter()
        self._columns = 0
        self._is_wide = False
        if kind == "postgres":
            self.server: Any = Postgres(max_wal_senders="24").start()
            self.database = self.server.create_database("kills")
            tables = [postgres.TABLES]
        else:
            self.server = MySql(MYSQL if kind == "mysql" else MARIADB).start()
            self.database = self.server.create_database("app")
            tables = mysql.TABLES
        if is_small:
            tables = [one.replace("12000", "2000").replace("5000", "1500") for one in tables]
        self._run(*tables)
        self._run("create table app.lost (id int primary key, n int not null)", "insert into app.lost values (1, 1)")

    def _run(self, *statements: str) -> list[Any]:
        if self.kind == "postgres":
            return self.server.run(*statements, database=self.database)
        return self.server.run(*statements)

    def connect(self) -> Any:
        return self.server.connect(self.database) if self.kind == "postgres" else self.server.connect()

    def writer(self, seed: int) -> Writer:
        made = postgres.PostgresWriter if self.kind == "postgres" else mysql.MysqlWriter
        writer: Writer = made(self.connect, seed)
        if self._is_small:
            writer.pause_seconds = 0.6
        return writer

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

    def fill(self) -> None:
        """Add a column that older rows have a value in, of which the log has no trace: the table is compared."""
        self._columns += 1
        self._run(f"alter table app.item add column more_{self._columns} varchar(20) default 'd{self._columns}'")
        self.events["columns added with a default"] += 1

    def widen(self) -> None:
        """Widen a column; the table is written again."""
        if self._is_wide:
            return
        word = "alter column v type" if self.kind == "postgres" else "modify v"
        self._run(f"alter table app.pair {word} bigint")
        self._is_wide = True
        self.events["columns widened"] += 1

    def truncate(self) -> None:
        """Empty a table, which stops it until it is loaded again; then put rows into it."""
        numbers = "generate_series(1, {}) n" if self.kind == "postgres" else mysql.NUMBERS
        rows = f"select n % 100, concat('t', n), n from {numbers.format(MORE_PAIRS)}"
        self._run("truncate app.pair", f"insert into app.pair {rows}")
        self.events["tables truncated"] += 1

    def end(self) -> None:
        """Write a last row."""
        self._run("insert into app.pair values (-1, 'end', 0)")

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
    """Ends all connections from time to time.

    Args:
        shop: Whose connections.
        seed: Of the moments.
        most_seconds: The longest time between two of them.
    """

    def __init__(self, shop: Shop, seed: int, most_seconds: float) -> None:
        super().__init__(daemon=True)
        self._shop, self._chance, self._most_seconds = shop, random.Random(seed), most_seconds
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.wait(self._chance.uniform(0.5, self._most_seconds)):
            try:
                self._shop.cut()
            except (ClosedError, ServerError):
                continue


def again(action: Callable[[], None]) -> None:
    """Repeat an action whose session may be cut."""
    while True:
        try:
            return action()
        except (ClosedError, ServerError):
            time.sleep(0.1)
