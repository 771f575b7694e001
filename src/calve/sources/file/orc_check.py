"""Reads the stripes of an ORC file from stdin, in a process of its own that may crash; prints each number before.

A damaged file can crash Apache ORC's reader. `calve.sources.file.orc` runs this as a script, which needs pyarrow only.
"""

from __future__ import annotations

import contextlib
import sys

import pyarrow as pa
from pyarrow import orc

__all__ = ["check"]

_ERRORS = (pa.ArrowException, OSError)


def check(data: bytes) -> None:
    """Read a file as `read_orc` does: each stripe, and its columns if it cannot be read."""
    with contextlib.suppress(*_ERRORS):
        opened = orc.ORCFile(pa.BufferReader(data))
        for index in range(opened.nstripes):
            print(index, flush=True)
            _read(opened, index)


def _read(opened: orc.ORCFile, index: int) -> None:
    for columns in (None, *([name] for name in opened.schema.names)):
        with contextlib.suppress(*_ERRORS):
            opened.read_stripe(index, columns=columns)


if __name__ == "__main__":
    check(sys.stdin.buffer.read())
