"""What a source has, for a person who sets up a pipeline: tables with columns and first rows, or records of a topic."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MOST_ROWS", "DatabasePreview", "TablePreview"]

MOST_ROWS = 3
"""The rows of a table that are read."""


@dataclass(frozen=True)
class TablePreview:
    """A table of a database.

    Attributes:
        name: `schema.table`.
        columns: Name, type as the database calls it, and whether it is in the key.
        rows: The first rows, as texts; none if the user may not read them.
        times: The columns with a time, which partitions may be made of.
    """

    name: str
    columns: tuple[tuple[str, str, bool], ...]
    rows: tuple[tuple[str | None, ...], ...] = ()
    times: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of its key."""
        return tuple(name for name, _, is_key in self.columns if is_key)


@dataclass(frozen=True)
class DatabasePreview:
    """The tables of a database that patterns select.

    Attributes:
        tables: Those that are described.
        others: How many more are selected.
    """

    tables: tuple[TablePreview, ...]
    others: int = 0
