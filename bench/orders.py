"""A table in PostgreSQL or MySQL, the changes that are made to it, and its sums, which a copy of it must have."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

from services.mysql import MySql
from services.postgres import Postgres

FILL_ROWS = 100_000
LARGE, SMALL = 0.1, 100
"""Two transactions have a tenth of all changes each, the others a hundred changes."""
UPDATED, DELETED = 0.8, 0.2
"""The first rows are updated again and again, the others deleted one after the other."""
COLUMNS = (
    "id bigint primary key, n int, amount numeric(12,2), name {text}, at {time}, active boolean, doc json, "
    "score double precision"
)
INSERT = (
    "insert into orders with recursive numbers(g) as "
    "(select {first} union all select g + 1 from numbers where g < {last}) "
    "select g, g % 100000, (g % 1000000) * 0.01, concat('customer ', g % 5000, ' of the shop'), {time}, g % 3 = 0, "
    """cast(concat('{{"city": "Bern", "visits": ', g % 50, '}}') as json), g * 0.25 from numbers"""
)
SUMS = (
    "count(*), sum(id), sum(n), sum(amount) * 100, sum(length(name)), sum({time}), "
    "sum(case when active then 1 else 0 end), sum(length(cast(doc as {text}))), sum(score) * 4"
)
LAKE_SUMS = (
    "count(*); sum(id); sum(n); CAST(sum(amount) * 100 AS LONG); sum(length(name)); sum(unix_seconds(at)); "
    "sum(CAST(active AS INT)); sum(length(doc)); CAST(sum(score) * 4 AS LONG)"
)


@dataclass(frozen=True)
class Dialect:
    """What differs between the databases."""

    columns: str
    time: str
    seconds: str
    text: str
    setting: str


POSTGRES = Dialect(
    COLUMNS.format(text="text", time="timestamptz"),
    "timestamptz '2026-01-01 00:00:00+00' + g * interval '1 second'",
    "extract(epoch from at)",
    "text",
    "set statement_timeout = 0",
)
MYSQL = Dialect(
    COLUMNS.format(text="text character set utf8mb4", time="timestamp(6)"),
    "timestamp '2026-01-01 00:00:00' + interval g second",
    "unix_timestamp(at)",
    "char",
    "set cte_max_recursion_depth = 1000000000",
)


class Orders:
    """The table `orders` of a running server.

    Attributes:
        rows: How many it had in the beginning.
        count: How many it has after the last `change`.
        last: The highest `id`.
    """

    def __init__(self, server: Postgres | MySql, rows: int) -> None:
        self.rows = self.count = self.last = rows
        self._dialect = MYSQL if isinstance(server, MySql) else POSTGRES
        self._session: Any = server.connect()
        if isinstance(server, MySql):
            self._run("create database shop character set utf8mb4", "use shop")
        self._run(self._dialect.setting, f"create table orders ({self._dialect.columns})")
        for first in range(1, rows + 1, FILL_ROWS):
            self._run(self._insert(first, min(first + FILL_ROWS - 1, rows)))
        self._chance = random.Random(7)
        self._next_deleted = int(rows * UPDATED) + 1

    def change(self, count: int) -> list[int]:
        """Make so many changes; return how many inserts, updates and deletes."""
        large = int(count * LARGE)
        self._run(self._insert(self.last + 1, self.last + large))
        self.last += large
        self._run(f"update orders set n = n + 1, amount = amount + 0.01 where id <= {large}")
        small = (count - 2 * large) // SMALL
        for _ in range(small):
            self.transaction(SMALL)
        inserts, updates, deletes = (each * small for each in shares(SMALL))
        self.count += inserts + large - deletes
        return [inserts + large, updates + large, deletes]

    def transaction(self, count: int) -> float:
        """Make so many changes in one transaction, the last of which inserts the highest `id`; return when it ended."""
        inserts, updates, deletes = shares(count)
        changed = ", ".join(map(str, self._chance.sample(range(1, int(self.rows * UPDATED) + 1), updates)))
        gone = self._next_deleted + deletes
        self._run(
            "begin",
            f"update orders set n = n + 1, amount = amount + 0.01, name = 'changed' where id in ({changed})",
            f"delete from orders where id >= {self._next_deleted} and id < {gone}",
            self._insert(self.last + 1, self.last + inserts),
        )
        at = time.monotonic()
        self._run("commit")
        self._next_deleted = gone
        self.last += inserts
        if gone > self.rows + 1:
            raise SystemExit("too few rows for so many changes: give more --rows, or less --changes or --rounds")
        return at

    def sums(self) -> list[int]:
        """Return what `LAKE_SUMS` must be."""
        sums = SUMS.format(time=self._dialect.seconds, text=self._dialect.text)
        [found] = self._session.query(f"select {sums} from orders")
        return [round(float(each)) if "." in each or "e" in each else int(each) for each in found]

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _insert(self, first: int, last: int) -> str:
        return INSERT.format(first=first, last=last, time=self._dialect.time)

    def _run(self, *statements: str) -> None:
        for each in statements:
            self._session.query(each)


def shares(count: int) -> tuple[int, int, int]:
    """Return how many of some changes are inserts, updates and deletes."""
    updates, deletes = count // 2, count // 10
    return count - updates - deletes, updates, deletes
