"""What the target can follow when a table changes, and what stops the table."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from calve.errors import SchemaConflictError
from calve.sources.database.survey import kept_texts
from calve.sources.database.table import DatabaseTable, can_widen

__all__ = ["RECREATED", "check", "conflict", "fitting"]

RECREATED = "it was dropped and created again"
"""Why a table is stopped: the rows of the old one are in the target."""


def check(former: DatabaseTable, table: DatabaseTable) -> None:
    """Check that the target can follow a table from one description to the next.

    Raises:
        SchemaConflictError: It cannot.
    """
    if former.full_name != table.full_name:
        raise conflict(former, f"it is now called {table.full_name}")
    before = {column.number: column for column in former.columns}
    for column in table.columns:
        old = before.get(column.number)
        if old is not None and not can_widen(old.kind, column.kind):
            raise conflict(table, f"the type of {column.name} changed from {old.kind} to {column.kind}")
    old_key, key = ({column.number for column in version.columns if column.is_key} for version in (former, table))
    if old_key != key:
        raise conflict(table, "its key has other columns now")


def _misfit(before: DatabaseTable, table: DatabaseTable) -> str:
    """Return why a table that is loaded again does not fit the target of the one before; empty: it does."""
    old = {column.name: column for column in (*before.dropped, *before.columns)}
    for column in table.columns:
        if column.name in old and not can_widen(old[column.name].kind, column.kind):
            return f"the type of {column.name} changed from {old[column.name].kind} to {column.kind}"
    old_key, key = ({column.name for column in version.columns if column.is_key} for version in (before, table))
    is_known = bool(old_key) or before.appends
    return "its key has other columns now" if is_known and old_key != key else ""


def fitting(table: DatabaseTable, before: Mapping[str, DatabaseTable]) -> DatabaseTable:
    """Return a table that is loaded again; stopped if its target cannot hold it."""
    old = before.get(table.full_name)
    table = kept_texts(table, old) if old else table
    why = _misfit(old, table) if old else ""
    return msgspec.structs.replace(table, stopped=f"{why}; drop its target table, then reload again") if why else table


def conflict(table: DatabaseTable, what: str) -> SchemaConflictError:
    """Return the error of a table that cannot be followed any more."""
    return SchemaConflictError(what, step="read", target=table.full_name)
