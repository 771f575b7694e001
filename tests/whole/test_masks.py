"""Masked columns in a run: tables, dead letters, logs, state and `try` have no canary, and a replay masks only once."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from calve.dashboard.access import AccessRules
from calve.dashboard.app import App
from calve.dashboard.history import SampleHistory
from calve.dashboard.server import history_file
from calve.observe.metrics import StatusCollector
from calve.observe.status_file import read_all
from dashboard.conftest import Visitor
from event.envelope.debezium import envelope, field, wrapped
from kit.running import Calve
from services.mysql import MARIADB, MySql
from services.mysql import PASSWORD as MYSQL_PASSWORD
from services.postgres import PASSWORD, Postgres

pytestmark = pytest.mark.spark

KEY = "the key of this test"
CANARY = "canary"
YAML = """
people:
  source:
    file: {path: "in/*.ndjson", codec: {debezium: {}}}
  notify:
    - file: {path: notes.ndjson}
  processor:
    - mask:
        key: "%s"
        key_id: first
        columns:
          - {names: [email], action: hash}
          - {names: [name], action: format, keep_first: 0}
          - {names: [born], action: year}
  sink:
    - iceberg:
        table_identifier: app.people
        auto_create: true
        identifier_columns: [email]
        %s
        on_type_mismatch: dlq
"""
COLUMNS = [
    field("email", "string"),
    field("name", "string"),
    field("born", "string", "io.debezium.time.IsoDate"),
    field("n", "string"),
]
TYPES = "column_types: {n: int}"


def hashed(text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


def person(number: int, **more: Any) -> dict[str, Any]:
    email = f"{CANARY}{number}@x.de"
    return {"email": email, "name": f"{CANARY} {number}", "born": "2001-02-03Z", "n": f"{number}", **more}


def canaries(folder: Path, *without: str) -> list[str]:
    """Return the files below a folder with a canary; those of the source are left out."""
    files = [path for path in folder.rglob("*") if path.is_file() and not {*without} & {*path.parts}]
    return [str(path) for path in files if CANARY.encode() in path.read_bytes()]


def pages(state: Path) -> dict[str, str]:
    """Return the metrics, and the pages of the dashboard, as somebody sees them who has logged in."""
    visitor = Visitor(App(str(state), SampleHistory(history_file(str(state))), AccessRules("")))
    paths = ["", "/rejects", "/table?name=app.people", "/definition", "/log"]
    shown = {path: visitor.get(f"/pipelines/people{path}").answer for path in paths}
    assert {answer.status for answer in shown.values()} == {200}
    assert b"NOT_COERCIBLE" in shown["/rejects"].body
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: read_all(str(state))[0]))
    return {path: answer.body.decode() for path, answer in shown.items()} | {
        "metrics": generate_latest(registry).decode()
    }


def test_change_rows_are_masked_in_both_images_and_a_replay_takes_masked_letters_as_they_are(
    calve: Callable[..., Calve],
) -> None:
    job = calve(YAML % (KEY, TYPES))
    (job.folder / "in").mkdir()
    changes = [envelope("c", None, person(number)) for number in range(4)]
    changes += [envelope("u", person(0), person(9)), envelope("d", person(1)), envelope("u", None, person(2, n="20"))]
    changes += [envelope("c", None, person(5, n="x")), envelope("c", None, person(6, born=f"{CANARY} day"))]
    lines = [json.dumps(wrapped(COLUMNS, change)) for change in changes] + [f'{{"{CANARY}": ', f'["{CANARY}"]']
    (job.folder / "in" / "1.ndjson").write_text("\n".join(lines) + "\n")
    tried = job.call("try", "pipelines.yaml", "in/1.ndjson")
    assert job.once() == 0, job.said()
    rows = {row["email"]: row for row in job.rows("app.people").to_pylist()}
    assert {key: row["n"] for key, row in rows.items()} == {
        hashed(f"{CANARY}{number}@x.de"): n for number, n in ((9, 9), (2, 20), (3, 3))
    }
    assert {row["name"] for row in rows.values()} == {"*" * len(f"{CANARY} 1")}
    column = job.catalog().load_table("app.people").schema().find_field("email")
    assert (str(column.field_type), column.doc) == ("string", "masked: hash, key first")
    letters = job.dead_letters("people")
    assert sorted(letter["code"] for letter in letters) == ["MALFORMED"] * 2 + ["NOT_COERCIBLE", "PROCESSOR_FAILED"]
    commands = ("dlq show", "status --json", "show app.people", "tables", "changes app.people", "doctor")
    shown = {command: job.call(*command.split()).output for command in commands} | pages(job.folder / "calve-state")
    assert hashed(f"{CANARY}9@x.de") in shown["show app.people"] + shown["changes app.people"]
    assert {place for place, text in shown.items() if CANARY in text} == set()
    assert CANARY not in tried.output + job.said()
    assert "table.committed" in (job.folder / "notes.ndjson").read_text()
    assert canaries(job.folder, "in") == []
    job.configure(YAML % (KEY, "upsert: true"))
    job.call("sql", "ALTER TABLE app.people ALTER COLUMN n TYPE string")
    replayed = job.call("dlq", "replay", "pipelines.yaml", "--code", "PROCESSOR_FAILED")
    assert "1 event sent, 1 now in tables, 0 rejected again" in replayed.stdout, replayed.output
    assert hashed(f"{CANARY}6@x.de") in {row["email"] for row in job.rows("app.people").to_pylist()}
    assert "nothing to replay" in job.call("dlq", "replay", "pipelines.yaml", "--code", "MALFORMED").stdout
    assert canaries(job.folder, "in") == []


DATABASE = """
shop:
  source:
    postgres: {{host: 127.0.0.1, port: {port}, database: {database}, username: postgres, password: "{password}"}}
  processor:
    - mask:
        key: "{key}"
        columns:
          - {{names: [id, friend, token], action: hash}}
          - {{names: ["*name"], action: fixed}}
          - {{names: [born, seen], action: month}}
          - {{names: [pay], action: round, to: 10}}
          - {{names: [secret], action: drop}}
          - {{names: [note], action: "null"}}
    - rename_keys: {{entries: [{{from_key: id, to_key: person}}, {{from_key: pay, to_key: salary}}]}}
    - convert_type: {{key: free, type: string}}
    - drop_events: {{drop_when: '/free == "7"'}}
    - add_entries: {{entries: [{{key: origin, value: 1}}]}}
    - delete_entries: {{with_keys: [note]}}
    - substitute_string: {{entries: [{{source: full_name, from: "[*]", to: x}}]}}
  sink:
    - iceberg: {{table_identifier: 'shop.${{getMetadata("table_name")}}', auto_create: true, schema_evolution: true}}
