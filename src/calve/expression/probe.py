"""Checks at compile time whether DuckDB supports an expression."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # as in `calve.event.duck`
    import duckdb

__all__ = ["knows", "refusal"]


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect()


def refusal(sql: str, *parameters: str) -> str | None:
    """Return the first line of DuckDB's error for a statement; None if it runs."""
    from duckdb import Error

    try:
        _connection().cursor().execute(sql, list(parameters)).fetchall()
    except Error as error:
        return str(error).splitlines()[0].split(": ", 1)[-1].strip()
    return None


def knows(sql: str, *parameters: str) -> bool:
    """Return whether a query returns a row."""
    return bool(_connection().cursor().execute(sql, list(parameters)).fetchall())
