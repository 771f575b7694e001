"""A record that a sink sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["OutgoingRecord", "size_bytes"]


def size_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the size of a record's parts."""
    parts = [key, value, *(part for name, text in headers for part in (name, text))]
    return sum(len(part) for part in parts if part is not None)


class OutgoingRecord(NamedTuple):
    """A record to send, and the event that it is made of: the row of a part of the batch.

    Attributes:
        target: The topic, file or address that it goes to.
        key: None: it has none.
        value: None: it is a tombstone, which deletes what its key names.
        headers: Names and values.
        part: The part of the batch.
        row: The row of that part.
    """

    target: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    part: int
    row: int

    @property
    def size_bytes(self) -> int:
        """The size of its key, value and headers."""
        return size_bytes(self.key, self.value, self.headers)
