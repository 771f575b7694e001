"""`sql`: each event alone is the table of its SELECT."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from calve.event import duckdb_session
from calve.expression.duckdb_session import open_duckdb
from calve.expression.probe import refusal
from calve.settings.problems import SettingsErrors
from processors.chains import plugins, ran, run

FIELDS = {"status": "bigint", "level": "varchar", "codes": "bigint[]", "price": "decimal(38,10)", "o/a": "double"}


def sql(select: str, **more: Any) -> dict[str, Any]:
    return {"sql": {"select": select, "fields": FIELDS, **more}}


@pytest.mark.parametrize(
    ("select", "event", "after"),
    [
        ("SELECT upper(level) AS level FROM event", {"level": "a", "b": 1}, [{"level": "A", "b": 1}]),
        ("SELECT status >= 500 AS failed FROM event", {"status": 503}, [{"status": 503, "failed": True}]),
        ("SELECT status + 1 AS n FROM event", {}, [{"n": None}]),
        ("SELECT status FROM event WHERE status > 5", {"status": 5}, []),
        ("SELECT unnest(codes) AS code FROM event", {"codes": [2, 1]}, [{"codes": [2, 1], "code": c} for c in (2, 1)]),
        ("SELECT count(*) AS n, sum(x) AS s FROM (SELECT unnest(codes) AS x FROM event)", {"codes": [2, 1]}, None),
        ('SELECT "o/a" * 2 AS x FROM event', {"o": {"a": 1.5}}, [{"o": {"a": 1.5}, "x": 3.0}]),
        ("SELECT json->>'$.k' AS x FROM event -- a comment", {"k": "v"}, [{"k": "v", "x": "v"}]),
        (
            "SELECT {'a': status, 'b': [level]} AS s FROM event",
            {"status": 1},
            [{"status": 1, "s": {"a": 1, "b": [None]}}],
        ),
    ],
)
def test_the_columns_of_the_result_become_entries(select: str, event: Any, after: Any) -> None:
    assert run([sql(select)], event).events == (after or [{**event, "n": 2, "s": 3}] if after != [] else [])


def test_only_the_result_stays_without_keep_fields() -> None:
    assert ran(sql("SELECT level FROM event", keep_fields=False), {"level": "a", "b": 1}) == [{"level": "a"}]


def test_decimals_keep_their_digits() -> None:
    text = '{"price": 12345678901234567890.5, "other": 1.500}'
    [found] = run([sql("SELECT price * 2 AS twice FROM event")], text).texts
    assert found == '{"price":12345678901234567890.5,"other":1.500,"twice":24691357802469135781.0000000000}'


def test_events_never_see_each_other() -> None:
    events = [{"status": n} for n in range(5)]
    assert [one["n"] for one in ran(sql("SELECT count(*) AS n FROM event"), *events)] == [1] * 5


ATTACKS = [
    "SELECT * FROM '{file}'",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_json_auto('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM 'http://127.0.0.1:{port}/x.parquet'",
    "SELECT * FROM read_csv('http://127.0.0.1:{port}/x.csv')",
    "SELECT * FROM read_csv('s3://bucket/x.csv')",
    "SELECT getenv('HOME') AS x",
    "SELECT * FROM query($$ATTACH '{folder}/new.db'$$)",
    "SELECT * FROM sqlite_scan('{file}', 't')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_extensions()",
    "SELECT * FROM rows",
    "SELECT set_config('enable_external_access', 'true')",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_sql_of_a_configuration_reaches_no_file_no_network_and_no_environment(attack: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    rows = pa.table({"a": [1]})  # a variable, which DuckDB would find by its name
    with socket.create_server(("127.0.0.1", 0)) as server:
        select = attack.format(file=file, folder=tmp_path, port=server.getsockname()[1])
        with pytest.raises(SettingsErrors):
            run([sql(select)], {"a": 1})
        with pytest.raises(duckdb.Error):
            duckdb_session.run(select, event=rows.slice(0, 0))
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert list(tmp_path.iterdir()) == [file]


STATEMENTS = [
    "ATTACH '{folder}/new.db'",
    "ATTACH '{file}'",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET enable_external_access",
    "CREATE SECRET s (TYPE s3)",
    "CALL enable_logging(storage = 'file', storage_path = '{folder}/log')",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_database_of_sql_and_expressions_is_closed(statement: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.db"
    file.write_text("")
    text = statement.format(file=file, folder=tmp_path)
    assert refusal(text), "where a configuration is checked"
    with pytest.raises(duckdb.Error):
        open_duckdb().execute(text)
    assert list(tmp_path.iterdir()) == [file]


def test_an_event_for_which_the_select_fails_is_a_dead_letter_or_tagged() -> None:
    select = "SELECT CASE WHEN status = 2 THEN error('no') ELSE 1 END AS x FROM event"
    events = [{"status": 1}, {"status": 2}, {"status": "abc"}, {"status": 3}]
    found = run([sql(select)], *events)
    assert [one["status"] for one in found.events] == [1, 3]
    assert [(one["field"], one["code"]) for one in found.failed] == [
        ("", "PROCESSOR_FAILED"),
        ("status", "PROCESSOR_FAILED"),
    ]
    tagged = run([sql(select, tags_on_failure=["odd"])], *events)
    assert (tagged.tags, tagged.failed) == ([None, ["odd"], ["odd"], None], [])


def test_rows_and_events_add_up() -> None:
    events = [{"codes": [1, 2, 3]}, {"codes": []}, {"codes": [4]}]
    found = run([sql("SELECT unnest(codes) AS code FROM event")], *events)
    assert [one["code"] for one in found.events] == [1, 2, 3, 4]
    assert (found.processed.dropped, found.processed.added) == (1, 2)


def test_only_events_for_which_sql_when_is_true_are_processed() -> None:
    found = ran(sql("SELECT 1 AS x FROM event", sql_when="/status == 1"), {"status": 1}, {"status": 2})
    assert found == [{"status": 1, "x": 1}, {"status": 2}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select": "SELECT nope FROM event"}, "nope.*Declare the fields"),
        ({"select": "SELEC 1"}, "DuckDB refuses it"),
        ({"select": "SELECT 1; DROP TABLE x"}, "without a semicolon"),
        ({"select": "SELECT 1 FROM event", "fields": {"a": "numberish"}}, "numberish"),
        ({"select": "SELECT 1 FROM event", "fields": {"a": ""}}, "is not a type of DuckDB"),
    ],
)
def test_a_select_that_cannot_work_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsErrors, match=message):
        plugins({"sql": options})


def test_all_columns_are_the_fields_alone() -> None:
    settings = {"fields": {"a": "integer"}, "select": "SELECT *, a + 1 AS b, event.json ->> 'z' AS c FROM event"}
    assert ran({"sql": settings}, {"a": 1, "z": "2"}) == [{"a": 1, "z": "2", "b": 2, "c": "2"}]
    with pytest.raises(SettingsErrors, match="takes all columns"):
        plugins({"sql": {"select": "SELECT * FROM event"}})
