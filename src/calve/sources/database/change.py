"""A change of a row, as a stream has it."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["DELETE", "INSERT", "UPDATE", "Change", "Values"]

INSERT, UPDATE, DELETE = b"I", b"U", b"D"
Values = list[Any]
"""The values of a row, in the order of the table's columns; None for NULL."""


class Change(NamedTuple):
    """One change of a row.

    Attributes:
        kind: `INSERT`, `UPDATE` or `DELETE`.
        oid: The table.
        old: The old row, or only its key; None if the server does not send it.
        new: The new row; None for a delete.
    """

    kind: bytes
    oid: int
    old: Values | None
    new: Values | None
