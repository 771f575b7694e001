"""A change of a row, as a stream has it."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["DELETE", "INSERT", "UPDATE", "Change", "Row", "Values"]

INSERT, UPDATE, DELETE = b"I", b"U", b"D"
Values = list[Any]
"""The values of a row, in the order of the table's columns; None for NULL."""
Row = Values | bytes
"""A row, or one that nobody has read yet: as the database packs it."""


class Change(NamedTuple):
    """One change of a row.

    Attributes:
        kind: `INSERT`, `UPDATE` or `DELETE`.
        oid: The table.
        old: The old row, or only its key; None if the server does not send it. Packed, it is a key alone.
        new: The new row; None for a delete. Packed, it has the same key as the old one.
    """

    kind: bytes
    oid: int
    old: Row | None
    new: Row | None
