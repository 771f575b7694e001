"""The older rows of keys, as the data files of a table have them by now: which files, and reading them by position."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.catalog.data_files import StoredFile, chosen_rows
from calve.commit.key_search import UnsearchableError, reading
from calve.engine.java.errors import called
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table

__all__ = ["READERS", "OlderFile", "older_files", "read_rows"]

READERS = 8
"""Files that are read at once."""


class OlderFile(NamedTuple):
    """A data file with older rows: which ones, and its batch; 0: the table has it."""

    file: StoredFile
    batch: int
    rows: RowNumbers


def older_files(java: Any, positions: Mapping[str, RowNumbers]) -> list[OlderFile]:
    """Return the files of the table with older rows, those that are live.

    Args:
        java: A `Positions`, which has planned the files.
        positions: The older rows of each file; some may be deleted already.

    Raises:
        UnsearchableError: Equality deletes apply to one.
    """
    described = json.loads(called(java, "olderFiles", json.dumps(list(positions))))
    if described is None:
        raise UnsearchableError("equality deletes apply to older rows")
    called(java, "readVectors", json.dumps([path for path, *_ in described]))
    older = []
    for path, first_row_id, has_deletes in described:
        bits = np.frombuffer(called(java, "hidden", path) if has_deletes else b"", np.uint8)
        is_hidden = np.unpackbits(bits, bitorder="little")[: int(positions[path].max(initial=-1)) + 1]
        rows = np.setdiff1d(positions[path], np.flatnonzero(is_hidden))
        older.append(OlderFile(StoredFile(path, 0, first_row_id), 0, rows))
    return older


def read_rows(table: Table, file: StoredFile, numbers: RowNumbers) -> pa.Table:
    """Read rows of a file, with the table's columns.

    Raises:
        UnsearchableError: Only Spark can read them as the table has them now.
        SinkUnavailableError: The file cannot be read at the moment.
    """
    chosen = np.zeros(int(numbers.max(initial=-1)) + 1, bool)
    chosen[numbers] = True
    with reading(file.path):
        try:
            parts = list(chosen_rows(file, table, chosen))
        except pa.ArrowException as error:
            raise UnsearchableError(str(error)) from error
    return pa.concat_tables(parts) if parts else pa.Table.from_batches([], arrow_schema(table.schema))
