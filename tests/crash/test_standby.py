"""With the state on an object store a standby takes over from a driver that was killed, paused or cut off.

Whatever the source is, events come all the time; who wakes up finds that it was replaced. In the end the table has
each event of files once, equals the table of a database with its key and a column masked, or has each event once that
was answered 200. Key indexes are those of two machines, in turns: who takes over has none, or stale ones.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import itertools
import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from calve.state.store_folder import StoreFolder
from kit.running import Calve, until
from matrix.takeovers import STRIKES, Arrivals, Feed, Takeovers
from services.mysql import MYSQL, MySql
from services.objects import ObjectStore
from services.postgres import Postgres
from services.process import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.crash]

KILLS = int(os.environ.get("CALVE_KILLS", "0"))
"""How many leaders of each source are struck; 0: as many as the source has strikes."""
QUICK = {"auto_create": True, "flush_interval": "200ms", "commit_interval": "1s"}
"""Commits of a takeover of some 10 s: more of them would show no more."""
ROWS = 2_000
CLIENTS = 4
PAUSE_SECONDS = 0.3
"""Between two requests of a client, and two changes of a database: a takeover takes some 10 s."""
KEY = "the key of the masks"
MASK = {
    "key": KEY,
    "columns": [{"names": ["id"], "action": "hash"}, {"names": ["name"], "action": "format", "keep_first": 1}],
}


def pipeline(source: dict[str, Any], *processors: dict[str, Any], **sink: Any) -> str:
    return json.dumps(
        {"orders": {"source": source, "processor": [*processors], "sink": [{"iceberg": {**QUICK, **sink}}]}}
    )


class Changes:
    """Somebody changes the rows of a table of a database."""

    def __init__(
        self, spark: SparkSession, run: Callable[[str], list[tuple[str | None, ...]]], source: dict[str, Any]
    ) -> None:
        self._spark = spark
        self._run = run
        self._source = source
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._change)
        run("create table app.item (id bigint primary key, v int, name varchar(20))")
        rows = ", ".join(f"({number}, 0, 'n{number}')" for number in range(ROWS))
        run(f"insert into app.item values {rows}")

    def yaml(self) -> str:
        [(kind, own)] = self._source.items()
        options = {
            "host": "127.0.0.1",
            "password": "open sesame",
            "ssl_mode": "disable",
            "tables": {"include": ["app.*"]},
        }
        name = 'shop.${getMetadata("table_name")}'
        return pipeline({kind: {**options, **own}}, {"mask": MASK}, table_identifier=name)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> list[tuple[Any, ...]]:
        self._ended.set()
        self._thread.join()
        return [
            (
                hmac.digest(KEY.encode(), str(id).encode(), "sha256").hex(),
                int(v or 0),
                f"n{'*' * (len(name or '') - 1)}",
            )
            for id, v, name in self._run("select id, v, name from app.item")
        ]

    def rows(self, driver: Calve) -> list[tuple[Any, ...]]:
        """Return the rows as Spark reads them, which knows deletes by key."""
        rows = Calve(driver.folder, self.yaml(), self._spark).shared_spark().table("lakehouse.shop.item").toArrow()
        return [(row["id"], row["v"], row["name"]) for row in rows.to_pylist()]

    def _change(self) -> None:
        chance = random.Random()
        for number in itertools.count(ROWS):
            id = chance.randrange(ROWS)
            statements = (
                f"update app.item set v = v + 1 where id between {id} and {id + 20}",
                f"delete from app.item where id = {id}",
                f"update app.item set id = {number}, name = 'n-{number}' where id = {id}",
                f"insert into app.item values ({number}, 1, 'new')",
            )
            self._run(chance.choice(statements))
            if self._ended.wait(PAUSE_SECONDS):
                return


class Requests:
    """Clients send numbered events with keys, each until it is answered 200; every driver listens on its own port."""

    def __init__(self) -> None:
        self._ports: list[int] = []
        self._numbers = itertools.count()
        self._answered: list[int] = []
        self._ended = threading.Event()
        self._clients = [threading.Thread(target=self._send_all) for _ in range(CLIENTS)]

    def yaml(self) -> str:
        self._ports = [*free_ports(1), *self._ports]
        source = {"http": {"port": self._ports[0], "durable": "replicated"}}
        return pipeline(source, table_identifier="shop.orders", schema={"columns": [{"name": "id", "type": "long"}]})

    def begin(self) -> None:
        for client in self._clients:
            client.start()

    def end(self) -> list[int]:
        self._ended.set()
        for client in self._clients:
            client.join()
        return self._answered

    def rows(self, driver: Calve) -> list[int]:
        return driver.rows("shop.orders")["id"].to_pylist()

    def _send_all(self) -> None:
        while not self._ended.is_set():
            number = next(self._numbers)
            until(lambda number=number: any(self._send(port, number) for port in self._ports), "a request is answered")
            self._answered.append(number)
            self._ended.wait(PAUSE_SECONDS)

    @staticmethod
    def _send(port: int, number: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
        try:
            connection.request("POST", "/log/ingest", json.dumps([{"id": number}]), {"Idempotency-Key": f"n{number}"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@contextlib.contextmanager
def rows_of_postgres(folder: Path, spark: SparkSession) -> Iterator[Changes]:
    with Postgres() as server:
        name = server.create_database("standby")
        server.run("create schema app", database=name)
        source = {"port": server.port, "username": "postgres", "database": name}
        yield Changes(spark, lambda sql: server.run(sql, database=name), {"postgres": source})


@contextlib.contextmanager
def rows_of_mysql(folder: Path, spark: SparkSession) -> Iterator[Changes]:
    with MySql(MYSQL) as server:
        server.create_database("app")
        source = {"port": server.port, "username": "root", "allow_cleartext_password": True}
        yield Changes(spark, server.run, {"mysql": source})


FEEDS: dict[str, Callable[[Path, SparkSession], contextlib.AbstractContextManager[Feed]]] = {
    "files": lambda folder, spark: contextlib.nullcontext(Arrivals(folder / "in")),
    "http": lambda folder, spark: contextlib.nullcontext(Requests()),
    "postgres": rows_of_postgres,
    "mysql": rows_of_mysql,
}


STRUCK = {"files": ("killed", "cut off"), "http": ("cut off",), "postgres": ("paused",)}
"""The second takeover of files is by a driver with stale indexes. The long run has MySQL, too, whose positions are in the state as those of files are. A leader that is cut off can still answer clients, and one that is paused wakes up with a slot that another reads."""


@pytest.mark.parametrize("source", FEEDS if KILLS else STRUCK)
def test_nothing_is_lost_or_duplicated_when_drivers_are_killed_paused_and_cut_off(
    source: str, tmp_path: Path, spark: SparkSession, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    state = object_store.place(f"standby-{source}")
    with contextlib.ExitStack() as left:
        feed = left.enter_context(FEEDS[source](tmp_path / "calve", spark))
        strikes = STRIKES if KILLS else STRUCK[source]
        takeovers = Takeovers(tmp_path / "calve", state, object_store.environment(), feed=feed, strikes=strikes)
        left.callback(takeovers.end)
        for _ in range(KILLS or len(strikes)):
            print(takeovers.play())
        rows, lost, duplicated = takeovers.finish()
    assert (rows > 0, lost, duplicated) == (True, 0, 0)
    if source == "files":
        assert takeovers.index_messages() == [True, True, *[False] * (takeovers.count - 1)]
    status = StoreFolder.at(f"{state}/orders").get("status.json")
    assert status
    assert json.loads(status.content)["state"] == "stopped"
