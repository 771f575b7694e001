"""A process with a source of a database and the smallest honest pipeline behind it, to be killed.

Rows are in SQLite. As in the ledger, a batch is written down before it is read, and its rows and its position are
committed together; only then it is acknowledged. An INSERT of a row that is there fails.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from dataclasses import asdict
from pathlib import Path

from calve.errors import CalveError, Verdict
from calve.event.columns import TYPED
from calve.sources.database import change_buffer
from calve.sources.database.settings import DatabaseSettings
from calve.sources.log import segment
from calve.sources.mysql import load as mysql_load
from calve.sources.mysql import source as mysql
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.postgres import load as postgres_load
from calve.sources.postgres import source as postgres
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.source import APART as IS_APART
from calve.sources.source import Planned, Position, Split
from calve.sources.tables import Tables
from calve.state.folder import StateFolder
from calve.state.location import state_folder_at
from calve.stop_point import stop_at

APART = "@apart"
"""What follows the name of a table whose rows are loaded apart."""
SMALL_ENTRIES = 16
"""Rows of an entry of the log, if transactions are to have many."""
CHUNK_PAGES, CHUNK_BYTES = 2, 1 << 16
BATCH_BYTES = 1 << 16
LOCK_SECONDS = 300
"""On a busy machine another process may hold the file for long."""
SCHEMA = """
create table if not exists row_of(name text, key text, value text, primary key (name, key));
create table if not exists state(name text primary key, value text);
"""


class Store:
    """The target, and the ledger."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "rows.db", timeout=LOCK_SECONDS)
        self._db.execute("pragma synchronous = off")
        self._db.executescript(SCHEMA)

    def state(self, name: str):
        found = self._db.execute("select value from state where name = ?", [name]).fetchone()
        return json.loads(found[0]) if found else None

    def set(self, name: str, value: object) -> None:
        self._db.execute("insert or replace into state values (?, ?)", [name, json.dumps(value)])

    @property
    def commits(self) -> int:
        return self.state("commits") or 0

    @property
    def is_loaded(self) -> bool:
        return "segment" in (self.state("position") or {})

    def begin(self, planned: Planned) -> None:
        with self._db:
            self.set("begun", asdict(planned))

    def pending(self) -> list[Planned]:
        begun = self.state("begun")
        if not begun:
            return []
        return [Planned([Split(**split) for split in begun["splits"]], begun["position"])]

    def commit(self, changes: list[tuple[str, str, str, dict]], position: Position) -> None:
        with self._db:
            for name, operation, key, row in changes:
                if operation == "delete":
                    self._db.execute("delete from row_of where name = ? and key = ?", [name, key])
                else:
                    self._check_time(name, key, row)
                    verb = "insert or replace" if operation == "update" else "insert"
                    self._db.execute(f"{verb} into row_of values (?, ?, ?)", [name, key, json.dumps(row)])
            self._check_sum(position)
            self.set("position", position)
            self.set("commits", self.commits + 1)
            self.set("begun", None)

    def clear(self, names: list[str]) -> None:
        with self._db:
            self._db.executemany("delete from row_of where name = ?", [[name] for name in names])
            self.set("cleared", True)

    def compare(self, names: list[str]) -> None:
        """Give tables the rows that were loaded apart, as one step: write those that differ, delete those that are gone."""
        with self._db:
            for name in names:
                found, right = self.rows(name), self.rows(name + APART)
                for key in found.keys() - right.keys():
                    self._db.execute("delete from row_of where name = ? and key = ?", [name, key])
                for key, row in right.items():
                    if found.get(key) != row:
                        self._db.execute("insert or replace into row_of values (?, ?, ?)", [name, key, json.dumps(row)])
                self._db.execute("delete from row_of where name = ?", [name + APART])
                self.set("compared", [*(self.state("compared") or []), name])

    def spoil(self, name: str) -> None:
        """Add a row that the database does not have."""
        with self._db:
            self._db.execute("insert or replace into row_of values (?, 'wrong', '{}')", [name])

    def _check_time(self, name: str, key: str, row: dict) -> None:
        """Check that the rows of `tick` never go back, from the first load that is over on."""
        if name != "tick" or not self.state("cleared"):
            return
        found = self._db.execute("select value from row_of where name = ? and key = ?", [name, key]).fetchone()
        assert json.loads(found[0])["n"] <= row["n"], (found, row)

    def _check_sum(self, position: Position) -> None:
        """Check that the sum over `account`, which no transaction changes, is as at the end of the load."""
        found = sum(row["balance"] for row in self.rows("account").values())
        if "segment" in position and position.get("chunk") == (self.state("position") or {}).get("chunk"):
            assert found == self.state("sum"), f"a part of a transaction is committed: {found}"
        self.set("sum", found)

    def rows(self, name: str) -> dict[str, dict]:
        found = self._db.execute("select key, value from row_of where name = ?", [name])
        return {key: json.loads(value) for key, value in found}


