"""Tables that change while they are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calve.event.columns import TYPED
from calve.sources.postgres import source
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
    opened = source.open(settings_of("postgres", server.port, database, **slot), tmp_path, "p")
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
    assert "app.t is stopped (it changed during the load: " in opened.condition
    assert why in opened.condition
