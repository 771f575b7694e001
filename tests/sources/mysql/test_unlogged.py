"""What the log does not carry: a table equals the database, or is stopped with the reason, or is loaded again by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.mysql import MARIADB, MYSQL, MYSQL_5, Kind, MySql
from sources.mysql.ddl.test_describe import Shop
from sources.mysql.follow import stopped_in

pytestmark = pytest.mark.services

SERVERS = [(MYSQL, {}), (MARIADB, {"binlog_row_metadata": "NO_LOG"}), (MYSQL_5, {})]
COLUMNS = (
    "id int primary key, n int, c varchar(10) character set utf8mb4, e enum('x', 'y'), d datetime(3), "
    "k decimal(6,2), b bit(3), t time"
)
ROWS = (
    "(1, 1, 'one', 'x', '2024-01-02 03:04:05.678', 1.25, b'101', '10:00:00'), "
    "(2, null, 'ä', 'y', null, 70000.5, null, null)"
)
STRICT, LAX = "set sql_mode = 'STRICT_TRANS_TABLES'", "set sql_mode = ''"
EXACT = {
    "added": ["alter table {} add column a int, add (a2 varchar(9) default null, `key` int null comment 'not null')"],
    "default_later": ["alter table {} add a int", "alter table {} alter a set default 5"],
    "dropped": ["alter table {} drop n"],
    "swapped": ["alter table {} change n id2 int, change k n decimal(6,2)"],
    "wider": ["alter table {} modify n bigint, modify c varchar(20) character set utf8mb4, modify k decimal(9,2)"],
    "finer": ["alter table {} modify d datetime(6)"],
    "labels": ["alter table {} modify e enum('y', 'new', 'x')"],
    "strict": [STRICT, "alter table {} modify n smallint unsigned, modify c varchar(11)", LAX],
    "strict_labels": [STRICT, "alter table {} modify e enum('y', 'x') not null default 'y'", LAX],
    "longer": ["alter table {} modify c text character set utf8mb4"],
    "indexed": ["alter table {} add key (n), add check (n < 5), comment 'drop column n, add column n int'"],
    "replaced": [
        "replace into {} (id, n) values (1, 9)",
        "insert into {} (id, n) values (2, 7) on duplicate key update n = 8",
    ],
    "file": ["load data infile '{folder}/rows.txt' replace into table {} fields terminated by ',' (id, n)"],
}
AMID = "it changed again before its columns could be read"
AGAIN = "was dropped, and there is another one of that name"
FILLED = "older rows have a value in the new column a"
CHANGED = "a statement may have changed values of its column"
STOPPED = {
    "again": (["alter table {} drop n, add n int"], AGAIN),
    "again_later": (["alter table {} drop column n", "alter table {} add column N int first"], AGAIN),
    "again_with_rows": (["alter table {} drop n", "insert into {} (id) values (5)", "alter table {} add n int"], AGAIN),
    "again_with_default": (["alter table {} drop n", "alter table {} add n int default 7"], AGAIN),
    "again_by_name": (["alter table {} drop n", "alter table {} change k n decimal(6,2)"], AGAIN),
    "filled": (["alter table {} add column a int default 5"], FILLED),
    "not_null": (["alter table {} add a varchar(3) not null"], FILLED),
    "stamped": (["alter table {} add a datetime default current_timestamp after id"], FILLED),
    "stamped_too": (["alter table {} add a timestamp"], FILLED),
    "computed": (["alter table {} add a int as (n + 1)"], FILLED),
    "computed_stored": (["alter table {} add a int generated always as (n + 1) stored"], FILLED),
    "among": (["alter table {} add (x int, a int default 1)"], FILLED),
    "to_text": (["alter table {} modify n varchar(9)"], CHANGED),
    "to_bytes_and_back": (["alter table {} modify c varbinary(40)", "alter table {} modify c varchar(10)"], CHANGED),
    "shorter": (["alter table {} modify c varchar(2) character set utf8mb4"], CHANGED),
    "coarser": (["alter table {} modify d datetime"], CHANGED),
    "coarser_strict": ([STRICT, "alter table {} modify d datetime(1)", LAX], CHANGED),
    "rounded": (["alter table {} modify k decimal(6,1)"], CHANGED),
    "narrower": (["alter table {} modify n tinyint"], CHANGED),
    "lost_label": (["alter table {} modify e enum('y')"], CHANGED),
    "more_bits": (["alter table {} modify b bit(6)"], CHANGED),
    "more_digits": (["alter table {} modify t time(2)"], CHANGED),
    "filled_nulls": (["alter table {} modify n int not null"], CHANGED),
    "charset": (["alter table {} convert to character set ascii"], "may have changed texts"),
    "cascading": (
        ["alter table {} add foreign key (n) references parent (id) on delete cascade", "delete from parent"],
        "the foreign key that it has now changes rows without a trace",
    ),
    "emptied": (["alter table {} partition by key (id)", "alter table {} truncate partition p0"], "a partition was"),
    "swap": (["rename table {} to tmp, {}2 to {}, tmp to {}2"], "it is now called shop.tmp"),
    "copied": (
        ["create table _{} like {}", "rename table {} to _{}_old, _{} to {}"],
        "it is now called shop._copied_old",
    ),
}
IGNORING = {"unique_rows": (["alter ignore table {} add unique (k)"], "ALTER IGNORE TABLE may have removed")}
"""Of MariaDB alone."""
PARTS = (
    "create table parts (id int primary key, n int) partition by range (id) (partition p0 values less than (100))",
    "create table part (id int primary key, n int)",
    "insert into parts values (1, 1)",
    "insert into part values (2, 2)",
)
LATER = (
    "create table later (id int primary key, n int, foreign key (n) references parent (id) on update cascade)",
    "insert into later values (1, null)",
)


@pytest.fixture(scope="module", params=SERVERS, ids=lambda each: f"{each[0].name}-{each[0].version}")
def server(request: pytest.FixtureRequest) -> Iterator[MySql]:
    kind: Kind
    kind, options = request.param
    with MySql(kind, secure_file_priv="", **options) as running:
        (running.folder / "rows.txt").write_text("1,44\n7,45\n")
        yield running


def started(server: MySql, folder: Path, **more: Any) -> tuple[Shop, dict[str, list[str]]]:
    """Give a followed database with a table for each case, and the statements of each."""
    cases = {**EXACT, **{name: statements for name, (statements, _) in stops(server).items()}}
    made = ["create table parent (id int primary key)", "insert into parent values (1)", *PARTS]
    for name in [*cases, "swap2"]:
        made += [f"create table {name} ({COLUMNS})", f"insert into {name} values {ROWS}"]
    shop = Shop(server, folder, *made, **{"on_unlogged_change": "fail", **more})
    return shop, {
        name: [one.replace("{}", name).replace("{folder}", str(server.folder)) for one in statements]
        for name, statements in cases.items()
    }


def stops(server: MySql) -> dict[str, tuple[list[str], str]]:
    return {**STOPPED, **IGNORING} if server.kind == MARIADB else STOPPED


def wanted(shop: Shop, table: str) -> list[list[str | None]]:
    """Give the rows of the database; bits as numbers."""
    kinds = {row[0] or "": row[1] or "" for row in shop.server.run(f"show columns from shop.{table}")}
    names = ", ".join(f"bin({name} + 0)" if kind.startswith("bit") else f"`{name}`" for name, kind in kinds.items())
    rows = shop.server.run(f"select {names} from shop.{table}")
    return sorted([[told(value) for value in row] for row in rows], key=repr)


def found(shop: Shop, table: str) -> list[list[str | None]]:
    """Give the rows of the target, with the columns that the database has."""
    names = [row[0] or "" for row in shop.server.run(f"show columns from shop.{table}")]
    return sorted([[told(row.get(name)) for name in names] for row in shop.follower.renamed(table)], key=repr)


def told(value: Any) -> str | None:
    text = None if value is None else str(value)
    return text.rstrip("0") if text and "." in text else text


def test_a_table_is_exact_or_stopped_when_values_change_without_rows_in_the_log(server: MySql, tmp_path: Path) -> None:
    shop, cases = started(server, tmp_path)
    before = {name: set(rows) for name, rows in shop.follower.rows.items()}
    for statements in cases.values():
        shop.run(*statements)
    shop.run("alter table parts exchange partition p0 with table part", *LATER)
    shop.follower.read()
    stopped = {name.removeprefix("shop."): why for name, why in shop.stopped.items()}
    for name in EXACT:
        assert name not in stopped, stopped[name]
        assert found(shop, name) == wanted(shop, name), name
    for name, (_, why) in stops(server).items():
        cannot_know = name == "again_with_rows" and server.kind != MYSQL
        assert (AMID if cannot_know else why) in stopped.get(name, ""), name
        assert before[name] <= set(shop.follower.rows[name]), "rows stay as they were"
    assert "a partition was exchanged with a table" in stopped["parts"]
    assert "a partition was exchanged with a table" in stopped["part"]
    assert "changes rows without a trace in the log" in stopped["later"]
    assert "swap2" in stopped


HEALED = ("again", "filled", "computed", "lost_label", "filled_nulls", "emptied", "swap", "copied")


def test_a_table_that_changed_without_a_trace_is_read_again_and_compared_by_itself(
    server: MySql, tmp_path: Path
) -> None:
    shop, cases = started(server, tmp_path, on_unlogged_change="compare")
    for name in (*HEALED, "rounded"):
        shop.run(*cases[name])
    shop.run("alter table parts exchange partition p0 with table part")
    shop.run("drop table parent", "create table parent (id int primary key, n int)", "insert into parent values (7, 7)")
    shop.follower.read()
    stopped = dict(shop.stopped)
    reason = stopped.pop("shop.rounded")
    assert (
        reason == "the type of k changed from decimal(6, 2) to decimal(6, 1); drop its target table, then reload again"
    )
    assert stopped.keys() == {"shop.tmp"}, "it is there for a moment"
    for name in (*HEALED, "swap2", "parts", "part", "parent"):
        assert found(shop, name) == wanted(shop, name), name
    for name in HEALED:
        shop.run(f"delete from {name} where id = 1")
    shop.follower.read()
    for name in HEALED:
        assert found(shop, name) == wanted(shop, name), name


RELOADED = ("again", "filled", "computed", "coarser", "filled_nulls")


def test_a_table_is_loaded_anew_by_itself_if_that_is_set(server: MySql, tmp_path: Path) -> None:
    shop, cases = started(server, tmp_path, on_unlogged_change="reload")
    for name in RELOADED:
        shop.run(*cases[name], f"insert into {name} (id) values (3)")
    shop.run("alter table parts exchange partition p0 with table part", "insert into parent values (9)")
    for _ in range(len(RELOADED) + 4):
        shop.follower.read()
    assert shop.stopped == {}
    for name in (*RELOADED, "parts", "part", "parent"):
        assert found(shop, name) == wanted(shop, name), name


def test_older_values_stay_if_that_is_set_and_the_log_says_so(
    server: MySql, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop, cases = started(server, tmp_path, on_unlogged_change="ignore")
    shop.run(*cases["filled"], "insert into filled (id) values (3)")
    shop.follower.read()
    assert shop.stopped == {}
    assert {key: row.get("a") for key, row in shop.follower.rows["filled"].items()} == {"1": None, "2": None, "3": 5}
    assert "shop.filled is not what it is in MySQL" in caplog.text


def test_columns_that_change_without_a_statement_in_the_log_stop_the_table(server: MySql, tmp_path: Path) -> None:
    shop, _ = started(server, tmp_path)
    shop.run("set sql_log_bin = 0", "alter table added add a int default 5")
    shop.run("insert into added (id) values (3)")
    shop.follower.read()
    assert set(stopped_in(tmp_path)) == {"shop.added"}
    assert "its columns changed without a statement in the log" in shop.stopped["shop.added"]
