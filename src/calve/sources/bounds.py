"""How much of a source one batch reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["first_up_to"]

T = TypeVar("T")


def first_up_to(max_bytes: int, parts: Iterable[T], size_of: Callable[[T], int]) -> list[T]:
    """Return the first parts of a source that have at most so many bytes together; at least one, if there is any."""
    chosen: list[T] = []
    for part in parts:
        max_bytes -= size_of(part)
        if chosen and max_bytes < 0:
            break
        chosen.append(part)
    return chosen
