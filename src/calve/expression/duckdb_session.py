"""Opens DuckDB for SQL of users and of Calve: it computes, and reaches neither files nor networks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # many tasks need no SQL, and it takes a tenth of a second to import
    import duckdb

__all__ = ["open_duckdb"]

_CLOSED = {
    "enable_external_access": False,  # files, HTTP, ATTACH, COPY, extensions
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # variables of Python as tables
    "temp_directory": "",
}


def open_duckdb() -> duckdb.DuckDBPyConnection:
    """Return a database in memory on one thread, whose settings no SQL can change."""
    import duckdb

    connection = duckdb.connect(config={"threads": 1, "arrow_large_buffer_size": True, **_CLOSED})
    connection.execute("SET timezone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    return connection
