"""Tables that change while they are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calve.event.columns import TYPED
from calve.sources.postgres import source
from calve.state.local_folder import LocalFolder
from services.postgres import Postgres
from sources.database.pipeline import settings_of

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("alter table app.t alter column n type bigint", "its rows were rewritten"),
        ("vacuum full app.t", "its rows were rewritten"),
        ("alter table app.t drop column n", 'column "n" does not exist'),
        ("drop table app.t", "does not exist"),
    ],
)
def test_a_table_that_changes_during_the_load_is_stopped_alone(
    server: Postgres, tmp_path: Path, statement: str, why: str
) -> None:
    database = server.create_database("load_" + "".join(filter(str.isalnum, statement))[:30])
    server.run(
        "create schema app",
        "create table app.t (id int primary key, n int)",
        "create table app.other (id int primary key)",
        "insert into app.t values (1, 1)",
        "insert into app.other values (1)",
        database=database,
    )
    slot = {"slot": database, "publication": database}
    settings = settings_of("postgres", server.port, database, on_unlogged_change="fail", **slot)
    opened = source.open(settings, LocalFolder(tmp_path), "p")
    position: Any = None
    found = []
    opened.start(None, True)
    try:
        server.run(statement, database=database)
        while planned := opened.plan(position, 1 << 22):
            for split in planned.splits:
                found += [
                    (b["table_name"][0].as_py(), row["id"])
                    for b in opened.reader.read(split)
                    for row in b[TYPED].to_pylist()
                ]
            position = planned.position
            opened.acknowledge(planned)
    finally:
        opened.stop()
        server.run(f"select pg_drop_replication_slot('{database}')", database=database)
    assert found == [("other", 1)]
    assert "app.t is stopped (" in opened.condition, "by the load, or by the stream, which compares the catalog"
    assert why in opened.condition


def _with_an_old_slot(server: Postgres, folder: Path) -> tuple[dict[tuple[str, int], dict[str, Any]], str]:
    """Load tables with a slot that is older than some changes of them; return the rows, and what the source shows."""
    database = server.create_database("old")
    server.run(
        "create schema app",
        "create table app.t (id int primary key, n int)",
        "create table app.cut (id int primary key)",
        "insert into app.t values (1, 1), (2, 2)",
        "insert into app.cut values (1)",
        "create publication old for all tables",
        "select pg_create_logical_replication_slot('old', 'pgoutput')",
        "update app.t set n = 7 where id = 1",
        "alter table app.t alter column n type bigint, add column more text default 'x'",
        "truncate app.cut",
        "insert into app.cut values (2)",
        database=database,
    )
    position: Any = None
    found = {}
    for statement in ("select 1", "update app.t set n = 5000000000 where id = 2"):
        server.run(statement, database=database)
        opened = source.open(
            settings_of("postgres", server.port, database, slot="old", publication="old"), LocalFolder(folder), "p"
        )
        opened.start(position, True)
        while planned := opened.plan(position, 1 << 22):
            for split in planned.splits:
                for batch in opened.reader.read(split):
                    rows = zip(batch["table_name"].to_pylist(), batch[TYPED].to_pylist(), strict=True)
                    found.update({(name, row["id"]): row for name, row in rows})
            position = planned.position
            opened.acknowledge(planned)
        opened.stop()
    return found, opened.condition


def test_what_a_slot_has_from_before_the_load_is_not_followed(server: Postgres, tmp_path: Path) -> None:
    found, condition = _with_an_old_slot(server, tmp_path)
    assert found == {
        ("t", 1): {"id": 1, "n": 7, "more": "x"},
        ("t", 2): {"id": 2, "n": 5_000_000_000, "more": "x"},
        ("cut", 2): {"id": 2},
    }
    assert "stopped" not in condition


def test_without_a_slot_to_spare_the_tables_are_loaded_nevertheless(tmp_path: Path) -> None:
    with Postgres(max_replication_slots="1") as server:
        found, condition = _with_an_old_slot(server, tmp_path)
    assert ("cut", 2) in found
    assert "app.cut is stopped" in condition
