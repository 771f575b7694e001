"""One server of a database with tables, the sessions that write to them, and what happens to it."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from calve.sources.database.connection import ClosedError, ServerError
from services.mysql import MARIADB, MYSQL, MYSQL_5, MySql
from services.postgres import Postgres
from sources.database.kills import Process, Writer
from sources.database.writers import MYSQL_TABLES, NUMBERS, POSTGRES_TABLES, MysqlWriter, PostgresWriter

__all__ = ["KINDS", "Cutter", "Shop", "again"]

KINDS = ("postgres", "mysql", "mariadb")
MYSQL_KINDS = {"mysql": MYSQL, "mariadb": MARIADB, "mysql-5": MYSQL_5}
MORE_PAIRS = 500


class Shop:
    """One server with tables, and what happens to it.

    Args:
        kind: One of `KINDS`.
        is_small: Whether the tables are a fraction of their size, and are written to more slowly.
        items: The rows of `app.item`, unless it is small.

    Attributes:
        source: The kind of the source that reads it.
    """

    def __init__(self, kind: str, is_small: bool = False, items: int = 12_000) -> None:
        self.kind, self._is_small = kind, is_small
        self.source = "postgres" if kind == "postgres" else "mysql"
        self.events: Counter[str] = Counter()
        self._columns: list[str] = []
        self._is_wide = False
        if kind == "postgres":
            self.server: Any = Postgres(max_wal_senders="24").start()
            self.database = self.server.create_database("kills")
            tables = [POSTGRES_TABLES]
        else:
            self.server = MySql(MYSQL_KINDS[kind]).start()
            self.database = self.server.create_database("app")
            tables = MYSQL_TABLES
        if is_small:
            tables = [statement.replace("12000", "2000").replace("5000", "1500") for statement in tables]
        self.run(*[statement.replace("12000", str(items)) for statement in tables])
        self.run("create table app.lost (id int primary key, n int not null)", "insert into app.lost values (1, 1)")

    def run(self, *statements: str) -> list[Any]:
        """Run statements; return the rows of the last one."""
        if self.kind == "postgres":
            return self.server.run(*statements, database=self.database)
        return self.server.run(*statements)

    def connect(self) -> Any:
        return self.server.connect(self.database) if self.kind == "postgres" else self.server.connect()

    def writer(self, seed: int) -> Writer:
        writer: Writer = (PostgresWriter if self.kind == "postgres" else MysqlWriter)(self.connect, seed)
        if self._is_small:
            writer.pause_seconds = 0.6
        return writer

    def process(self, folder: Path, **options: object) -> Process:
        """Return a process whose source follows the tables."""
        return Process(folder, self.source, self.server.port, self.database, **options)

    def wanted(self) -> dict[str, dict[str, dict]]:
        """Return the rows of the tables by key, with the columns that they have by now."""
        escaped = {"\\": "\\\\", "|": "\\|"}
        pairs = self.rows("pair", "a", "b", "v")
        return {
            "item": {str(row["id"]): row for row in self.rows("item", "id", "v", "large", *self._columns)},
            "pair": {f"{row['a']}|{''.join(escaped.get(text, text) for text in row['b'])}": row for row in pairs},
        }

    def rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        function = "json_build_object" if self.kind == "postgres" else "json_object"
        fields = ", ".join(f"'{name}', {name}" for name in columns)
        return [json.loads(text) for (text,) in self.run(f"select {function}({fields}) from app.{table}")]

    def add(self, name: str, kind: str = "varchar(20)") -> None:
        """Add a column to a table."""
        self._columns.append(name)
        self.run(f"alter table app.item add column {name} {kind}")

    def change(self) -> None:
        """Change a table."""
        name, number = f"more_{len(self._columns) + 1}", len(self._columns) + 1
        self.add(name)
        self.run(f"update app.item set {name} = 'm{number}' where id % 7 = {number % 7}")
        self.events["columns added"] += 1

    def fill(self) -> None:
        """Add a column that older rows have a value in, of which the log has no trace: the table is compared."""
        number = len(self._columns) + 1
        self.add(f"more_{number}", f"varchar(20) default 'd{number}'")
        self.events["columns added with a default"] += 1

    def widen(self) -> None:
        """Widen a column; the table is written again."""
        if self._is_wide:
            return
        word = "alter column v type" if self.kind == "postgres" else "modify v"
        self.run(f"alter table app.pair {word} bigint")
        self._is_wide = True
        self.events["columns widened"] += 1

    def truncate(self) -> None:
        """Empty a table, which stops it until it is loaded again; then put rows into it."""
        numbers = "generate_series(1, {}) n" if self.kind == "postgres" else NUMBERS
        rows = f"select n % 100, concat('t', n), n from {numbers.format(MORE_PAIRS)}"
        self.run("truncate app.pair", f"insert into app.pair {rows}")
        self.events["tables truncated"] += 1

    def end(self) -> None:
        """Write a last row."""
        self.run("insert into app.pair values (-1, 'end', 0)")

    def lose(self) -> None:
        """Change a key, which cannot be followed."""
        drop = "drop constraint lost_pkey" if self.kind == "postgres" else "drop primary key"
        self.run("insert into app.lost values (2, 2)", f"alter table app.lost {drop}, add primary key (id, n)")
        self.run("insert into app.lost values (3, 3)")
        self.events["keys changed"] += 1

    def cut(self) -> None:
        """End all connections."""
        if self.kind == "postgres":
            self.run("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'calve%'")
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


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