"""
COLUMN_TYPES = "friend text, token numeric(9,3), full_name text, born date, seen timestamp, pay numeric(8,2), secret text, note text"


TYPES_AFTER = {
    "person": "string",
    "token": "string",
    "born": "date",
    "seen": "timestamp_ntz",
    "salary": "decimal(8,2)",
    "free": "string",
    "origin": "bigint",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


def expected(server: Postgres, database: str, query: str) -> list[tuple[Any, ...]]:
    """Return the masked rows of a query, as a small function of its own masks them."""

    def text(value: str | None) -> str | None:
        return None if value is None else hashed(value)

    rows = []
    for key, friend, token, name, born, seen, pay, free in server.run(query, database=database):
        if free == "7":
            continue
        steps = None if pay is None else round(float(pay) / 10) * 10
        rows.append(
            (text(key), text(friend), text(token), name and "xxx", born and born[:7], seen and seen[:7], steps, free)
        )
    return sorted(rows, key=str)


@pytest.mark.services
def test_the_mirror_of_a_database_is_its_rows_masked_after_load_and_changes_of_masked_keys(
    server: Postgres, calve: Callable[..., Calve]
) -> None:
    database = server.create_database("masked")

    def run(*statements: str) -> None:
        server.run(*statements, database=database)

    run(f"create table person (id text primary key, {COLUMN_TYPES}, free int)")
    fill = f"""insert into person select '{CANARY}' || n, '{CANARY}' || (n + 1), n + 0.5, '{CANARY}', date '2020-01-31' + n,
        timestamp '2020-05-06 01:02:03.456' + n * interval '1 day', n * 1.37, '{CANARY}', '{CANARY}', n
        from generate_series({{}}, {{}}) n"""
    run(fill.format(1, 300), "insert into person (id) values ('empty')")
    job = calve(DATABASE.format(port=server.port, database=database, password=PASSWORD, key=KEY))
    query = "select id, friend, token::text, full_name, born::text, seen::text, pay::text, free::text from person"

    def check(*added: str) -> None:
        assert job.once() == 0, job.said()[-4000:]
        names = ["person", "friend", "token", "full_name", "born", "seen", "salary", "free"]
        table = job.shared_spark().table("lakehouse.shop.person")
        assert sorted(table.columns) == sorted([*names, "origin", *added])
        assert dict(table.dtypes) | TYPES_AFTER == dict(table.dtypes)
        rows = [
            (
                *row[:4],
                row[4] and str(row[4])[:7],
                row[5] and str(row[5])[:7],
                None if row[6] is None else int(row[6]),
                row[7],
            )
            for row in map(tuple, table.select(*names).collect())
        ]
        assert sorted(rows, key=str) == expected(server, database, query)
        assert all(row[4].day == 1 for row in table.select(*names).collect() if row[4])
        assert table.where("origin is null").count() == 0
        assert {row[0] for name in added for row in table.select(name).collect()} <= {"***"}

    check()
    run(
        fill.format(301, 320),
        "update person set pay = 5, free = 0 where free between 10 and 20",
        f"update person set id = '{CANARY} new ' || free where free between 30 and 40",
        "delete from person where free between 50 and 90",
        f"alter table person add nick_name text default '{CANARY}'",
    )
    run("delete from person where free > 315", "update person set friend = null where free = 100")
    check("nick_name")
    assert CANARY not in job.said()
    assert canaries(job.folder / "lakehouse") == []
    assert canaries(job.folder / "calve-state", "log") == []


MARIADB_YAML = f"""
shop:
  source:
    rds: {{{{host: 127.0.0.1, port: {{port}}, engine: mysql, database: shop, transactional: true, tls: {{{{insecure: true}}}},
          authentication: {{{{username: root, password: "{MYSQL_PASSWORD}"}}}}}}}}
  processor:
    - mask:
        key: "{KEY}"
        columns:
          - {{{{names: [id, friend], action: hash}}}}
          - {{{{names: [name], action: fixed}}}}
          - {{{{names: [note], action: drop}}}}
    - rename_keys: {{{{entries: [{{{{from_key: id, to_key: person}}}}]}}}}
    - copy_values: {{{{entries: [{{{{from_key: friend, to_key: other}}}}]}}}}
    - convert_type: {{{{key: n, type: string}}}}
    - add_entries: {{{{entries: [{{{{key: origin, value: 1}}}}, {{{{key: n, value: none}}}}]}}}}
    - trim_string: {{{{with_keys: [name]}}}}
  sink:
    - iceberg: {{{{table_identifier: 'shop.${{{{getMetadata("table_name")}}}}', auto_create: true}}}}
