"""Looks for infinite dates, years that Iceberg does not have, and NaN in tables before they are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from calve.sources.database.survey import surveyed
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.postgres.protocol.quote import qualified, quoted
from calve.sources.postgres.protocol.wire import PostgresConnection
from calve.table.kinds import named

__all__ = ["odd_columns"]

_SIZES = """
select c.oid, coalesce(sum(pg_table_size(p.oid)), 0) from pg_class c
left join pg_inherits i on i.inhparent = c.oid join pg_class p on p.oid in (c.oid, i.inhrelid)
where c.oid in ({oids}) group by c.oid
"""
_IS_ODD = "not isfinite({0}) or {0} < '0001-01-01' or {0} >= '10000-01-01'"


def odd_columns(connection: PostgresConnection, tables: Sequence[DatabaseTable]) -> dict[str, list[str]]:
    """Return the columns of each table with values that their type in Iceberg does not have.

    Args:
        connection: To the database.
        tables: The tables.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    risky = {table.oid: [(tested, test) for tested in table.columns if (test := _test(tested))] for table in tables}
    risky = {oid: columns for oid, columns in risky.items() if columns}
    if not risky:
        return {}
    rows = connection.query(_SIZES.format(oids=", ".join(map(str, risky))))
    bytes_of = {int(row[0] or 0): int(row[1] or 0) for row in rows}
    sizes = {table.full_name: bytes_of.get(table.oid, 0) for table in tables}
    odd = {}
    for table in surveyed([table for table in tables if table.oid in risky], sizes):
        columns = risky[table.oid]
        tests = ", ".join(f"bool_or({test})" for _, test in columns)
        [answers] = connection.query(f"select {tests} from {qualified(table)}")
        odd[table.full_name] = [
            column.name for (column, _), is_odd in zip(columns, answers, strict=True) if is_odd == "t"
        ]
    return odd


def _test(column: Column) -> str:
    """Return SQL for whether a value has no place in its type; empty: all have one."""
    name = quoted(column.name)
    if named(column.kind).is_date_time:
        return _IS_ODD.format(name)
    return f"{name} = 'NaN'" if column.kind.startswith("decimal") else ""
