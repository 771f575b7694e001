"""Rows of a load as CSV, which the database writes and Arrow reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyarrow import csv

from calve.event.duck import one_array

__all__ = ["csv_columns", "in_batches"]

_BATCH_BYTES = 8 << 20


def in_batches(rows: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield rows in groups of some megabytes."""
    part: list[bytes] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(row)
        if size >= _BATCH_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def csv_columns(rows: Sequence[bytes], count: int) -> list[pa.Array]:
    """Return the columns of rows of CSV; a NULL is empty, and every other value is in quotes."""
    data = b"".join(rows)
    names = [str(number) for number in range(count)]
    table = csv.read_csv(
        pa.py_buffer(data),
        csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return [one_array(column) for column in table.columns]
