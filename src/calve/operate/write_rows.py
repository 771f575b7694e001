"""Writes rows that a program has into a table, exactly once by the id of the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from calve.errors import SettingsError
from calve.operate.quick import pipeline_name
from calve.state.durable import replace, sync

__all__ = ["WrittenBatches", "as_table"]


def as_table(rows: Any) -> pa.Table:
    """Return rows as an Arrow table: a list of mappings, or what offers Arrow's stream (Arrow, pandas, polars, DuckDB).

    Raises:
        SettingsError: They are something else.
    """
    try:
        if isinstance(rows, Sequence) and all(isinstance(row, Mapping) for row in rows):
            return pa.Table.from_pylist([dict(row) for row in rows])
        return pa.table(rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        hint = "Give a list of mappings, or a table of Arrow, pandas, polars or DuckDB"
        raise SettingsError(f"These rows are no table: {error}", step="write", target="rows", hint=hint) from error


class WrittenBatches:
    """The batches of a table that programs have written: a file each until it is committed, then an empty mark.

    Args:
        state: The state folder, on a local disk.
        table: Namespace and table.
    """

    def __init__(self, state: Path, table: str) -> None:
        self.folder = state.absolute() / "_written" / pipeline_name("write", table)

    def has(self, batch_id: str) -> bool:
        """Return whether a batch is committed."""
        return self._mark(batch_id).exists()

    def add(self, batch_id: str, rows: pa.Table) -> None:
        """Write a batch to the disk; one that is there stays as it is."""
        file = self._file(batch_id)
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            sink = pa.BufferOutputStream()
            pq.write_table(rows, sink)
            replace(file, sink.getvalue().to_pybytes())

    def committed(self, batch_id: str) -> None:
        """Mark a batch as committed, and remove its file; may be repeated."""
        replace(self._mark(batch_id), b"")
        self._file(batch_id).unlink(missing_ok=True)
        sync(self.folder)

    def _file(self, batch_id: str) -> Path:
        return self.folder / f"{_name(batch_id)}.parquet"

    def _mark(self, batch_id: str) -> Path:
        return self.folder / f"{_name(batch_id)}.committed"


def _name(batch_id: str) -> str:
    """Return a file name for any text; the prefix keeps it from being hidden."""
    return "b-" + quote(batch_id, safe="")
