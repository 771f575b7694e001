"""Prints the rows of a query of DuckDB, as a table for people or as lines of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from calve.cli.output import echo
from calve.cli.table import columns
from calve.errors import SettingsError
from calve.observe.humanize import harmless, many

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["connect", "print_rows", "select", "wrong_query"]

_MOST_CELL = 60
_BATCH_ROWS = 10_000


def connect() -> duckdb.DuckDBPyConnection:
    """Open a database in memory that loads nothing from elsewhere."""
    import duckdb

    database = duckdb.connect(config={"threads": os.cpu_count() or 1, "autoinstall_known_extensions": "false"})
    database.execute("SET TimeZone = 'UTC'")
    return database


def wrong_query(error: Exception, hint: str = "") -> SettingsError:
    """Return the error for a query that DuckDB refuses, with its hint if there is no better one."""
    what, _, where = str(error).partition("\n")
    hint = hint or " ".join(where.split()) or "calve tables lists the tables, calve show TABLE the columns"
    return SettingsError(what.rstrip("!."), step="read", target="SQL", hint=hint)


def select(database: duckdb.DuckDBPyConnection, query: str) -> pa.RecordBatchReader:
    """Run one SELECT; its rows are read when they are asked for.

    Raises:
        SettingsError: It is not one SELECT; another statement could write a file.
        duckdb.Error: DuckDB refuses it.
    """
    import duckdb

    if [statement.type for statement in database.extract_statements(query)] != [duckdb.StatementType.SELECT]:
        hint = 'Give one SELECT; for a file of rows: calve sql "SELECT …" --json > rows.ndjson'
        raise SettingsError("only one SELECT is run", step="read", target="SQL", hint=hint)
    return database.sql(query).to_arrow_reader()


def print_rows(rows: pa.RecordBatchReader, as_json: bool) -> None:
    """Print all rows; as text when all are here, as JSON one by one."""
    if as_json:
        for row in _rows(rows):
            echo(json.dumps(row, default=str, ensure_ascii=False))
        return
    all_rows = list(_rows(rows))
    numbers = {field.name for field in rows.schema if _is_number(field.type)}
    headings = [f"{'>' * (name in numbers)}{harmless(name)}" for name in rows.schema.names]
    cells = [[_cell(row[name]) for name in rows.schema.names] for row in all_rows]
    for line in columns(headings, cells):
        echo(line)
    echo(f"({many(len(all_rows), 'row')})", err=True)


def _rows(rows: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    for batch in rows:
        yield from batch.to_pylist()


def _is_number(kind: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dict | list):
        value = json.dumps(value, default=str, ensure_ascii=False)
    text = harmless(str(value))
    return text if len(text) <= _MOST_CELL else text[: _MOST_CELL - 1] + "…"
