"""Writes bytes to the standard output."""

from __future__ import annotations

import sys

__all__ = ["write_output"]


def write_output(data: bytes) -> None:
    """Write all bytes: an unbuffered output (`PYTHONUNBUFFERED`) may take a part of them, e.g. when a signal comes.

    Raises:
        OSError: Nobody reads it any more, or its disk is full.
    """
    rest = memoryview(data)
    while rest:
        rest = rest[sys.stdout.buffer.write(rest) or 0 :]
