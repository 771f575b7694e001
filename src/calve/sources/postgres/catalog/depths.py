"""Looks at arrays that a table has before it is loaded: a list of the target has one depth, so others become texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from calve.sources.database.table import Column, DatabaseTable, depth_of
from calve.sources.postgres.catalog.column_types import with_depth
from calve.sources.postgres.protocol.quote import qualified, quoted
from calve.sources.postgres.protocol.wire import PostgresConnection

__all__ = ["with_depths"]

_ROWS = 100_000
"""So many rows of a table are looked at."""


def with_depths(
    connection: PostgresConnection, tables: Iterable[DatabaseTable], read_tables: Mapping[str, DatabaseTable]
) -> list[DatabaseTable]:
    """Return tables whose arrays are lists of the depth of their values, or texts if they have several depths.

    Args:
        connection: A session.
        tables: The tables.
        read_tables: Those that have targets, by their names: what is known of their arrays stays.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    return [_with_depths(connection, table, read_tables.get(table.full_name)) for table in tables]


def _with_depths(connection: PostgresConnection, table: DatabaseTable, former: DatabaseTable | None) -> DatabaseTable:
    kept = {column.name: column for column in (former.columns if former else ())}
    arrays = [column for column in table.columns if depth_of(column.kind)[0]]
    kinds = {
        column.number: kept[column.name].kind
        for column in arrays
        if column.name in kept and kept[column.name].oid == column.oid
    }
    kinds |= _surveyed(connection, table, [column for column in arrays if column.number not in kinds])
    columns = (msgspec.structs.replace(column, kind=kinds.get(column.number, column.kind)) for column in table.columns)
    return msgspec.structs.replace(table, columns=tuple(columns))


def _surveyed(connection: PostgresConnection, table: DatabaseTable, arrays: Sequence[Column]) -> dict[int, str]:
    if not arrays:
        return {}
    names = [quoted(column.name) for column in arrays]
    measures = [
        f"min(array_ndims({name})), max(array_ndims({name})), "
        rf"bool_or({name}::text like '[%')"
        for name in names
    ]
    sample = f"select {', '.join(names)} from {qualified(table)} limit {_ROWS}"
    [row] = connection.query(f"select {', '.join(measures)} from ({sample}) t")
    return {column.number: _kind(column, row[3 * index : 3 * index + 3]) for index, column in enumerate(arrays)}


def _kind(column: Column, row: Sequence[str | None]) -> str:
    least, most, has_bounds = row
    if least is None:
        return column.kind
    return "string" if least != most or has_bounds == "t" else with_depth(column.kind, int(least))
