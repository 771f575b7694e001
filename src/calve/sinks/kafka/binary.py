"""What the formats of values share: how a value is written, and numbers of variable length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Write", "varint"]

Write = Callable[[Any, bytearray], None]
"""Appends the binary of a JSON value (`exact_json`); raises `MismatchError`."""


def varint(number: int, out: bytearray) -> None:
    """Append a number of at most 64 bits, seven bits a byte, the lowest first."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
