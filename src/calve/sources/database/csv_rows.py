"""Rows of a load as CSV, which the database writes and Arrow reads."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import csv

from calve.event.duck import one_array

__all__ = ["csv_columns"]


def csv_columns(rows: Sequence[bytes], count: int) -> list[pa.Array]:
    """Return the columns of rows of CSV; a NULL is empty, and an empty text, or any other of a first column, quoted."""
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
