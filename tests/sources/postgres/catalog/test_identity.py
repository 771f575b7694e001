"""What identifies rows: nothing is published that would stop the application, and no row is lost for want of a key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.sources.postgres import source
from calve.sources.tables import Tables
from services.postgres import Postgres
from sources.mysql.follow import Follower, postgres_settings, stopped_in

pytestmark = pytest.mark.services

DEFERRABLE = "create table t (id int primary key deferrable initially deferred, n int, big text)"
FULL = "alter table t replica identity full"
PARTED = [
    "create table t (id int, r int, n int, primary key (id, r)) partition by range (r)",
    "create table t_1 partition of t for values from (0) to (10)",
    "create table t_2 partition of t for values from (10) to (20)",
]
OWN_INDEX = ["alter table t_2 alter n set not null", "create unique index u on t_2 (n)"]
REFUSED = {
    "deferrable": (
        ["create table t (id int primary key deferrable, n int)"],
        "deferrable primary key, which is no replica identity",
        FULL,
    ),
    "generated": (
        ["create table t (a int, g int generated always as (a + 1) stored primary key)"],
        "g in the key of public.t is generated, and PostgreSQL does not publish generated columns",
        "create unique index u on t (a); alter table t alter a set not null, replica identity using index u",
    ),
    "generated_in_index": (
        ["create table t (id int primary key, g int generated always as (id + 1) stored not null)",
         "create unique index u on t (id, g)", "alter table t replica identity using index u"],
        "g in the key of public.t is generated",
        "alter table t replica identity default",
    ),
    "nothing": (
        ["create table t (id int primary key)", "alter table t replica identity nothing"],
        "public.t has no replica identity",
        "alter table t replica identity default",
    ),
    "dropped_index": (
        ["create table t (id int primary key, n int not null default 0)", "create unique index u on t (n)",
         "alter table t replica identity using index u", "drop index u"],
        "the index of the replica identity of public.t was dropped",
        "alter table t replica identity default",
    ),
    "leaf": (
        [*PARTED, *OWN_INDEX, "alter table t_2 replica identity using index u"],
        "the partition public.t_2 of public.t has a replica identity without id, r",
        "alter table t_2 replica identity full",
    ),
    "leaf_nothing": (
        [*PARTED, "alter table t_2 replica identity nothing"],
        "the partition public.t_2 of public.t has no replica identity",
        "alter table t_2 replica identity default",
    ),
    "leaf_unlogged": (
        [*PARTED[:2], "create unlogged table t_2 partition of t for values from (10) to (20)"],
        "the partition public.t_2 of public.t is unlogged",
        "alter table t_2 set logged",
    ),
}  # fmt: skip
LISTED = "create publication other for table t_2 (n)"
FOREIGN = {
    "list": (LISTED, "other has only some of its columns, which rules out REPLICA IDENTITY FULL", "alter publication other "
             "set table t_2; alter table t_2 replica identity full"),
    "list_of_inserts": (f"{LISTED} with (publish = 'insert')", "", "alter table t_2 replica identity full"),
    "filter": ("create publication other for table t_2 where (n > 0)", "", "alter table t_2 replica identity full"),
}  # fmt: skip
CHANGES = "update t set {0} = {0} where false"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


class Shop:
    """A database with a table `t`, and what follows it."""

    def __init__(self, server: Postgres, name: str, folder: Path, *statements: str, **more) -> None:
        self.server, self.database = server, server.create_database(name)
        self.run(*statements)
        self.settings = postgres_settings(server, name, tables=Tables(include=["public.t"]), **more)
        self.follower, self.folder = Follower(self.settings, folder), folder

    def run(self, *statements: str) -> list:
        return self.server.run(*statements, database=self.database)

    def check(self) -> None:
        """Read to the end, and compare with the database."""
        self.follower.read()
        columns = [
            row[0] for row in self.run("select attname from pg_attribute where attrelid = 't'::regclass and attnum > 0")
        ]
        expected = sorted(self.run(f"select {', '.join(f'{name}::text' for name in columns)} from t"))
        found = self.follower.rows.get("t", {}).values()
        assert sorted([None if row[name] is None else str(row[name]) for name in columns] for row in found) == expected
        assert stopped_in(self.folder) == {}


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_could_not_be_followed_is_refused_by_name_before_it_is_published_and_the_remedy_helps(
    server: Postgres, tmp_path: Path, name: str
) -> None:
    statements, why, remedy = REFUSED[name]
    shop = Shop(server, f"refused_{name}", tmp_path, *statements)
    for action in (lambda: source.check(shop.settings, "p"), shop.follower.read):
        with pytest.raises(SourceError, match=why):
            action()
    assert shop.run("select count(*) from pg_publication")[0][0] == "0"
    shop.run(remedy)
    column = shop.run("select attname from pg_attribute where attrelid = 't'::regclass and attnum = 1")[0][0]
    shop.run(
        f"insert into t ({column}) values (1)" if "leaf" not in name else "insert into t values (1, 1, 1), (1, 11, 2)"
    )
    shop.follower.read()
    shop.run(f"update t set {column} = {column} + 5", f"delete from t where {column} = 0")
    shop.follower.read()
    assert [row[column] for row in shop.follower.rows["t"].values()] == [6] * (2 if "leaf" in name else 1)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_remedy_does_not_make_the_server_refuse_changes_because_of_other_publications(
    server: Postgres, tmp_path: Path, name: str
) -> None:
    other, why, remedy = FOREIGN[name]
    index = "alter table t_2 replica identity using index u"
    shop = Shop(server, f"foreign_{name}", tmp_path, *PARTED, *OWN_INDEX, index, other)
    shop.run("insert into t values (1, 1, 1), (1, 11, 2)", "update t set n = n + 1")
    with pytest.raises(SourceError) as refused:
        source.check(shop.settings, "p")
    assert why in refused.value.message
    assert ("REPLICA IDENTITY FULL" in refused.value.hint) is (not why)
    for statement in remedy.split("; "):
        shop.run(statement)
    shop.check()
    shop.run("update t set n = n + 1", "delete from t where r = 1")
    shop.check()


def test_a_remedy_of_the_primary_key_respects_the_condition_of_another_publication(
    server: Postgres, tmp_path: Path
) -> None:
    made = "create table t (id int primary key, n int)", "alter table t replica identity nothing"
    shop = Shop(server, "foreign_key", tmp_path, *made, "create publication other for table t where (n > 0)")
    with pytest.raises(SourceError) as refused:
        source.check(shop.settings, "p")
    assert 'ALTER TABLE "public"."t" REPLICA IDENTITY FULL' in refused.value.hint
    shop.run('ALTER TABLE "public"."t" REPLICA IDENTITY FULL', "insert into t values (1, 1)", "update t set n = 2")
    shop.check()


def test_a_table_that_inherits_from_a_published_one_is_not_published_with_it(server: Postgres, tmp_path: Path) -> None:
    child = "create table child () inherits (t)"
    shop = Shop(server, "inherits", tmp_path, "create table t (id int primary key, n int, big text)", child)
    shop.run("insert into t values (1, 1)", "insert into child values (1, 2), (2, 2)")
    shop.follower.read()
    shop.run("update t set n = n + 1", "delete from t where id = 2")
    shop.follower.read()
    assert {key: row["n"] for key, row in shop.follower.rows["t"].items()} == {"1": 2}


def test_a_large_value_that_did_not_change_is_not_taken_from_a_table_that_inherits(
    server: Postgres, tmp_path: Path
) -> None:
    shop = Shop(server, "large", tmp_path, "create table t (id int primary key, n int, big text)")
    shop.run("create table child () inherits (t)", "alter table t alter big set storage external")
    shop.run("insert into t values (1, 1, repeat('a', 9000))", "insert into child values (1, 1, 'of the child')")
    shop.follower.read()
    shop.run("update only t set n = 2")
    shop.follower.read()
    assert shop.follower.rows["t"]["1"]["big"] == "a" * 9000


LATE = {
    "shift": ["update t set id = id + 1"],
    "shift_back": ["update t set id = id - 1"],
    "reverse": ["update t set id = 100 - id"],
    "swap": ["begin; update t set id = 3 where id = 2; update t set id = 2 where id = 3 and n = 3; commit"],
    "cycle": ["update t set id = case id when 5 then 1 else id + 1 end where id <= 5"],
    "again": ["begin; insert into t values (1, 70, 'x'); delete from t where id = 1 and n = 1; commit"],
    "back_and_forth": ["begin; update t set id = id + 1; update t set id = id - 1; update t set n = n + 1; commit"],
    "twins": ["begin; insert into t values (2, 2, null); delete from t where ctid = (select max(ctid) from t where id = 2); commit"],
    "gone": ["begin; update t set id = 1; delete from t where id = 1 and n <> 4; commit"],
    "altered": ["begin; update t set id = id + 1; set constraints all immediate; alter table t add m int; "
                "update t set id = id + 1, m = id; commit"],
    "emptied": ["begin; update t set id = id + 1; delete from t; commit", "insert into t values (1, 9)"],
    "large": ["update t set big = repeat('b', 9000)", "update t set id = id + 1", "update t set n = n * 2, id = id - 2"],
}  # fmt: skip


LATE_PARTED = [
    "create table t (id int, n int, big text, primary key (id) deferrable initially deferred) partition by range (id)",
    "create table t_1 partition of t for values from (-99) to (5)",
    "create table t_2 partition of t for values from (5) to (999)",
    "alter table t_1 replica identity full",
    "alter table t_2 replica identity full",
]


@pytest.mark.parametrize("root", ["default", "full"])
def test_keys_that_are_checked_late_may_be_shifted_over_partitions(server: Postgres, tmp_path: Path, root: str) -> None:
    shop = Shop(server, f"late_parted_{root}", tmp_path, *LATE_PARTED, f"alter table t replica identity {root}")
    for name, statements in LATE.items():
        if name in ("twins", "altered"):
            continue
        shop.run("begin; delete from t; insert into t (id, n) select n, n from generate_series(1, 9) n; commit")
        shop.run(*statements)
        shop.check()


@pytest.mark.parametrize("how", ["at_once", "in_pieces"])
def test_keys_that_are_checked_late_may_be_shifted_swapped_and_turned_round(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "in_pieces":
        monkeypatch.setattr("calve.sources.database.change_buffer._ENTRY_ROWS", 1)
    shop = Shop(server, f"late_{how}", tmp_path, DEFERRABLE, FULL, "alter table t alter big set storage external")
    for statements in LATE.values():
        shop.run("begin; delete from t; insert into t (id, n) select n, n from generate_series(1, 9) n; commit")
        shop.run(*statements)
        shop.check()


def test_a_table_that_loses_its_identity_is_stopped_and_the_application_goes_on(
    server: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(server, "loses", tmp_path, "create table t (id int primary key, n int)", "insert into t values (1, 1)")
    shop.check()
    shop.run("alter table t drop constraint t_pkey, add primary key (id) deferrable")
    with pytest.raises(Exception, match="does not have a replica identity"):
        shop.run("update t set n = 2")
    shop.follower.read()
    assert "deferrable primary key" in stopped_in(tmp_path)["public.t"]
    assert "public.t is no longer published" in caplog.text
    shop.run("update t set n = 2", "delete from t")


def test_the_identity_of_a_partition_counts_as_it_was_when_its_rows_changed(server: Postgres, tmp_path: Path) -> None:
    shop = Shop(server, "partition", tmp_path, *PARTED, *OWN_INDEX, "alter table t_1 replica identity full")
    shop.run("insert into t values (1, 1, 1), (2, 1, 2), (1, 11, 3), (2, 11, 4)")
    shop.check()
    shop.run("update t set id = id + 5, r = (r + 10) % 20 where id = 1", "delete from t where id = 2 and r = 1")
    shop.check()
    by_index, by_key = (f"alter table t_2 replica identity {what}" for what in ("using index u", "default"))
    shop.run(by_index, "delete from t where r > 10", by_key)
    shop.follower.read()
    assert stopped_in(tmp_path) == {
        "public.t": "the replica identity of its partition public.t_2 lacks id, r, which is in its key"
    }


def test_a_table_that_had_another_identity_for_a_moment_is_stopped(server: Postgres, tmp_path: Path) -> None:
    shop = Shop(server, "moment", tmp_path, "create table t (id int primary key, n int not null unique)")
    shop.run("insert into t values (1, 1), (2, 2)")
    shop.check()
    shop.run("alter table t replica identity using index t_n_key", "delete from t where id = 1")
    shop.run("alter table t replica identity default")
    shop.follower.read()
    assert stopped_in(tmp_path) == {"public.t": "the replica identity lacks id, which is in its key"}
