"""Names and strings in the SQL of PostgreSQL."""

from __future__ import annotations

from calve.sources.database.table import DatabaseTable

__all__ = ["literal", "qualified", "quoted"]


def quoted(name: str) -> str:
    """Return an identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def qualified(table: DatabaseTable) -> str:
    """Return the name of a table in SQL."""
    return f"{quoted(table.schema)}.{quoted(table.name)}"


def literal(text: str) -> str:
    """Return a string in SQL, whatever `standard_conforming_strings` is."""
    escaped = text.replace("'", "''")
    return " E'" + escaped.replace("\\", "\\\\") + "'" if "\\" in text else f"'{escaped}'"
