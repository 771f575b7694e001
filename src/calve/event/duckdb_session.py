"""The one DuckDB connection of a worker process."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pyarrow as pa

from calve.expression.duckdb_session import open_duckdb

if TYPE_CHECKING:  # see `open_duckdb`
    import duckdb

__all__ = ["one_array", "run"]

_lock = threading.RLock()
_open: dict[int, duckdb.DuckDBPyConnection] = {}


def run(sql: str, **relations: pa.Table) -> pa.Table:
    """Run a SELECT over Arrow tables, named like the arguments, on one thread.

    A forked process opens its own connection; threads of one process wait for each other.
    """
    with _lock:
        connection = _connection()
        for name, table in relations.items():
            connection.register(name, table)
        try:
            return connection.sql(sql).to_arrow_table()
        finally:
            for name in relations:
                connection.unregister(name)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array; unlike `combine_chunks` without a copy if it is one already."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _connection() -> duckdb.DuckDBPyConnection:
    connection = _open.get(os.getpid())
    if connection is None:
        connection = open_duckdb()
        _open.clear()
        _open[os.getpid()] = connection
    return connection
