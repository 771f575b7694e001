"""`transactional: true`: after each commit of a table its transactions are whole, whatever is killed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from services.postgres import Postgres
from sources.database import pipeline
from sources.database.kills import Process, Writer, kept_whole, same_in_the_end

pytestmark = [pytest.mark.services, pytest.mark.crash]

TABLES = """
create schema app;
create table app.account (id int primary key, balance int);
create table app.other (id int primary key);
insert into app.account select g, 100 from generate_series(1, 100) g;
"""
DDL = """
begin;
lock table app.account;
update app.account set balance = balance + id where id <= 60;
alter table app.account add column extra text;
alter table app.account rename column extra to more;
create table app.late (id int primary key);
alter publication calve_p add table app.late;
insert into app.late values (1);
update app.account set balance = balance - id, more = 'm' where id <= 60;
insert into app.other values (-1);
commit;
begin;
alter table app.other add column extra text;
commit;
begin;
lock table app.account;
update app.account set balance = balance + id where id <= 40;
insert into app.other values (-2, 'x');
update app.account set balance = balance - id where id <= 40;
commit;
"""
"""A transaction that changes its tables, and one in which a table comes that was changed before.

Between them nothing is locked: statements that are sent together are one transaction up to the next `commit`, and
writers lock the first table before the second.
"""


class Transfers(Writer):
    """Moves amounts between rows; sometimes the sender is a row that is deleted, the receiver a new one."""

    def transaction(self) -> list[str]:
        one, many = self.random.randint(1, 90), self.random.choice([1, 3, 40, 90])
        gone = self.random.randint(1, 100)
        return [
            f"begin; update app.account set balance = balance - 7 where id between {one} and {one + many};",
            f"insert into app.other values ({self.random.randrange(1 << 30)}) on conflict do nothing;",
            f"update app.account set balance = balance + 7 where id between {one} and {one + many};",
            f"update app.account set balance = balance + (select balance from app.account where id = {gone}) "
            f"where id = (select min(id) from app.account where id <> {gone}) "
            f"and exists (select from app.account where id = {gone});",
            f"delete from app.account where id = {gone};",
            f"insert into app.account values ({gone}, 50) on conflict do nothing;",
            "update app.account set balance = balance - 50 where id = (select max(id) from app.account); commit",
        ]


def test_every_commit_of_a_table_has_whole_transactions(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    with Postgres() as server:
        database = server.create_database("whole")
        server.run(TABLES, database=database)
        process = Process(tmp_path, "postgres", server.port, database, transactional=True, small=True)
        writer = Transfers(lambda: server.connect(database), seed)
        kept_whole(process, writer, lambda: server.run(DDL, database=database), reloads=True)
        rows = server.run("select id, row_to_json(a) from app.account a", database=database)
        same_in_the_end(process, {"account": {row[0] or "": json.loads(row[1] or "") for row in rows}}, seed)
    assert pipeline.Store(tmp_path).state("sum") == 10_000
    assert pipeline.Store(tmp_path).rows("late") == {"1": {"id": 1}}
