"""Looks for zero dates in tables before they are loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calve.sources.database.survey import surveyed
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.protocol.quote import quoted
from calve.sources.mysql.protocol.wire import MysqlConnection
from calve.table.kinds import named

__all__ = ["odd_columns"]


def odd_columns(
    connection: MysqlConnection, tables: Sequence[DatabaseTable], sizes: Mapping[str, int]
) -> dict[str, list[str]]:
    """Return the columns of each table with dates that are none: without a year, month or day, or e.g. 31 February.

    Args:
        connection: To the server.
        tables: The tables.
        sizes: Their sizes in bytes, by full name.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    odd = {}
    for table in surveyed(tables, sizes):
        columns = [column for column in table.columns if named(column.kind).is_date_time]
        if columns:
            tests = ", ".join(f"max({_is_odd(column)})" for column in columns)
            [answers] = connection.query(f"select {tests} from {quoted(table.schema)}.{quoted(table.name)}")
            odd[table.full_name] = [
                column.name for column, is_odd in zip(columns, answers, strict=True) if is_odd == "1"
            ]
    return odd


def _is_odd(column: Column) -> str:
    name = quoted(column.name)
    day = f"dayofmonth({name})"
    return f"year({name}) = 0 or month({name}) = 0 or {day} = 0 or {day} > dayofmonth(last_day({name}))"
