"""Shows the tables of a database before there is a pipeline; nothing is changed or created on the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calve.sources.database.connection import ServerError
from calve.sources.database.table import DatabaseTable
from calve.sources.preview import MOST_ROWS, TablePreview
from calve.table.kinds import named

__all__ = ["MOST_TABLES", "previewed"]

MOST_TABLES = 20
"""The tables that are described."""
Query = Callable[[str], Sequence[Sequence[str | None]]]


def previewed(table: DatabaseTable, quoted: Callable[[str], str], query: Query) -> TablePreview:
    """Return a table with its first rows.

    Args:
        table: The table.
        quoted: Writes a name in SQL.
        query: Returns the rows of a statement as texts.
    """
    columns = tuple((column.name, column.declared, column.is_key) for column in table.columns)
    try:
        names = ", ".join(quoted(column.name) for column in table.columns)
        of = f"{quoted(table.schema)}.{quoted(table.name)}"
        rows = tuple(map(tuple, query(f"select {names} from {of} limit {MOST_ROWS}")))
    except ServerError:  # e.g. a policy hides rows: the check of the rights says it
        rows = ()
    times = tuple(column.name for column in table.columns if named(column.kind).is_date_time)
    return TablePreview(table.full_name, columns, rows, times)
