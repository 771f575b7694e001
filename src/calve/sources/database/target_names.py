"""Checks that a target can have the columns of a table: the names that readers of Iceberg tables can distinguish."""

from __future__ import annotations

from pyiceberg.types import StructType

from calve.event.column_names import ELEMENT, ColumnNames, ColumnPath
from calve.sources.database.table import Column, DatabaseTable
from calve.table.kinds import OTHER, Limit, named

__all__ = ["NO_KEY", "key_fault", "names_fault"]

NO_KEY = "no_key: mirror, or no_key: append, which makes each change a row"
"""How tables without a key can be read."""


def names_fault(table: DatabaseTable) -> str:
    """Return why a target cannot have the columns of a table, with those that it keeps although they were dropped.

    Empty if it can. Spark ignores the case of names, and Parquet files have some characters escaped.
    """
    live = {column.field_name for column in table.columns}
    columns = [*table.columns, *(column for column in table.dropped if column.field_name not in live)]
    names = ColumnNames(StructType(), limit=len(columns) + len(table.history))
    for name in table.history:
        names.add_if_free(ColumnPath(), name)
    for column in columns:
        if fault := names.fault(ColumnPath(), column.field_name) or _add(names, column):
            is_dropped = column.field_name not in live
            return f"the target cannot have the {'dropped ' * is_dropped}column {column.name}: {fault}"
    return ""


def key_fault(table: DatabaseTable) -> str:
    """Return why the rows of a target cannot be found by the key of a table, as what follows its name; empty: they can.

    Iceberg has no keys of floating-point numbers: there -0.0 and 0.0, which databases hold for one value, would be two.
    """
    if not table.is_readable:
        return f"has no key, so its changes cannot be applied without {NO_KEY}"
    for column in (table.columns[index] for index in table.keys):
        row = named(column.kind)
        if row is OTHER or Limit.NO_KEY in row.limits:
            return f"has the column {column.name} in its key, a {column.declared}, which cannot be a key in Iceberg"
    return ""


def _add(names: ColumnNames, column: Column) -> str:
    """Add a column; return why it cannot be a list, or an empty text."""
    names.add_if_free(ColumnPath(), column.field_name)
    if not column.kind.startswith("list<") or names.add_inside_if_free(ColumnPath().field(column.field_name), ELEMENT):
        return ""
    return f"its elements have the same full name as the column {column.field_name}.{ELEMENT}"
