"""Reads sample events from a file or stdin: NDJSON, split into lines like in the file source."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from calve.errors import SourceError
from calve.sources.file.lines import read_lines
from calve.sources.file.rows import SCHEMA, Rows
from calve.sources.file.stream import Plain, Unpacked, compression_of

__all__ = ["SAMPLE_BYTES", "read_sample", "sample_lines"]

SAMPLE_BYTES = 64 << 20
"""A sample is looked at in one piece: more is refused."""


def read_sample(name: str) -> pa.Table:
    """Return the lines of a file, or of stdin for `-`, as the file source would: `rows.SCHEMA`.

    Raises:
        SourceError: The file does not exist, cannot be read, or is too large.
    """
    shown = "stdin" if name == "-" else name
    return sample_lines(_bytes(name, shown), shown)


def sample_lines(data: bytes, shown: str) -> pa.Table:
    """Return the lines of NDJSON, plain or compressed, as the file source would; `shown` is its name in errors.

    Raises:
        SourceError: It is too large for a sample, or damaged.
    """
    if len(data) > SAMPLE_BYTES:
        raise _error(f"{shown} has more than {SAMPLE_BYTES >> 20} MiB", shown, "Use a part of it, e.g. with `head`")
    return pa.Table.from_batches(_batches(data, shown), schema=SCHEMA)


def _bytes(name: str, shown: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(SAMPLE_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(SAMPLE_BYTES + 1)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise _error(f"The sample events {shown} cannot be read: {why}", shown, "Use an NDJSON file") from error


def _batches(data: bytes, shown: str) -> Iterator[pa.RecordBatch]:
    file = pa.BufferReader(data)
    compression = compression_of(shown, "automatic", lambda: data[:4])
    stream = Plain(file, len(data)) if compression == "none" else Unpacked(file, compression)
    yield from read_lines(stream, Rows(shown), numbered=True)


def _error(message: str, target: str, hint: str) -> SourceError:
    return SourceError(message, step="read", target=target, hint=hint)
