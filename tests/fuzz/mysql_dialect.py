"""What `fuzz.databases` needs of a server of MySQL or MariaDB."""

from __future__ import annotations

import random
import re
import struct
from datetime import date, datetime
from typing import Any

from calve.sources.mysql.settings import MysqlSettings
from calve.sources.tables import Tables
from fuzz.mysql_tables import MysqlTable, quoted
from fuzz.statements import SEPARATOR
from services.mysql import MySql
from sources.mysql.edges import sent, told
from sources.mysql.follow import settings_of

__all__ = ["MysqlDialect"]

_COLUMNS = """
select column_name, data_type, column_type from information_schema.columns
where table_schema = '{}' and table_name = '{}' order by ordinal_position
"""
_ODD_DAY = "a day that has no number"
_is_odd_day = re.compile(r"\d{4}-(00-\d\d|\d\d-00)\b").match
_is_time = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?(\+00)?").fullmatch
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")


class MysqlDialect:
    """One server.

    Args:
        server: It runs.
    """

    def __init__(self, server: MySql) -> None:
        self._server = server

    def run(self, database: str, statement: str) -> list[list[str | None]]:
        """See `Dialect`."""
        return [list(row) for row in self._server.run(*statement.split(SEPARATOR), database=database)]

    def create(self, database: str) -> None:
        """See `Dialect`."""
        self._server.create_database(database)

    def drop(self, database: str) -> None:
        """See `Dialect`."""
        self._server.run(f"drop database {database}")

    def settings(self, database: str, exclude: list[str]) -> MysqlSettings:
        """See `Dialect`."""
        tables = Tables(include=[f"{database}.t?"], exclude=[f"{database}.{name}" for name in exclude])
        return settings_of(self._server, database, tables=tables, no_key="append", on_truncate="compare")

    def table(self, name: str, chance: random.Random) -> MysqlTable:
        """See `Dialect`."""
        return MysqlTable(name, chance, self._server.kind)

    def rows(self, database: str, table: str) -> list[dict[str, str | None]]:
        """See `Dialect`."""
        columns = [[name or "", kind or "", whole or ""] for name, kind, whole in self._columns(database, table)]
        fields = ", ".join(_sent(quoted(name), kind, whole) for name, kind, whole in columns)
        rows = self.run(database, f"select {fields} from {table}")
        return [
            {name: _float(value) if kind in ("float", "double") else value
             for (name, kind, _), value in zip(columns, row, strict=True)}
            for row in rows
        ]  # fmt: skip

    def _columns(self, database: str, table: str) -> list[list[str | None]]:
        return self.run(database, _COLUMNS.format(database, table))

    def text(self, value: Any) -> str | None:
        """See `Dialect`."""
        match value:
            case float():
                return _packed(value)
            case bytes() | bool() | datetime() | date():
                return str(told("", value))
            case None:
                return None
        if _is_odd_day(str(value)):
            return _ODD_DAY
        if _is_time(str(value)):  # beside an odd day all values of a column are texts, which the sink converts
            return str(told("", datetime.fromisoformat(str(value))))
        return f"{value:f}" if hasattr(value, "as_tuple") else str(value)


def _sent(name: str, kind: str, whole: str) -> str:
    if kind in _TEXTS:
        return f"convert({name} using utf8mb4)"
    if kind == "bit" and whole != "bit(1)":
        return f"lpad(bin({name} + 0), {whole[4:-1]}, '0')"
    if kind in ("date", "datetime", "timestamp"):
        return f"if({name} is null, null, coalesce({sent(kind, name)}, '{_ODD_DAY}'))"
    return sent(kind, name)


def _float(value: str | None) -> str | None:
    return None if value is None else _packed(float(value))


def _packed(number: float) -> str:
    return struct.pack(">d", number).hex()
