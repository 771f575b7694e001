"""Reads a MySQL source to its end, without Spark."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from calve.event.columns import SCHEMA, TYPED
from calve.sources.database.epochs import Epochs
from calve.sources.database.settings import DatabaseSettings
from calve.sources.database.table import HISTORY
from calve.sources.mysql import source
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.postgres import source as postgres
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.source import APART, SharedTargets, SourceContext, SourceTable, no_shared_targets
from calve.sources.tables import Tables
from calve.state.local_folder import LocalFolder
from services.mysql import MYSQL_5, PASSWORD, MySql
from services.postgres import Postgres
from sources.mysql.edges import EDGES, sent, told

_TIME = re.compile(r"(?!0000)\d{4}-(?!00)\d\d-(?!00)\d\d \d\d:\d\d:\d\d(\.\d+)?(\+00)?").fullmatch


def settings_of(server: MySql, database: str, **more: Any) -> MysqlSettings:
    return MysqlSettings(
        host="127.0.0.1",
        port=server.port,
        username="root",
        password=PASSWORD,
        allow_cleartext_password=True,
        **{"tables": Tables(include=[f"{database}.*"]), "min_free_bytes": 0, **more},
    )


def postgres_settings(server: Postgres, database: str, **more: Any) -> PostgresSettings:
    return PostgresSettings(
        host="127.0.0.1",
        port=server.port,
        database=database,
        username="postgres",
        password=PASSWORD,
        min_free_bytes=0,
        **more,
    )


class Follower:
    """Reads all tables of a database again and again, and keeps the rows as a sink would.

    Attributes:
        rows: By table and key, with the names that columns had when the row came.
        apart: Those of tables that are read again, until they are compared.
        differing: How many rows differed, by table.
        fault: Why tables cannot be compared.
        histories: The rows of tables whose changes become rows, with values by the numbers of columns.
        multisets: How often rows without a key are there, each as text, and their values by the numbers of columns.
    """

    def __init__(self, settings: DatabaseSettings, folder: Path, shared: SharedTargets = no_shared_targets) -> None:
        self.settings, self.folder, self._shared = settings, folder, shared
        self.position: Any = None
        self.rows: dict[str, dict[str, dict]] = {}
        self._numbers: dict[tuple[str, str], dict[str, int]] = {}
        self.apart: dict[str, dict[str, dict]] = {}
        self.differing: dict[str, int] = {}
        self.fault = ""
        self.histories: dict[str, list[dict[Any, Any]]] = {}
        self.multisets: dict[str, tuple[Counter[str], dict[str, dict[int, Any]]]] = {}
        self.before_first_plan: Callable[[], object] = lambda: None

    def read(self) -> dict[str, dict[str, dict]]:
        """Read to the end; give the rows of each table, by their keys."""
        database = postgres if isinstance(self.settings, PostgresSettings) else source
        opened = database.open(self.settings, LocalFolder(self.folder), "p", SourceContext(shared_targets=self._shared))
        opened.start(self.position, True)
        self.before_first_plan()
        try:
            while self._step(opened):
                pass
        finally:
            opened.stop()
        return self.rows

    def _step(self, opened: Any) -> bool:
        """Do what comes next; return False at the end."""
        opened.backlog(self.position)
        planned = opened.plan(self.position, 1 << 22)
        if planned is not None:
            tables = {table.attributes["table_name"]: table for table in opened.tables(planned)}
            for split in planned.splits:
                place = self.apart if split.body.get(APART) else self.rows
                for batch in opened.reader.read(split):
                    self._apply(batch.drop_columns([SCHEMA]).to_pylist(), tables, place)
            self.position = planned.position
            opened.acknowledge(planned)
        elif opened.tables_to_empty is not None:
            for table in opened.tables_to_empty:
                self.rows.pop(table.attributes["table_name"], None)
                self.histories.pop(table.attributes["table_name"], None)
                self.multisets.pop(table.attributes["table_name"], None)
            opened.emptied(True)
        elif opened.comparing is not None and opened.comparing.to_load is not None:
            self.apart.clear()
            opened.comparing.load(self.fault)
        elif opened.comparing is not None and opened.comparing.to_compare is not None:
            for table in opened.comparing.to_compare:
                self._compare(table.attributes["table_name"])
            opened.comparing.end("")
        else:
            return False
        return True

    def _compare(self, table: str) -> None:
        before, now = (place.get(table, {}) for place in (self.rows, self.apart))
        self.differing[table] = sum(before.get(key) != now.get(key) for key in before.keys() | now.keys())
        self.rows[table] = dict(now)

    def renamed(self, table: str) -> list[dict]:
        """Give the rows of a table with the names that its columns have by now."""
        names = self._names(table)
        if table in self.histories:
            return rows_at_end(self.histories[table], names)
        if table in self.multisets:
            counts, values = self.multisets[table]
            return [{name: values[text].get(number) for number, name in names.items()} for text in counts.elements()]
        return [
            {names.get(self._numbers[table, key][name]): value for name, value in row.items()}
            for key, row in self.rows.get(table, {}).items()
        ]

    def _names(self, table: str) -> dict[int, str]:
        epochs = Epochs(LocalFolder(self.folder))
        epochs.load()
        [now] = [one for one in epochs.tables.values() if one.name == table]
        return {column.number: column.name for column in now.columns}

    def _apply(self, rows: list[dict], tables: dict[str, SourceTable], place: dict[str, dict[str, dict]]) -> None:
        for row in rows:
            fields = json.loads(tables[row["table_name"]].schema_json)["fields"]
            if "change_type" in row[TYPED]:
                assert row["operation"] == "insert"
                numbers = {field["name"]: field["id"] for field in fields}
                values = {name if name in HISTORY else numbers[name]: value for name, value in row[TYPED].items()}
                self.histories.setdefault(row["table_name"], []).append(values)
                continue
            if tables[row["table_name"]].has_full_rows:
                self._count(row, {field["name"]: field["id"] for field in fields})
                continue
            self._numbers[row["table_name"], row["document_id"]] = {field["name"]: field["id"] for field in fields}
            table, key = place.setdefault(row["table_name"], {}), row["document_id"]
            if row["operation"] == "delete":
                table.pop(key, None)
            else:
                assert row["operation"] == "update" or key not in table, "an insert of a row that is there"
                table[key] = row[TYPED]

    def _count(self, row: dict, numbers: dict[str, int]) -> None:
        """Insert a row of a table without a key, or delete one of those that are equal to it."""
        values = {numbers[name]: value for name, value in row[TYPED].items() if value is not None}
        text = repr({number: _converted(value) for number, value in sorted(values.items())})
        counts, rows = self.multisets.setdefault(row["table_name"], (Counter(), {}))
        counts[text] += {"insert": 1, "delete": -1}[row["operation"]]
        assert counts[text] >= 0, "a row went that was not there"
        rows[text] = values


def rows_at_end(history: list[dict[Any, Any]], names: dict[int, str]) -> list[dict]:
    """Give the rows that a table has at the end of its history, as its documentation says how."""
    loaded = max((row["change_position"] for row in history if row["change_type"] == "LOAD"), default=0)
    counts: Counter[str] = Counter()
    rows = {}
    for row in history:
        position, kind = row["change_position"], row["change_type"]
        if (position != loaded) if kind == "LOAD" else (position <= loaded):
            continue
        values = {names[number]: row.get(number) for number in names}
        text = repr({name: _converted(value) for name, value in values.items()})
        counts[text] += 1 if kind in ("LOAD", "INSERT", "UPDATE_AFTER") else -1
        rows[text] = values
    assert all(count >= 0 for count in counts.values()), "a row went that was not there"
    return [rows[text] for text in counts.elements()]


def _converted(value: Any) -> Any:
    """Give a value as a sink has it: beside a zero date all times of a column are texts."""
    if isinstance(value, str) and _TIME(value):
        value = datetime.fromisoformat(value)
    return value.isoformat() if isinstance(value, datetime) else value


def stopped_in(folder: Path) -> dict[str, str]:
    """Give why tables are stopped."""
    epochs = Epochs(LocalFolder(folder))
    epochs.load()
    return {table.full_name: table.stopped for table in epochs.tables.values() if table.stopped}


def check_all_types(server: MySql, folder: Path) -> None:
    """Check that a table of all types has the values of the database, from the load and from the log."""
    columns = {f"c{number}": kind for number, kind in enumerate(EDGES)}
    most = max(map(len, EDGES.values())) + 1
    fields = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    lines = [
        f"({number}, {', '.join((*values, *['NULL'] * most)[number] for values in EDGES.values())})"
        for number in range(most)
    ]
    insert = f"insert into kinds values {', '.join(lines)}"
    server.create_database("types")
    server.run(f"create table kinds (id int primary key, {fields}) row_format = dynamic", insert, database="types")
    follower = Follower(settings_of(server, "types"), folder)
    loaded = dict(follower.read()["kinds"])
    server.run("update kinds set id = id + 100", insert, database="types")
    streamed = follower.read()["kinds"]
    select = ", ".join(sent(kind, name) for name, kind in columns.items())
    for number, *row in server.run(f"select id, {select} from kinds", database="types"):
        expected = dict(zip(columns, row, strict=True))
        for name, kind in columns.items():
            if kind.startswith(("float", "double")) and expected[name] is not None:
                expected[name] = struct.pack(">d", float(expected[name]))
        typed = streamed[str(number)]
        found = {name: told(kind, typed[name]) for name, kind in columns.items()}
        if server.kind == MYSQL_5:
            texts = [name for name, kind in columns.items() if kind == "json"]
            for row in filter(None, (typed, loaded.get(str(number)), found, expected)):  # it writes the double 1.0 as 1
                row |= {name: json.loads(row[name] or "null", parse_int=float) for name in texts}
        assert found == expected
        if int(number or 0) < 100:
            assert repr(typed) == repr(loaded[str(number)])
