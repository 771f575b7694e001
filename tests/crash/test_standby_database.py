"""With the state on an object store a standby takes over a database's load and stream, and the tables stay equal to it.

A writer changes rows all the time. The leading driver is killed, paused or cut off from the store; who wakes up finds
that it was replaced.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from crash.test_standby import KILLS
from kit.running import Calve, until
from matrix.takeovers import STRIKES, Drivers
from services.mysql import MYSQL, MySql
from services.objects import ObjectStore
from services.postgres import Postgres

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.crash]

YAML = """
orders:
  source:
    {kind}:
      host: 127.0.0.1
      port: {port}
      username: {user}
      password: open sesame
      ssl_mode: disable
      allow_cleartext_password: true
      tables: {{include: ["app.*"]}}
      {more}
  sink:
    - iceberg:
        table_identifier: "shop.${{getMetadata(\\"table_name\\")}}"
        auto_create: true
        flush_interval: 100ms
        commit_interval: 300ms
"""
ROWS = 2_000


class Database:
    """A server with one table, whose rows somebody changes."""

    def __init__(self, run: Callable[[str], list[tuple[str | None, ...]]], yaml: str) -> None:
        self._run = run
        self.yaml = yaml
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._change)
        values = ", ".join(f"({number}, 0)" for number in range(ROWS))
        for statement in (
            "create table app.item (id bigint primary key, v int)",
            f"insert into app.item values {values}",
        ):
            run(statement)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> list[tuple[int, int]]:
        """Change nothing more; return the rows."""
        self._ended.set()
        self._thread.join()
        return sorted((int(row[0] or 0), int(row[1] or 0)) for row in self._run("select id, v from app.item"))

    def _change(self) -> None:
        chance = random.Random()
        for number in itertools.count(ROWS):
            one = chance.randrange(ROWS)
            statements = (
                f"update app.item set v = v + 1 where id between {one} and {one + 20}",
                f"delete from app.item where id = {one}",
                f"insert into app.item values ({number}, 1)",
            )
            self._run(chance.choice(statements))
            if self._ended.wait(0.02):
                return


@pytest.fixture(params=["postgres", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.param == "postgres":
        with Postgres() as server:
            name = server.create_database("standby")
            server.run("create schema app", database=name)
            yaml = YAML.format(kind="postgres", port=server.port, user="postgres", more=f"database: {name}")
            yield Database(lambda sql: server.run(sql, database=name), yaml)
    else:
        with MySql(MYSQL) as server:
            server.create_database("app")
            yield Database(server.run, YAML.format(kind="mysql", port=server.port, user="root", more=""))


@pytest.fixture
def drivers(
    tmp_path: Path, database: Database, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Drivers]:
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    made = Drivers(tmp_path / "calve", object_store.place(f"standby-{tmp_path.name}"), object_store.environment())
    made.yaml = database.yaml
    yield made
    for one in made.all:
        one.end()
        one.relay.close()


def test_a_table_equals_the_database_when_drivers_are_killed_paused_and_cut_off(
    drivers: Drivers, database: Database, tmp_path: Path, spark: SparkSession
) -> None:
    reader = Calve(tmp_path / "calve", database.yaml, spark)
    leader = drivers.start()
    database.start()
    try:
        drivers.leads(leader)
        for strike in itertools.islice(itertools.cycle(STRIKES.values()), KILLS):
            standby = drivers.start()
            drivers.waits(standby)
            time.sleep(random.random() * 0.5)  # anywhere in a batch, and in a group of changes
            strike(leader)
            drivers.leads(standby)
            leader.wake()
            leader = standby
    finally:
        expected = database.end()

    def found() -> list[tuple[int, int]]:
        rows = reader.shared_spark().table("lakehouse.shop.item").toArrow()
        return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))

    until(lambda: found() == expected, "the table equals the database")
    assert leader.stop() == 0
    assert found() == expected
