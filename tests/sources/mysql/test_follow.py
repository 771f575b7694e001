"""Types, changes of rows and of tables, on both servers, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.errors import PositionLostError, SourceUnavailableError
from calve.sources.database import full_reload, overview
from calve.sources.database.connection import ClosedError
from calve.sources.mysql import source, system
from calve.state.local_folder import LocalFolder
from kit.running import until
from services.mysql import MARIADB, MYSQL, Kind, MySql
from sources.mysql.edges import ODD
from sources.mysql.follow import Follower, check_all_types, settings_of, stopped_in

pytestmark = pytest.mark.services


@pytest.fixture(scope="module", params=[MYSQL, MARIADB], ids=lambda kind: kind.name)
def server(request: pytest.FixtureRequest) -> Iterator[MySql]:
    kind: Kind = request.param
    with MySql(kind) as running:
        yield running


def test_every_type_has_the_values_of_the_database_from_the_load_and_from_the_log(
    server: MySql, tmp_path: Path
) -> None:
    check_all_types(server, tmp_path)


def test_values_without_a_place_keep_their_texts(server: MySql, tmp_path: Path) -> None:
    server.create_database("odd")
    fields = ", ".join(f"c{number} {kind}" for number, kind in enumerate(ODD))
    rows = [(number, at, value) for number, values in enumerate(ODD.values()) for at, value in enumerate(values)]
    inserts = [f"insert into odd (id, c{number}) values ({10 * number + at}, {value})" for number, at, value in rows]
    server.run(f"create table odd (id int primary key, {fields})", *inserts, database="odd")
    follower = Follower(settings_of(server, "odd"), tmp_path)
    loaded = dict(follower.read()["odd"])
    server.run("update odd set id = id + 100", *inserts, database="odd")
    streamed = follower.read()["odd"]
    for number, at, value in rows:
        for found in (loaded, streamed):
            assert str(found[str(10 * number + at)][f"c{number}"]).startswith(value.strip("'"))


def test_a_row_is_loaded_that_is_larger_than_a_packet_and_than_the_server_takes(server: MySql, tmp_path: Path) -> None:
    server.create_database("large")
    server.run("set global max_allowed_packet = 67108864")
    server.run("create table t (id int primary key, x longtext)", database="large")
    sizes = {"1": 20_000_000, "2": (1 << 24) - 1, "3": 1}
    try:
        for key, size in sizes.items():
            server.run(f"insert into t values ({key}, repeat('a', {size}))", database="large")
    finally:
        server.run("set global max_allowed_packet = 1048576")
    rows = Follower(settings_of(server, "large"), tmp_path).read()["t"]
    assert {key: row["x"] == "a" * sizes[key] for key, row in rows.items()} == dict.fromkeys(sizes, True)


DDL_TABLES = (
    "create table t (id int primary key, a int, b varchar(10) character set latin1, c int, g bigint as (a + 1) virtual)",
    "insert into t (id, a, b, c) values (1, 1, 'ä', 1), (2, 2, 'b', 2)",
    "create table other (id int primary key)",
    "create table gone (id int primary key)",
    "insert into gone values (1)",
)
DDL_CHANGES = (
    "update t set a = a + 1",
    "alter table t change column a c2 bigint, change c a int, drop column b",
    "update t set a = 7 where id = 1",
    "alter table t add column e enum('x', 'y') first, add d decimal(5,1) default 2.5",
    "insert into t (id, c2, a, e) values (3, 9000000000, 3, 'y')",
    "alter table t modify e enum('new', 'x', 'y')",
    "insert into t (id, e) values (4, 'y')",
    "begin",
    "insert into other values (1), (2)",
    "update t set id = 20 where id = 2",
    "commit",
    "create table no_key (id int)",
    "insert into no_key values (1)",
    "drop table gone",
)


def test_tables_change_and_rows_follow(server: MySql, tmp_path: Path) -> None:
    server.create_database("ddl")
    server.run(*DDL_TABLES, database="ddl")
    follower = Follower(settings_of(server, "ddl", on_unlogged_change="ignore"), tmp_path)
    follower.read()
    later = "create table later (id int primary key)" + (" select 5 as id" if server.kind == MARIADB else "")
    server.run(*DDL_CHANGES, later, "insert into later values (6)", database="ddl")
    found = follower.read()
    expected = server.run("select id, c2, a, e, g, d from t", database="ddl")
    assert {int(row[0] or 0): row[1:5] for row in expected} == {
        row["id"]: [None if row.get(name) is None else str(row[name]) for name in ("c2", "a", "e", "g")]
        for row in found["t"].values()
    }
    assert {key: str(row.get("d")) for key, row in found["t"].items()} == {
        "1": "None",  # the default was added later, and the log has no trace of it
        "20": "2.5",
        "3": "2.5",
        "4": "2.5",
    }
    assert set(found["other"]) == {"1", "2"}
    assert set(found["later"]) == ({"5", "6"} if server.kind == MARIADB else {"6"})
    assert "no_key" not in found
    _check_what_comes_again(server, follower, tmp_path)


def _check_what_comes_again(server: MySql, follower: Follower, folder: Path) -> None:
    server.run("insert into t (id) values (5)", "alter table t change c2 c3 bigint", database="ddl")
    follower.read()
    (folder / "seen.json").unlink()  # as after a crash: the insert comes again, with a description that is older
    before = len(list((folder / "tables").iterdir()))
    server.run("insert into t (id, c3) values (6, 6)", database="ddl")
    assert follower.read()["t"]["6"]["c3"] == 6
    assert len(list((folder / "tables").iterdir())) == before + 1, "only the row after the statement is described"
    server.run("create table gone (id int primary key)", "insert into gone values (2)", database="ddl")
    follower.read()
    assert stopped_in(folder) == {"ddl.no_key": NO_KEY, "ddl.gone": "it was dropped and created again"}


NO_KEY = (
    "it has no key, so its changes cannot be applied without no_key: mirror, or no_key: append, which makes each change a "
    "row"
)
STOPS = [
    (["truncate table t"], "it was truncated"),
    (["alter table t drop primary key, add primary key (id, n)", "insert into t values (3, 3)"], "its key has other"),
    (["alter table t drop primary key", "insert into t values (3, 3)"], "its key has other columns now"),
    (["alter table t modify n varchar(9)", "insert into t values (3, 3)"], "may have changed values of its column n"),
    (["rename table t to renamed", "insert into renamed values (3, 3)"], "it is now called stops.renamed"),
    (["create or replace table t (id int primary key)", "insert into t values (3)"], "dropped and created again"),
    (["set session binlog_format = statement", "insert into t values (3, 3)"], "binlog_format = STATEMENT"),
    (["set session binlog_row_image = minimal", "update t set n = 9"], "all columns"),
]


@pytest.fixture
def follower(server: MySql, tmp_path: Path) -> Follower:
    """Give what has read a database with two tables."""
    server.run(
        "drop database if exists stops",
        "create database stops",
        "create table stops.t (id int primary key, n int not null)",
        "create table stops.other (id int primary key, n int not null)",
        "insert into stops.t values (1, 1)",
        "insert into stops.other values (1, 1)",
    )
    found = Follower(settings_of(server, "stops", on_unlogged_change="fail"), tmp_path)
    found.read()
    return found


@pytest.mark.parametrize(("statements", "why"), STOPS, ids=[why for _, why in STOPS])
def test_what_cannot_be_followed_stops_its_table_alone_after_everything_before_it(
    server: MySql, follower: Follower, tmp_path: Path, statements: list[str], why: str
) -> None:
    if server.kind != MARIADB and "or replace" in statements[0]:
        statements = ["drop table t", statements[0].replace("or replace ", ""), *statements[1:]]
    server.run("insert into t values (2, 2)", *statements, database="stops")
    server.run("insert into stops.other values (2, 2)")
    for _ in range(2):  # it stays stopped
        follower.read()
        assert set(follower.rows["t"]) == {"1", "2"}
        assert why in stopped_in(tmp_path)["stops.t"]
    server.run("update stops.other set n = 3")
    assert {key: row["n"] for key, row in follower.read()["other"].items()} == {"1": 3, "2": 3}


@pytest.mark.parametrize("change", ["drop column n", "change n m int, change m n int"])
def test_a_table_that_changes_during_the_load_is_stopped_alone(server: MySql, tmp_path: Path, change: str) -> None:
    server.run(
        "drop database if exists early",
        "create database early",
        "create table early.t (id int primary key, n int, m int)",
        "create table early.other (id int primary key)",
        "insert into early.t values (1, 1, 2)",
        "insert into early.other values (1)",
    )
    follower = Follower(settings_of(server, "early", on_unlogged_change="fail"), tmp_path)
    follower.before_first_plan = lambda: server.run(f"alter table early.t {change}")
    follower.read()
    assert set(follower.rows) == {"other"}
    assert "it changed during the load" in stopped_in(tmp_path)["early.t"]
    follower = Follower(settings_of(server, "early"), tmp_path / "again")
    follower.before_first_plan = lambda: server.run("alter table early.t change m k int")
    expected = {"id": 1, "k": 2} if change.startswith("drop") else {"id": 1, "k": 1, "n": 2}
    assert follower.read()["t"] == {"1": expected}, "it is read again"
    assert stopped_in(tmp_path / "again") == {}


def test_a_log_that_was_reset_and_has_grown_as_long_since_is_told(server: MySql, tmp_path: Path) -> None:
    def begin(name: str) -> None:
        """Write a log whose last event begins at the same position each time."""
        server.run("reset master", f"create database {name}", f"create table {name}.t (id int primary key)")
        server.run(f"insert into {name}.t values (1)", "insert into grow1.t values (2)")

    begin("grow1")
    follower = Follower(settings_of(server, "grow1"), tmp_path)
    follower.read()
    server.run("insert into grow1.t values (3)")
    assert len(follower.read()["t"]) == 3
    before = server.run("select unix_timestamp()")
    until(lambda: server.run("select unix_timestamp()") != before, "another second")
    server.run("delete from grow1.t where id = 2")
    begin("grow2")
    server.run("insert into grow1.t values (4)", "insert into grow1.t values (5)")
    with pytest.raises(PositionLostError, match="has another file of the name that was read: it was reset"):
        follower.read()


def test_a_log_that_was_reset_is_told_or_all_tables_are_loaded_anew(server: MySql, tmp_path: Path) -> None:
    server.run(
        "drop database if exists lost",
        "create database lost",
        "create table lost.t (id int primary key, gone int, n int)",
        "create table lost.cut (id int primary key)",
        "insert into lost.t values (1, 1, 1), (2, 2, 2)",
        "insert into lost.cut values (1)",
    )
    follower = Follower(settings_of(server, "lost"), tmp_path)
    follower.read()
    server.run("truncate lost.cut", "insert into lost.cut values (3)")
    follower.read()
    server.run("flush binary logs", "insert into lost.t values (3, 3, 3)")
    server.run("delete from lost.t where id = 1", "alter table lost.t drop column gone", "reset master")
    with pytest.raises(PositionLostError, match="Set on_lost_position: reload"):
        follower.read()
    follower.settings = settings_of(server, "lost", on_lost_position="reload")
    opened = source.open(follower.settings, LocalFolder(tmp_path), "p")
    opened.start(follower.position, True)
    until(lambda: opened.backlog(follower.position) and opened.tables_to_empty is not None, "the loss is noticed")
    opened.stop()  # as if it was killed
    assert follower.read() == {"t": {"2": {"id": 2, "n": 2}, "3": {"id": 3, "n": 3}}, "cut": {"3": {"id": 3}}}
    assert stopped_in(tmp_path) == {}
    server.run("update lost.t set n = 4 where id = 2", "insert into lost.cut values (4)")
    found = follower.read()
    assert found["t"]["2"] == {"id": 2, "n": 4}
    assert set(found["cut"]) == {"3", "4"}


def test_a_connection_that_is_cut_as_all_tables_begin_anew_costs_only_another_try(
    server: MySql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.run(
        "drop database if exists cut",
        "create database cut",
        "create table cut.t (id int primary key)",
        "insert into cut.t values (1)",
    )
    follower = Follower(settings_of(server, "cut"), tmp_path)
    follower.read()
    server.run("truncate cut.t", "insert into cut.t values (2)")
    opened = source.open(follower.settings, LocalFolder(tmp_path), "p")
    opened.start(follower.position, False)
    full_reload.request(LocalFolder(tmp_path), 0)
    assert dict(overview.states(LocalFolder(tmp_path))) == {"cut.t": "waiting: all tables are loaded again"}
    opened.backlog(follower.position)
    with monkeypatch.context() as cut:
        cut.setattr(system, "first_place", _cut)
        with pytest.raises(SourceUnavailableError):
            opened.emptied(True)
    assert opened.backlog(follower.position)
    assert [one.name for one in opened.tables_to_empty or []] == ["cut.t"]
    follower.rows = {}
    opened.emptied(True)
    opened.stop()
    assert follower.read() == {"t": {"2": {"id": 2}}}


def _cut(*_: object) -> None:
    raise ClosedError("the connection was lost")
