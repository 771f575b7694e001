"""A real database into Iceberg tables, by the command: rows, types, changes, and what stops with clear words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from calve.stop_point import VARIABLE
from kit.documents import runnable
from kit.running import Calve
from services.postgres import PASSWORD, Postgres
from sources.postgres.edges import EDGES, ODD, PREPARE
from sources.postgres.exact import sent, told

pytestmark = [pytest.mark.services, pytest.mark.spark]

YAML = """
shop:
  source:
    postgres:
      host: 127.0.0.1
      port: {port}
      database: {database}
      username: {user}
      password: "{password}"
      slot: slot_{database}
      {more}
  sink:
    - iceberg:
        table_identifier: "shop.${{getMetadata(\\"table_name\\")}}"
        auto_create: true
        schema_evolution: true
"""
NOTES = (
    "create table notes (at date, note text)",
    "alter table notes replica identity full",
    "insert into notes values ('2024-01-01', 'a'), ('2024-01-01', 'a'), (null, 'b')",
)
"""A table without a key."""
NOTES_CHANGES = (
    "delete from notes where ctid = '(0,1)'",
    "update notes set at = '2025-01-01', note = 'c' where note = 'b'",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


def yaml(server: Postgres, database: str, more: str = "", user: str = "postgres") -> str:
    return YAML.format(port=server.port, database=database, user=user, password=PASSWORD, more=more)


def once(running: Calve, code: int = 0) -> str:
    """Run to the end of what is there; give what was said."""
    before = len(running.said())
    assert running.once() == code, running.said()[-4000:]
    return running.said()[before:]


def rows(running: Calve, table: str) -> dict[Any, dict[str, Any]]:
    found = running.shared_spark().table(f"lakehouse.{table}").toArrow().to_pylist()
    assert len(found) == len({row["id"] for row in found})
    return {row["id"]: row for row in found}


def test_every_type_has_the_values_of_the_database_after_load_and_stream(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("types")
    columns = {f"c{number}": kind for number, kind in enumerate(EDGES)}
    most = max(map(len, EDGES.values())) + 1
    fields = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    lines = [
        f"({number}, {', '.join((*values, *['NULL'] * most)[number] for values in EDGES.values())})"
        for number in range(most)
    ]
    insert = f"insert into kinds values {', '.join(lines)}"
    server.run(*PREPARE, f"create table kinds (id int primary key, {fields})", insert, database=database)
    running = calve(yaml(server, database))
    once(running)
    loaded = rows(running, "shop.kinds")
    server.run("update kinds set id = id + 100", insert, database=database)
    said = once(running)
    assert "NULL" not in said
    assert running.status("shop")["source"].startswith("slot slot_types: ")
    streamed = rows(running, "shop.kinds")
    for number, row in loaded.items():
        assert repr(row | {"id": number + 100}) == repr(streamed[number + 100])
        assert repr(row) == repr(streamed[number])
    select = ", ".join(sent(kind, name) for name, kind in columns.items())
    for row in server.run(f"set intervalstyle = iso_8601; select id, {select} from kinds", database=database):
        found = streamed[int(row[0] or 0)]
        assert {name: told(kind, found[name]) for name, kind in columns.items()} == dict(
            zip(columns, row[1:], strict=True)
        )


def test_no_value_without_a_place_becomes_null_it_is_a_text_or_its_row_a_dead_letter(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("odd")
    columns = {f"c{number}": kind for number, kind in enumerate(ODD)}
    fields = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    fine = "insert into {} (id, c0) values (1000, '2024-02-29')"
    for table in ("odd", "later"):
        server.run(f"create table {table} (id int primary key, {fields})", fine.format(table), database=database)
    cells = [
        (10 * number + at, name, value)
        for number, (name, values) in enumerate(zip(columns, ODD.values()))
        for at, value in enumerate(values)
    ]
    inserts = "insert into {} (id, {}) values ({}, {})"
    server.run(*(inserts.format("odd", name, key, value) for key, name, value in cells), database=database)
    running = calve(yaml(server, database))
    once(running)
    server.run("update odd set id = id + 2000", database=database)
    server.run(*(inserts.format("later", name, key, value) for key, name, value in cells), database=database)
    once(running)
    texts = {2000 + key: (name, value.strip("'")) for key, name, value in cells if "[]" not in columns[name]}
    found = rows(running, "shop.odd")
    assert {key: (name, found[key][name]) for key, (name, _) in texts.items() if key in found} == texts
    assert str(found[3000]["c0"]) == "2024-02-29"
    assert set(rows(running, "shop.later")) == {1000}
    letters = running.dead_letters("shop")
    assert {each["code"] for each in letters} == {"NOT_COERCIBLE"}
    lists = len(cells) - len(texts)
    assert len(letters) == 2 * lists + len(cells)


def test_changes_of_rows_and_of_columns_follow(server: Postgres, calve: Callable[..., Calve]) -> None:
    database = server.create_database("changes")
    server.run(
        "create table t (id int primary key, n int, large text, gone text)",
        "alter table t alter large set storage external",
        "insert into t select g, g, repeat(md5(g::text), 200), 'g' from generate_series(1, 100) g",
        "create table parted (id int, at date, primary key (id, at)) partition by range (at)",
        "create table parted_a partition of parted for values from ('2024-01-01') to ('2025-01-01')",
        "create table parted_b partition of parted for values from ('2025-01-01') to ('2026-01-01')",
        "insert into parted values (1, '2024-05-05'), (2, '2025-05-05')",
        *NOTES,
        database=database,
    )
    running = calve(yaml(server, database, "on_unlogged_change: ignore\n      no_key: append"))
    once(running)
    assert set(rows(running, "shop.parted")) == {1, 2}
    server.run(
        "update t set n = n + 1 where id <= 10",  # the large value is not sent
        "update t set id = id + 1000 where id <= 3",
        "alter table t add column extra numeric(6,2), alter column n type bigint, drop column gone",
        "alter table t rename column n to renamed",
        "insert into t values (5000, 9000000000, 'new', 1.25)",
        "update t set extra = 2.5 where id = 50",
        "delete from t where id = 60",
        "begin; delete from t where id = 61; rollback",
        "update parted set at = '2024-06-06' where id = 2",
        "insert into parted values (3, '2025-01-02')",
        *NOTES_CHANGES,
        database=database,
    )
    once(running)
    _check_notes(running)
    _check_replay(server, database, running)
    found = rows(running, "shop.t")
    expected = server.run("select row_to_json(t) from t", database=database)
    assert {
        row["id"]: {**row, "extra": str(row["extra"])} for row in (json.loads(one[0] or "") for one in expected)
    } == {
        number: {
            **{name: row[name] for name in ("id", "renamed", "large")},
            "extra": str(row["extra"].normalize() if row["extra"] is not None else None),
        }
        for number, row in found.items()
    }
    assert {number: str(row["at"]) for number, row in rows(running, "shop.parted").items()} == {
        1: "2024-05-05",
        2: "2024-06-06",
        3: "2025-01-02",
    }


def _check_notes(running: Calve) -> None:
    """Check the history of a table without a key, and the statement of the documentation that makes its rows of it."""
    spark = running.shared_spark()
    sql, _ = runnable("docs/databases.md")
    history = spark.table("lakehouse.shop.notes")
    counts = {row[0]: row[1] for row in history.groupBy("change_type").count().collect()}
    assert counts == {"LOAD": 3, "DELETE": 1, "UPDATE_BEFORE": 1, "UPDATE_AFTER": 1}
    found = spark.sql(sql.replace("shop.notes", "lakehouse.shop.notes")).collect()
    assert sorted((str(row["at"]), row["note"], row["times"]) for row in found) == [
        ("2024-01-01", "a", 1),
        ("2025-01-01", "c", 1),
    ]


def _check_replay(server: Postgres, database: str, running: Calve) -> None:
    """Check that a change that became a dead letter is a row of the history when it is sent again."""
    more = "on_unlogged_change: ignore\n      no_key: append"
    given = yaml(server, database, more)
    server.run("insert into notes values ('infinity', 'd')", database=database)
    once(running)
    running.configure(given.replace("auto_create", 'on_type_mismatch: "null"\n        auto_create'))
    said = running.call("dlq", "replay", "pipelines.yaml", "--state", "calve-state").output
    once(running)
    running.configure(given)
    history = running.shared_spark().table("lakehouse.shop.notes")
    assert [row["change_type"] for row in history.where("note = 'd'").collect()] == ["INSERT"], said


STOPS = {
    "cut": ("truncate cut", "it was truncated"),
    "typed": (
        "alter table typed alter column n type text",
        "its rows were rewritten, and may have other values in its column n",
    ),
    "keyed": ("alter table keyed drop constraint keyed_pkey, add primary key (id, n)", "its key has other columns now"),
    "bare": ("alter table bare drop constraint bare_pkey", "its key has other columns now"),
    "named": ("alter table named rename to other_name", "it is now called public.other_name"),
    "made": ("drop table made; create table made (id int primary key, n int)", "it was dropped and created again"),
}


def test_what_cannot_be_followed_stops_its_table_alone_after_everything_before_it(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("stops")
    for name in (*STOPS, "fine"):
        table = f"create table {name} (id int primary key, n int not null)"
        server.run(table, f"insert into {name} values (1, 1)", database=database)
    server.run("create publication calve_shop for all tables", database=database)
    running = calve(yaml(server, database, "on_unlogged_change: fail"))
    once(running)
    for name, (statement, _) in STOPS.items():
        now = "other_name" if name == "named" else name
        after = f"insert into {now} values (3, 3)"
        server.run(
            f"insert into {name} values (2, 2)", statement, after, "update fine set n = n + 1", database=database
        )
    said = once(running, 1)
    assert f"Everything is committed but the rows of {len(STOPS)} stopped tables: public.bare (its key has" in said
    for name, (_, why) in STOPS.items():
        assert f"public.{name} is stopped, and the other tables go on: {why}" in said
        assert set(rows(running, f"shop.{name}")) == ({1} if name == "typed" else {1, 2}), name
    assert {key: row["n"] for key, row in rows(running, "shop.fine").items()} == {1: 1 + len(STOPS)}
    assert "is stopped (" in running.status("shop")["source"]
    server.run("insert into typed values (4, 'x')", "insert into fine values (4, 4)", database=database)
    assert "public.typed is stopped, and is not read: its rows were rewritten" in once(running, 1)
    assert set(rows(running, "shop.typed")) == {1}  # the catalog said so before the stream
    assert set(rows(running, "shop.fine")) == {1, 4}
    _check_that_one_is_loaded_anew(server, running, database)
    _check_that_all_are_loaded_anew(server, running, database)


def _check_that_one_is_loaded_anew(server: Postgres, running: Calve, database: str) -> None:
    listed = running.call("source", "tables", "pipelines.yaml", "--state", "calve-state").output
    assert "public.cut    stopped: it was truncated" in listed
    assert "public.fine   streaming" in listed
    asking = ("source", "reload", "pipelines.yaml", "--state", "calve-state", "--yes")
    assert "cut has no schema" in running.call(*asking, "cut").output
    asked = running.call(*asking, "public.cut").output
    assert asked == "shop: public.cut is loaded again, now or when the pipeline starts\n"
    running.start("--once", environment={VARIABLE: "pipeline.after-clear:1"}).wait(240)
    server.run("insert into cut values (4, 4)", "update fine set n = -1 where id = 4", database=database)
    said = once(running, 1)
    assert "removed all rows of 1 table, " in said
    assert set(rows(running, "shop.cut")) == {3, 4}
    assert {key: row["n"] for key, row in rows(running, "shop.fine").items()} == {1: 1 + len(STOPS), 4: -1}
    listed = running.call("source", "tables", "pipelines.yaml", "--state", "calve-state").output
    assert "public.cut    streaming" in listed
    assert "public.bare   stopped: its key has other columns now" in listed
    server.run("delete from cut where id = 4", database=database)


def _check_that_all_are_loaded_anew(server: Postgres, running: Calve, database: str) -> None:
    server.run("drop table bare", "delete from fine where id = 1", database=database)
    asked = running.call("source", "reload", "pipelines.yaml", "--state", "calve-state", "--yes").output
    assert asked == "shop: all tables are loaded again, now or when the pipeline starts\n"
    assert "all tables are loaded again: somebody has asked for it" in once(running, 1)
    listed = running.call("source", "tables", "pipelines.yaml", "--state", "calve-state").output
    assert [line for line in listed.splitlines() if "stopped" in line] == [
        "public.keyed       stopped: its key has other columns now; drop its target table, then reload again",
        "public.typed       stopped: the type of n changed from int to string; drop its target table, then reload again",
    ]
    assert set(rows(running, "shop.cut")) == {3}
    assert set(rows(running, "shop.fine")) == {4}
    server.run("insert into cut values (5, 5)", "delete from fine", database=database)
    running.configure(yaml(server, database, "tables: {exclude: [public.keyed, public.typed]}"))  # they are given up
    said = once(running)
    assert "loaded again" not in said
    assert "is stopped" not in said
    running.configure(yaml(server, database))
    assert set(rows(running, "shop.cut")) == {3, 5}
    assert rows(running, "shop.fine") == {}
    running.shared_spark().sql("drop table lakehouse.shop.typed")
    running.call("source", "reload", "pipelines.yaml", "--state", "calve-state", "--yes")
    said = once(running)
    assert "the key of the table shop.keyed is id, but that of its source public.keyed is id, n" in said
    assert "NO_KEY 3" in said
    assert {key: row["n"] for key, row in rows(running, "shop.typed").items()} == {1: "1", 2: "2", 3: "3", 4: "x"}


def test_what_the_database_lacks_is_told_with_the_sql_that_mends_it(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("rights")
    server.run(
        "create table t (id int primary key)",
        "create table no_key (a int)",
        "create table float_key (f float8 primary key)",
        f"create role reader login replication password '{PASSWORD}'",
        database=database,
    )
    running = calve(yaml(server, database, user="reader"))
    told = running.call("validate", "--connect", "pipelines.yaml").output
    for expected in (
        "public.no_key has no primary key",
        'ALTER TABLE "public"."no_key" ADD PRIMARY KEY',
        "public.float_key has the column f in its key, a double precision, which cannot be a key in Iceberg",
        'GRANT SELECT ON "public"."float_key", "public"."no_key", "public"."t" TO "reader"',
    ):
        assert expected in told
    server.run("grant select on t to reader", database=database)
    running.configure(yaml(server, database, "tables: {include: [public.t]}", "reader"))
    publication = 'CREATE PUBLICATION "calve_shop" FOR TABLE ONLY "public"."t"'
    assert publication in running.call("validate", "--connect", "pipelines.yaml").output
    assert running.once() == 1
    assert publication in running.said()
    server.run("create publication calve_shop for table t", "insert into t values (7)", database=database)
    assert running.call("validate", "--connect", "pipelines.yaml").exit_code == 0
    once(running)
    assert set(rows(running, "shop.t")) == {7}
    running.configure(yaml(server, database, user="nobody"))
    wrong = running.call("validate", "--connect", "pipelines.yaml")
    assert "password authentication failed" in wrong.output


def test_a_source_that_is_dropped_leaves_nothing_in_the_database(server: Postgres, calve: Callable[..., Calve]) -> None:
    database = server.create_database("dropped")
    server.run("create table t (id int primary key)", database=database)
    running = calve(yaml(server, database))
    once(running)
    assert running.call("source", "drop", "pipelines.yaml", "--yes").output.splitlines() == [
        "the slot slot_dropped was dropped",
        "the publication calve_shop was dropped",
    ]
    left = (
        "select slot_name from pg_replication_slots where database = 'dropped' union select pubname from pg_publication"
    )
    assert server.run(left, database=database) == []
    assert "does not exist" in running.call("source", "drop", "pipelines.yaml", "--yes").output


def test_a_lost_slot_is_told_and_all_tables_can_be_loaded_anew_even_if_that_is_killed(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("lost")
    server.run(
        "create table t (id int primary key)",
        "insert into t values (1)",
        "create table kept (id int primary key)",
        "insert into kept values (1)",
        database=database,
    )
    running = calve(yaml(server, database))
    once(running)
    server.run("select pg_drop_replication_slot('slot_lost')", database=database)
    assert running.once() == 1
    assert "The slot slot_lost" in running.said()
    assert "does not exist any more" in running.said()
    assert "Set on_lost_position: reload" in running.said()
    server.run(
        "insert into t select generate_series(2, 50)",
        "delete from t where id = 1",
        "alter table kept add column more text",
        "update kept set id = 9, more = 'x'",
        database=database,
    )
    running.configure(yaml(server, database, "on_lost_position: reload"))
    running.start("--once", environment={VARIABLE: "pipeline.after-clear:1"}).wait(240)
    said = once(running)
    assert "removed all rows of 2 tables" in said
    assert set(rows(running, "shop.t")) == set(range(2, 51))
    server.run("update kept set more = 'y'", "insert into t values (51)", database=database)
    once(running)
    assert list(rows(running, "shop.kept").values()) == [{"id": 9, "more": "y"}]
    assert set(rows(running, "shop.t")) == set(range(2, 52))
