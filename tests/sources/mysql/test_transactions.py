"""`transactional: true`: after each commit of a table its transactions are whole, whatever is killed."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from calve.sources.database.connection import ServerError
from kit.running import until
from services.mysql import MARIADB, MYSQL, MYSQL_5, Kind, MySql
from sources.database import pipeline
from sources.database.kills import Process, Writer, kept_whole, same_in_the_end
from sources.database.writers import NUMBERS

DEADLOCK = "1213"
KINDS = [MYSQL, MARIADB, MYSQL_5] if "CALVE_KILLS" in os.environ else [MYSQL]

pytestmark = [pytest.mark.services, pytest.mark.crash]

TABLES = [
    "create table app.account (id int primary key, balance int)",
    "create table app.other (id int primary key)",
    f"insert into app.account select n, 100 from {NUMBERS.format(100)}",
]
DDL = ["alter table app.account add column more text", "alter table app.other add column more text"]
AFTER = [
    "begin",
    "update app.account set balance = balance + id where id <= 60",
    "insert into app.other values (-1, 'x')",
    "update app.account set balance = balance - id, more = 'm' where id <= 60",
    "commit",
]
"""A transaction in which a table comes that was changed before, after rows of another one."""


def change(server: MySql) -> None:
    def changed() -> bool:
        try:
            server.run(*AFTER)
        except ServerError as error:
            if error.code != DEADLOCK:
                raise
            return False
        return True

    server.run(*DDL)
    until(changed, "the writer does not come between")


class Transfers(Writer):
    """Moves amounts between rows; sometimes the sender is a row that is deleted, the receiver a new one."""

    def transaction(self) -> list[str]:
        one, many = self.random.randint(1, 90), self.random.choice([1, 3, 40, 90])
        gone = self.random.randint(2, 100)
        return [
            "begin",
            f"update app.account set balance = balance - 7 where id between {one} and {one + many}",
            f"insert ignore into app.other (id) values ({self.random.randrange(1 << 30)})",
            f"update app.account set balance = balance + 7 where id between {one} and {one + many}",
            f"update app.account a join app.account b on b.id = {gone} set a.balance = a.balance + b.balance where a.id = 1",
            f"delete from app.account where id = {gone}",
            f"insert into app.account (id, balance) values ({gone}, 50)",
            "update app.account set balance = balance - 50 where id = 1",
            self.random.choice(["commit"] * 9 + ["rollback"]),
        ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_commit_of_a_table_has_whole_transactions(kind: Kind, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    with MySql(kind) as server:
        server.create_database("app")
        server.run(*TABLES)
        process = Process(tmp_path, "mysql", server.port, "", transactional=True, small=True)
        kept_whole(process, Transfers(server.connect, seed), lambda: change(server), reloads=False)
        rows = server.run("select id, json_object('id', id, 'balance', balance, 'more', more) from app.account")
        expected = {row[0] or "": {"more": None, **json.loads(row[1] or "")} for row in rows}
        same_in_the_end(process, {"account": expected}, seed)
    assert pipeline.Store(tmp_path).state("sum") == 10_000
