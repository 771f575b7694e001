"""Reads a MySQL source to its end, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from calve.event.columns import SCHEMA, TYPED
from calve.sources.database.settings import Tables
from calve.sources.mysql import source
from calve.sources.mysql.settings import MysqlSettings
from services.mysql import PASSWORD, MySql


def settings_of(server: MySql, database: str, **more: Any) -> MysqlSettings:
    return MysqlSettings(
        host="127.0.0.1",
        port=server.port,
        username="root",
        password=PASSWORD,
        tables=Tables(include=[f"{database}.*"]),
        min_free_bytes=0,
        **more,
    )


def read_once(settings: MysqlSettings, folder: Path, position: Any = None) -> tuple[dict[tuple[str, Any], dict], Any]:
    """Read to the end; give the last row of each key, with its metadata, and the position."""
    opened = source.open(settings, folder, "p")
    opened.start(position, True)
    found: dict[tuple[str, Any], dict] = {}
    try:
        while planned := opened.plan(position, 1 << 22):
            for split in planned.splits:
                for batch in opened.reader.read(split):
                    for row in batch.drop_columns([SCHEMA]).to_pylist():
                        found[row["table_name"], row[TYPED]["id"]] = row
            position = planned.position
            opened.acknowledge(planned)
    finally:
        opened.stop()
    return found, position


class Follower:
    """Reads all tables of a database again and again, and keeps the rows as a sink would."""

    def __init__(self, settings: MysqlSettings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        self.position: Any = None
        self.rows: dict[str, dict[str, dict]] = {}
        self.before_first_plan: Callable[[], object] = lambda: None

    def read(self) -> dict[str, dict[str, dict]]:
        """Read to the end; give the rows of each table, by their keys."""
        opened = source.open(self.settings, self.folder, "p")
        opened.start(self.position, True)
        self.before_first_plan()
        try:
            opened.backlog(self.position)
            if opened.to_clear is not None:
                self.rows = {}
                opened.cleared(True)
            while planned := opened.plan(self.position, 1 << 22):
                for split in planned.splits:
                    for batch in opened.reader.read(split):
                        self._apply(batch.drop_columns([SCHEMA]).to_pylist())
                self.position = planned.position
                opened.acknowledge(planned)
            opened.backlog(self.position)
        finally:
            opened.stop()
        return self.rows

    def _apply(self, rows: list[dict]) -> None:
        for row in rows:
            table, key = self.rows.setdefault(row["table_name"], {}), row["document_id"]
            if row["operation"] == "delete":
                table.pop(key, None)
            else:
                assert row["operation"] == "update" or key not in table, "an insert of a row that is there"
                table[key] = row[TYPED]
