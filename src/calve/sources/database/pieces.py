"""Groups of what a load reads, large enough to be converted in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import pyarrow as pa

__all__ = ["FIRST_BYTES", "MOST_BYTES", "ChunkRows", "grouped"]

T = TypeVar("T")

FIRST_BYTES, MOST_BYTES = 1 << 18, 8 << 20
"""The first group is small, so that it is soon converted, while the next one is read."""


class ChunkRows(NamedTuple):
    """Rows of a chunk.

    Attributes:
        values: Their columns.
        may_be_there: Whether they may be in the target already.
        at: The position of which they are, if only reading tells it.
    """

    values: list[pa.Array]
    may_be_there: bool = False
    at: int | None = None


def grouped(pieces: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield pieces in groups, each twice as large as the one before, up to some megabytes.

    Args:
        pieces: Rows, each or several as one piece.
        size: Returns the bytes of a piece.
    """
    group: list[T] = []
    gathered, enough = 0, FIRST_BYTES
    for piece in pieces:
        group.append(piece)
        gathered += size(piece)
        if gathered >= enough:
            yield group
            group, gathered, enough = [], 0, min(2 * enough, MOST_BYTES)
    if group:
        yield group
