"""Writes bytes to the standard output, which may be unbuffered, or a pipe that does not wait for its reader."""

from __future__ import annotations

import select
import sys

__all__ = ["flush_output", "write_output"]


def write_output(data: bytes) -> None:
    """Write all bytes: an unbuffered output (`PYTHONUNBUFFERED`) may take a part of them, e.g. when a signal comes.

    Raises:
        OSError: Nobody reads it any more, or its disk is full.
    """
    rest = memoryview(data)
    while rest:
        try:
            taken_bytes = sys.stdout.buffer.write(rest)
        except BlockingIOError as full:  # a buffered output
            taken_bytes = full.characters_written
        if not taken_bytes:
            _wait_for_reader()
        rest = rest[taken_bytes or 0 :]


def flush_output() -> None:
    """Hand all that was written to the reader.

    Raises:
        OSError: Nobody reads it any more, or its disk is full.
    """
    while True:
        try:
            sys.stdout.buffer.flush()
        except BlockingIOError:
            _wait_for_reader()
        else:
            return


def _wait_for_reader() -> None:
    select.select([], [sys.stdout.buffer], [])