def changes_of(opened, planned: Planned) -> list[tuple[str, str, str, dict]]:
    found = []
    for split in planned.splits:
        place = APART if split.body.get(IS_APART) else ""
        for batch in opened.reader.read(split):
            columns = [batch[name].to_pylist() for name in ("table_name", "operation", "document_id", TYPED)]
            found += ((name + place, *rest) for name, *rest in zip(*columns, strict=True))
    return found


def again(action):
    """Repeat an action while the server is away."""
    while True:
        try:
            return action()
        except CalveError as error:
            if error.verdict is not Verdict.AGAIN:
                raise
            time.sleep(0.1)


def looked(opened, position: Position | None) -> Planned | None:
    opened.backlog(position)
    return opened.plan(position, BATCH_BYTES)


def cleared(opened, store: Store) -> None:
    store.clear([table.attributes["table_name"] for table in opened.tables_to_empty])
    stop_at("pipeline.after-clear")
    opened.emptied(True)


def compared(opened, store: Store) -> None:
    """Do what a source waits for that reads tables again; a table is compared only if its load is committed."""
    comparing = opened.comparing
    if comparing.to_load is not None:
        store.clear([f"{table.attributes['table_name']}{APART}" for table in comparing.to_load])
        stop_at("pipeline.after-apart")
        comparing.load("")
        return
    store.compare([table.attributes["table_name"] for table in comparing.to_compare])
    stop_at("pipeline.after-compare")
    comparing.end("")


def is_comparing(opened) -> bool:
    found = opened.comparing
    return found is not None and (found.to_load is not None or found.to_compare is not None)


def run(folder: Path, settings: DatabaseSettings, place: StateFolder) -> None:
    """Follow the tables until killed; what the source must remember is at a place."""
    postgres_load._CHUNK_PAGES, mysql_load._CHUNK_BYTES = CHUNK_PAGES, CHUNK_BYTES
    store = Store(folder)
    source = postgres if isinstance(settings, PostgresSettings) else mysql
    opened = source.open(settings, place, "p")
    pending = store.pending()
    begun = pending[-1].position if pending else store.state("position")
    again(lambda: opened.start(begun, False, pending))
    print("started", flush=True)
    while True:
        position = store.state("position")
        planned = next(iter(store.pending()), None) or again(lambda position=position: looked(opened, position))
        if opened.tables_to_empty is not None:
            again(lambda: cleared(opened, store))
            continue
        if planned is None and is_comparing(opened):
            again(lambda: compared(opened, store))
            continue
        if planned is None:
            time.sleep(0.005)
            continue
        store.begin(planned)
        store.commit(again(lambda planned=planned: changes_of(opened, planned)), planned.position)
        opened.acknowledge(planned)


def settings_of(kind: str, port: int, database: str, **more) -> DatabaseSettings:
    shared = {
        "host": "127.0.0.1",
        "port": port,
        "password": "open sesame",
        "tables": Tables(include=["app.*"]),
        "ssl_mode": "disable",
        "allow_cleartext_password": True,
        "min_free_bytes": 0,
        **more,
    }
    if kind == "postgres":
        return PostgresSettings(**shared, username="postgres", database=database)
    return MysqlSettings(**shared, username="root")


if __name__ == "__main__":
    if (options := json.loads(sys.argv[5])).pop("small", False):
        change_buffer._ENTRY_ROWS, segment.MARK_BYTES = SMALL_ENTRIES, 1
    place = state_folder_at(options.pop("source", f"{sys.argv[1]}/source"))
    run(Path(sys.argv[1]), settings_of(sys.argv[2], int(sys.argv[3]), sys.argv[4], **options), place)
