"""Divides tables into ranges of keys, and reads a range by a prepared statement.

Every range is read as it is by then, later than the stream begins: the stream has all changes since, and its inserts
until the end of the load replace rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from calve.errors import SourceUnavailableError
from calve.sources.database.change_buffer import Block
from calve.sources.database.pieces import ChunkRows, grouped
from calve.sources.database.stopped import UnreadableError, unreadable
from calve.sources.database.table import DatabaseTable
from calve.sources.mysql.catalog.database import MysqlCatalog, MysqlCatalogTable
from calve.sources.mysql.failure import session
from calve.sources.mysql.position.at_position import begin_at_position
from calve.sources.mysql.protocol.quote import quoted
from calve.sources.mysql.protocol.wire import MysqlConnection
from calve.sources.mysql.rows.results import columns_of
from calve.sources.mysql.settings import MysqlSettings
from calve.state.folder import StateFolder

__all__ = ["chunks", "read_chunk"]

_CHUNK_BYTES = 32 << 20
_STEP = "load"
_CHANGED = frozenset(("1054", "1146", "1049", "1412"))
"""Codes of errors for a column, table or database that does not exist, or was changed since the snapshot."""
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")


def chunks(
    connection: MysqlConnection, tables: Sequence[DatabaseTable], catalog_tables: Sequence[MysqlCatalogTable]
) -> list[dict[str, Any]]:
    """Divide tables whose key begins with an integer into equal ranges of it; others are one chunk.

    Args:
        connection: To the server.
        tables: All selected tables.
        catalog_tables: The same, as the catalog has them now.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
        SourceUnavailableError: The tables are not those that were found: MySQL 5.7 does not show a table for the moment
            in which a statement replaces it.
    """
    sizes = {catalog_table.full_name: catalog_table.size_bytes for catalog_table in catalog_tables}
    for name in sizes.keys() ^ {table.full_name for table in tables}:
        raise SourceUnavailableError(f"{name} has just been changed", step="start")
    return [chunk for table in tables for chunk in _chunks(connection, table, sizes[table.full_name])]


def _chunks(connection: MysqlConnection, table: DatabaseTable, size: int) -> Iterator[dict[str, Any]]:
    key = table.columns[table.keys[0]] if table.keys else None  # without one it is read whole, at one position
    count = -(-size // _CHUNK_BYTES)
    borders: list[int] = []
    if key and count > 1 and key.declared.startswith(_INTEGERS):
        name = quoted(key.name)
        lowest, highest = connection.query(f"select min({name}), max({name}) from {_sql(table)}")[0]
        if lowest is not None and highest is not None:
            first, width = int(lowest), int(highest) - int(lowest) + 1
            borders = sorted({first + width * number // count for number in range(1, count)})
    chunk_bytes = max(size // (len(borders) + 1), 1)
    for start, end in zip([None, *borders], [*borders, None], strict=True):
        yield {"table": table.oid, "start": start, "end": end, "bytes": chunk_bytes}


def read_chunk(
    settings: MysqlSettings, folder: StateFolder, table: DatabaseTable, chunk: dict[str, Any], name: str
) -> Iterator[ChunkRows]:
    """Yield the rows of a chunk as columns; those of a table without a key with the position of which they are.

    Raises:
        SourceError: The server does not answer, or refuses.
        UnreadableError: The table is not what it was when the load began.
    """
    with session(settings, _STEP, name, f"to read {table.full_name}") as connection, unreadable(_CHANGED):
        at = begin_at_position(connection, settings, folder, table) if table.appends else None
        _require_order(connection, table, at is None)
        result_columns, blocks = connection.execute(_select(table, chunk))
        for group in grouped(blocks, lambda block: len(block.data)):
            yield ChunkRows(columns_of(_joined(group), result_columns, table.columns), at=at)


def _require_order(connection: MysqlConnection, table: DatabaseTable, begins: bool) -> None:
    """Check that no columns have changed places, and let nobody change them while the session's transaction goes on.

    Args:
        connection: A session.
        table: The table.
        begins: Whether the transaction begins here.

    Raises:
        ServerError: The server refuses.
        UnreadableError: Columns have changed places, maybe together with their names.
    """
    if begins:
        connection.query("start transaction")
    connection.query(f"select connection_id() from {_sql(table)} limit 0")
    names = [column.name for column in table.columns]
    now = [name for name in MysqlCatalog(connection).types(table.schema, table.name) if name in names]
    if now != names:
        raise UnreadableError(f"its columns were {', '.join(names)}, and are {', '.join(now)}")


def _joined(blocks: Sequence[Block]) -> pa.Array:
    lengths = np.frombuffer(b"".join(block.lengths for block in blocks), "<u4")
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    data = b"".join(block.data for block in blocks)
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _select(table: DatabaseTable, chunk: dict[str, Any]) -> str:
    fields = ", ".join(quoted(column.name) for column in table.columns)
    key = quoted(table.columns[table.keys[0]].name) if table.keys else ""
    limits = [f"{key} >= {chunk['start']}"] if chunk["start"] is not None else []
    limits += [f"{key} < {chunk['end']}"] if chunk["end"] is not None else []
    where = f" WHERE {' AND '.join(limits)}" if limits else ""
    return f"SELECT {fields} FROM {_sql(table)}{where}"


def _sql(table: DatabaseTable) -> str:
    return f"{quoted(table.schema)}.{quoted(table.name)}"
