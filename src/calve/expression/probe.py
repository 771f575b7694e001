"""Checks at compile time whether DuckDB supports an expression."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from calve.expression.duckdb_session import open_duckdb

if TYPE_CHECKING:  # see `open_duckdb`
    import duckdb

__all__ = ["knows", "refusal"]


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return open_duckdb()


def refusal(sql: str, *parameters: str) -> str | None:
    """Return the first line of DuckDB's error for a statement; None if it runs."""
    from duckdb import Error  # see `open_duckdb`

    try:
        _connection().cursor().execute(sql, list(parameters)).fetchall()
    except Error as error:
        return str(error).splitlines()[0].split(": ", 1)[-1].strip()
    return None


def knows(sql: str, *parameters: str) -> bool:
    """Return whether a query returns a row."""
    return bool(_connection().cursor().execute(sql, list(parameters)).fetchall())
