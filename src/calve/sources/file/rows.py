"""Builds the Arrow batches of the file source: the events, their positions, and the rejected texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from calve.event.columns import EVENT, MALFORMED, TYPED
from calve.event.columns import SCHEMA as DECLARED
from calve.event.typed import joinable, with_text
from calve.sources.source import READ_BYTES, READ_ROWS

__all__ = ["REMAINS_BYTES", "SCHEMA", "FileBatches", "repetition", "row_numbers"]

SCHEMA = pa.schema(
    [
        (EVENT, pa.binary()),
        (MALFORMED, pa.string()),
        ("file_path", pa.string()),
        ("file_row", pa.int64()),
        (DECLARED, pa.dictionary(pa.int32(), pa.string())),
    ]
)
REMAINS_BYTES = 64 << 10
"""The most bytes of a rejected text that are kept beside the reason."""


@dataclass(frozen=True)
class FileBatches:
    """Makes the batches of one file.

    Attributes:
        path: The file, as in the metadata attribute `file_path`.
    """

    path: str

    def batches(
        self,
        events: pa.Array,
        numbers: pa.Array | None,
        malformed: pa.Array | None = None,
        declaration: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield binary events in batches of at most `READ_ROWS`.

        Args:
            events: Their texts.
            numbers: Their lines or rows from 1, if known.
            malformed: The reasons why some of them are rejected.
            declaration: The declaration of their fields (`event.typed_schema.declaration`), if the file is typed.
        """
        count = len(events)
        numbers = pa.nulls(count, pa.int64()) if numbers is None else numbers
        malformed = pa.nulls(count, pa.string()) if malformed is None else malformed
        paths = pa.repeat(pa.scalar(self.path, pa.string()), min(count, READ_ROWS))
        declared = _declared(declaration, len(paths))
        for start in range(0, count, READ_ROWS):
            part = [column.slice(start, READ_ROWS) for column in (events, malformed, numbers)]
            others = [column.slice(0, len(part[0])) for column in (paths, declared)]
            yield pa.record_batch([part[0], part[1], others[0], part[2], others[1]], schema=SCHEMA)

    def typed(self, rows: pa.RecordBatch, numbers: pa.Array, declaration: str) -> Iterator[pa.RecordBatch]:
        """Yield rows of typed columns, about `READ_BYTES` at a time, each row as one struct.

        Args:
            rows: The columns.
            numbers: The numbers of the rows.
            declaration: The declaration of the columns (`event.typed_schema.declaration`).
        """
        half = len(rows) // 2
        if rows.nbytes > READ_BYTES and half:
            for start, end in ((0, half), (half, len(rows))):
                part = slice(start, end)
                yield from self.typed(rows[part], numbers[part], declaration)
            return
        columns = {
            TYPED: rows.to_struct_array(),
            "file_path": pa.repeat(pa.scalar(self.path, pa.string()), len(rows)),
            "file_row": numbers,
            DECLARED: _declared(declaration, len(rows)),
        }
        table = pa.table(columns)
        yield from (table if joinable(columns[TYPED].type) else with_text(table)).to_batches()

    def rejects(self, rejected: Sequence[tuple[bytes, str, int | None]]) -> Iterator[pa.RecordBatch]:
        """Yield rows for texts that are not events, each with its reason and its row number, if known."""
        texts, reasons, numbers = [list(column) for column in zip(*rejected, strict=True)] if rejected else ([], [], [])
        events = pa.array([text[:REMAINS_BYTES] for text in texts], pa.binary())
        yield from self.batches(events, pa.array(numbers, pa.int64()), pa.array(reasons, pa.string()))

    def broken(self, reason: str, remains: bytes | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the one row with the reason why the file ends early, and the rest of the truncated text."""
        event = pa.array([remains[:REMAINS_BYTES] if remains else None], pa.binary())
        yield from self.batches(event, None, pa.array([f"The file {self.path} {reason}"], pa.string()))


def _declared(declaration: str | None, count: int) -> pa.DictionaryArray:
    """Return the column `_schema` of rows with the same declaration, or none."""
    codes = pa.repeat(pa.scalar(None if declaration is None else 0, pa.int32()), count)
    return pa.DictionaryArray.from_arrays(codes, pa.array([declaration] if declaration else [], pa.string()))


def repetition(names: list[str]) -> str | None:
    """Return which name two columns of a file share, as the rest of a sentence about the file; None: all differ."""
    for at, name in enumerate(names):
        if (first := names.index(name)) < at:
            return f"has two columns of the name {name!r}, the columns {first + 1} and {at + 1}"
    return None


def row_numbers(first: int, count: int) -> pa.Array:
    """Return consecutive row numbers."""
    return pa.array(np.arange(first, first + count, dtype=np.int64))
