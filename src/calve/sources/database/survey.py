"""Columns with values that have no place in their type (infinite and zero dates, NaN): in a new target they are texts.

Tables are surveyed before they are loaded. What comes later, or was not surveyed, becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from calve.observe.log import Log
from calve.sources.database.table import Column, DatabaseTable

__all__ = ["as_texts", "kept_text", "kept_texts", "surveyed"]

_TABLE_BYTES, _ALL_BYTES = 256 << 20, 4 << 30
"""A survey reads a table once, at about the speed of its disk; so much of all tables is read."""


def surveyed(tables: Sequence[DatabaseTable], sizes: Mapping[str, int]) -> Iterator[DatabaseTable]:
    """Yield the tables that are small enough, the smallest ones first; `sizes` are in bytes, by full name."""
    room_bytes = _ALL_BYTES
    for table in sorted(tables, key=lambda table: sizes.get(table.full_name, 0)):
        size = sizes.get(table.full_name, 0)
        room_bytes -= size
        if size <= _TABLE_BYTES and room_bytes >= 0:
            yield table


def as_texts(tables: Iterable[DatabaseTable], odd: Mapping[str, Collection[str]], lines: Log) -> list[DatabaseTable]:
    """Return tables in which columns are texts.

    Args:
        tables: The tables.
        odd: The names of the columns, by the full name of their table.
        lines: The pipeline's log.
    """
    adapted = []
    for table in tables:
        names = odd.get(table.full_name, ())
        columns = tuple(_text(column) if column.name in names else column for column in table.columns)
        adapted.append(structs.replace(table, columns=columns))
        if names:
            lines.warning(
                f"{table.full_name}: {', '.join(sorted(names))} is written as text: it has values that its type lacks",
                table=table.full_name,
            )
    return adapted


def kept_text(column: Column, old: Column | None) -> Column:
    """Return a column as it is now described, as a text if it was one before."""
    return _text(column) if old is not None and old.text_of else column


def kept_texts(table: DatabaseTable, old: DatabaseTable) -> DatabaseTable:
    """Return a table that is loaded again, whose target has texts in some columns."""
    before = {column.name: column for column in old.columns}
    return structs.replace(
        table, columns=tuple(kept_text(declared, before.get(declared.name)) for declared in table.columns)
    )


def _text(column: Column) -> Column:
    return structs.replace(column, kind="string", text_of=column.text_of or column.kind)
