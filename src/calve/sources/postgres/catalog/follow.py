"""Follows the description of a table in the stream: new, renamed, widened and dropped columns."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from calve.sources.database.follow import check
from calve.sources.database.survey import kept_text
from calve.sources.database.table import Column, DatabaseTable, depth_of
from calve.sources.postgres.catalog.column_types import with_depth
from calve.sources.postgres.protocol.pgoutput import Relation

__all__ = ["described", "same"]

_FIRST_FREE = 5_000
"""Numbers of columns that the catalog does not have any more; PostgreSQL has at most 1,600 columns."""


def same(relation: Relation, table: DatabaseTable) -> bool:
    """Return whether a table is certainly as before; with REPLICA IDENTITY FULL only the catalog has the key."""
    before = [(column.name, column.oid, column.modifier, column.is_key) for column in table.columns]
    now = [(column.name, column.oid, column.modifier, column.in_identity) for column in relation.columns]
    is_same_name = (relation.schema, relation.name) == (table.schema, table.name)
    return is_same_name and before == now and relation.identity != "f"


def described(
    relation: Relation,
    former: DatabaseTable | None,
    current: DatabaseTable | None,
    kind_of: Callable[[int, int], str],
    database: str,
) -> DatabaseTable:
    """Return a table as the stream describes it.

    Args:
        relation: The description, which lacks the numbers of columns.
        former: The table as it was until now.
        current: The table as the catalog has it by now, which may be later than the description.
        kind_of: Returns the Iceberg type for a type and its modifier.
        database: What identifies the database.

    Raises:
        SchemaConflictError: The table has changed in a way that Iceberg cannot follow.
    """
    numbers = _numbers(relation, former, current)
    keys = {column.number for table in (current or former,) if table for column in table.columns if column.is_key}
    before, current_columns = (
        {column.number: column for column in table.columns} if table else {} for table in (former, current)
    )
    has_catalog = bool(current or former)
    by_number = {column.number: column for table in (former, current) if table for column in table.columns}
    columns = []
    for number, column in zip(numbers, relation.columns, strict=True):
        kind = _kind(kind_of(column.oid, column.modifier), column.oid, before.get(number), current_columns.get(number))
        declared = by_number[number].declared if number in by_number else kind
        is_key = number in keys if has_catalog else column.in_identity and relation.identity != "f"
        now = Column(column.name, number, kind, declared, column.oid, column.modifier, is_key)
        columns.append(kept_text(now, before.get(number)))
    table = DatabaseTable(database, relation.oid, relation.schema, relation.name, tuple(columns))
    if current is not None:
        table = msgspec.structs.replace(table, mark=current.mark)
    if former is not None:
        check(former, table)
        gone = tuple(column for column in former.columns if column.number not in numbers)
        table = msgspec.structs.replace(table, since=former.since, dropped=former.dropped + gone)
    return table


def _kind(kind: str, oid: int, before: Column | None, current: Column | None) -> str:
    """Return the type of a column; that of an array keeps the depth that the values had at first."""
    if not depth_of(kind)[0]:
        return kind
    if before is not None and (before.kind == "string" or before.oid == oid):
        return before.kind
    like = before or current
    return with_depth(kind, depth_of(like.kind)[0]) if like else kind


def _numbers(relation: Relation, former: DatabaseTable | None, current: DatabaseTable | None) -> list[int]:
    """Return the number of each column: by its name, else by its place and type (the name is an older one)."""
    by_name = {column.name: column.number for table in (former, current) if table for column in table.columns}
    used_numbers = {by_name[column.name] for column in relation.columns if column.name in by_name}
    free = max([_FIRST_FREE, *used_numbers]) + 1
    numbers = []
    for index, column in enumerate(relation.columns):
        number = by_name.get(column.name)
        before = former.columns[index] if former and index < len(former.columns) else None
        if number is None and before and before.oid == column.oid and before.number not in used_numbers:
            number = before.number
            used_numbers.add(number)
        if number is None:
            number, free = free, free + 1
        numbers.append(number)
    return numbers
