"""Prints the rows of a query of DuckDB, as a table for people or as lines of JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from calve.cli.output import echo
from calve.cli.table import columns
from calve.errors import CalveError, SettingsError, UnsupportedError
from calve.event.json_text import unquoted, value_texts
from calve.observe.humanize import harmless, many

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["check_select", "connect", "print_rows", "select", "wrong_query"]

_MOST_CELL = 60
_BATCH_ROWS = 10_000
_UNREADABLE = re.compile(r"reading the stream .*? failed: (?:[\w ]+: )?(.*?)\.? *Detail: Python", re.DOTALL)
"""DuckDB's error when PyIceberg fails to read; what follows is the stack."""
_WHOLE = ("HUGEINT", "UHUGEINT")
"""What DuckDB's sums of whole numbers are; Arrow has them as decimals."""


def connect() -> duckdb.DuckDBPyConnection:
    """Open a database in memory that loads nothing from elsewhere."""
    import duckdb

    database = duckdb.connect(config={"threads": os.cpu_count() or 1, "autoinstall_known_extensions": "false"})
    database.execute("SET TimeZone = 'UTC'")
    return database


def wrong_query(error: Exception, hint: str = "") -> CalveError:
    """Return the error for a query that DuckDB refuses, with its hint if there is no better one."""
    if files := _UNREADABLE.search(str(error)):
        hint = "calve changes TABLE prints the rows, with Spark"
        return UnsupportedError(f"Without Spark the rows cannot be read: {files[1]}", step="read", hint=hint)
    what, _, where = str(error).partition("\n")
    hint = hint or " ".join(where.split()) or "calve tables lists the tables, calve show TABLE the columns"
    return SettingsError(what.rstrip("!."), step="read", target="SQL", hint=hint)


def select(database: duckdb.DuckDBPyConnection, query: str) -> duckdb.DuckDBPyRelation:
    """Prepare one SELECT; its rows are read when they are asked for.

    Raises:
        SettingsError: It is not one SELECT.
        duckdb.Error: DuckDB refuses it.
    """
    check_select(database, query)
    return database.sql(query)


def check_select(database: duckdb.DuckDBPyConnection, query: str) -> None:
    """Check that a query is one SELECT: another statement could write a file.

    Raises:
        SettingsError: It is not.
        duckdb.Error: DuckDB cannot parse it.
    """
    import duckdb

    if [statement.type for statement in database.extract_statements(query)] != [duckdb.StatementType.SELECT]:
        hint = 'Give one SELECT; for a file of rows: calve sql "SELECT …" --json > rows.ndjson'
        raise SettingsError("only one SELECT is run", step="read", target="SQL", hint=hint)


def print_rows(query: duckdb.DuckDBPyRelation, as_json: bool) -> None:
    """Print all rows; as text when all are here, as JSON one by one. Values are written as `calve changes` does."""
    kinds, rows = list(map(str, query.types)), query.to_arrow_reader(_BATCH_ROWS)
    if as_json:
        names = [json.dumps(name, ensure_ascii=False) for name in rows.schema.names]
        for row in _rows(rows, kinds):
            echo(f"{{{', '.join(map(': '.join, zip(names, row, strict=True)))}}}")
        return
    all_rows = list(_rows(rows, kinds))
    numbers = {field.name for field in rows.schema if _is_number(field.type)}
    headings = [f"{'>' * (name in numbers)}{harmless(name)}" for name in rows.schema.names]
    cells = [list(map(_cell, row)) for row in all_rows]
    for line in columns(headings, cells):
        echo(line)
    echo(f"({many(len(all_rows), 'row')})", err=True)


def _rows(rows: pa.RecordBatchReader, kinds: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield each row as the JSON texts of its values."""
    for batch in rows:
        yield from zip(*map(_texts, batch.columns, kinds), strict=True)


def _texts(values: pa.Array, kind: str) -> list[str]:
    """Return the JSON text of each value of a column of DuckDB."""
    import pyarrow as pa

    if kind == "JSON":  # is text in Arrow
        return [text or "null" for text in values.to_pylist()]
    try:
        texts = value_texts(values, decimals_as_strings=kind not in _WHOLE)
    except pa.ArrowNotImplementedError:  # an interval
        return [json.dumps(value, default=str, ensure_ascii=False) for value in values.to_pylist()]
    return [text.decode() for text in texts.to_pylist()]


def _is_number(kind: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def _cell(text: str) -> str:
    """Return the JSON text of a value for people: a text without quotes, and short."""
    text = harmless(unquoted(text))
    return text if len(text) <= _MOST_CELL else text[: _MOST_CELL - 1] + "…"