"""


@pytest.mark.services
def test_a_copy_of_mariadb_by_rds_in_whole_transactions_is_masked_and_its_deletes_find_their_rows(
    calve: Callable[..., Calve],
) -> None:
    with MySql(MARIADB) as server:
        server.create_database("shop")
        values = ", ".join(
            f"({n}, '{CANARY}{n + 1}', '{CANARY}', {n % 9 or 'null'}, '{CANARY}')" for n in range(1, 100)
        )
        server.run(
            "create table shop.person (id bigint primary key, friend varchar(40), name text, n int, note text)",
            f"insert into shop.person values {values}",
        )
        job = calve(MARIADB_YAML.format(port=server.port))

        def check() -> None:
            assert job.once() == 0, job.said()[-4000:]
            people = server.run("select id, friend, n from shop.person")
            wanted = [(hashed(key or ""), hashed(friend or ""), n) for key, friend, n in people]
            rows = job.rows("shop.person").to_pylist()
            assert sorted([(row["person"], row["friend"], row["n"]) for row in rows], key=str) == sorted(
                wanted, key=str
            )
            assert {(row["name"], row["origin"]) for row in rows} == {("***", 1)}
            assert all(row["other"] == row["friend"] and "note" not in row for row in rows)

        check()
        server.run(
            "begin",
            "update shop.person set n = 77 where id < 20",
            "update shop.person set id = id + 1000 where id between 30 and 40",
            "delete from shop.person where id between 35 and 60",
            f"insert into shop.person values (35, '{CANARY}', '{CANARY}', null, '{CANARY}')",
            "commit",
            "delete from shop.person where id = 1001 or id = 5",
        )
        check()
    assert CANARY not in job.said()
    assert canaries(job.folder / "lakehouse") == []
    assert canaries(job.folder / "calve-state", "log") == []
