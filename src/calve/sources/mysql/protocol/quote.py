"""Names and strings in the SQL of MySQL."""

from __future__ import annotations

__all__ = ["literal", "quoted"]


def quoted(name: str) -> str:
    """Return an identifier in SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a string in SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
