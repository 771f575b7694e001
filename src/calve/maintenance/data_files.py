"""Opens data files to copy their rows; runs on executors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.io import load_file_io

from calve.state.durable import local_path
from calve.table.loaded import Table

__all__ = ["id_of", "opened"]


def opened(path: str, table: Table) -> Any:
    """Return a file of a table as Arrow reads it; a context manager.

    Raises:
        OSError: It cannot be read.
    """
    local = local_path(path)
    return (
        load_file_io(table.io_properties, path).new_input(path).open() if local is None else pa.memory_map(str(local))
    )


def id_of(field: pa.Field) -> bytes:
    """Return the field id of a column of a file."""
    field_id: bytes = (field.metadata or {}).get(b"PARQUET:field_id", b"")
    return field_id
