"""A record that a sink sends."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OutgoingRecord"]


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
    headers: list[tuple[str, bytes]]
    part: int
    row: int

    @property
    def size_bytes(self) -> int:
        """The size of its key and value."""
        return len(self.key or b"") + len(self.value or b"")
