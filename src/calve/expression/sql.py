"""Texts and names as SQL takes them: DuckDB's, and Spark's."""

from __future__ import annotations

__all__ = ["duckdb_name", "duckdb_text", "spark_name", "spark_text"]


def duckdb_text(text: str) -> str:
    """Return a text as a literal of DuckDB."""
    return "'" + text.replace("'", "''") + "'"


def duckdb_name(name: str) -> str:
    """Return a name as DuckDB takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def spark_text(text: str) -> str:
    """Return a text as a literal of Spark, which knows backslashes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spark_name(*path: str) -> str:
    """Return the name of a column as Spark takes it, or the path to one in structs; dots in a name do not divide it."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)
