"""Shows the tables of an Iceberg catalog before there is a pipeline; nothing is changed there, and no JVM starts."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from calve.catalog.newest_rows import newest_rows
from calve.catalog.open_tables import OpenTables
from calve.errors import CalveError, NoTargetError
from calve.sources.preview import MOST_ROWS, DatabasePreview, TablePreview

__all__ = ["preview"]

_MOST_TABLES, _MOST_COLUMNS = 20, 40


def preview(properties: Mapping[str, str], chosen: str) -> DatabasePreview:
    """Return the tables of a catalog, the chosen one first.

    Args:
        properties: The properties of the catalog.
        chosen: A table.

    Raises:
        CalveError: The catalog does not answer, or has no tables.
    """
    tables = OpenTables(properties)
    if absence := tables.absence():
        hint = "Change to its folder, or name the catalog: --catalog type=rest --catalog uri=…"
        raise NoTargetError(absence, step="read", hint=hint)
    names = sorted(tables.names(), key=lambda name: name != chosen)
    return DatabasePreview(
        tuple(_table(tables, name) for name in names[:_MOST_TABLES]), max(0, len(names) - _MOST_TABLES)
    )


def _table(tables: OpenTables, name: str) -> TablePreview:
    try:
        table = tables.open(name)
    except CalveError:
        return TablePreview(name, ())
    schema = table.schema()
    keys = set(schema.identifier_field_ids)
    columns = tuple((field.name, str(field.field_type), field.field_id in keys) for field in schema.fields)
    times = tuple(field.name for field in schema.fields if str(field.field_type).startswith(("timestamp", "date")))
    return TablePreview(name, columns, _rows(table), times)


def _rows(table: Any) -> tuple[tuple[str | None, ...], ...]:
    with suppress(CalveError, OSError, ValueError):  # its columns are shown all the same
        rows = newest_rows(table, MOST_ROWS, _MOST_COLUMNS).to_pylist()
        return tuple(tuple(None if value is None else str(value) for value in row.values()) for row in rows)
    return ()
