"""Lets the new row of a key keep the id of its older row, within an attempt (format version 3; decision 60).

A key that has a row before a commit and after it keeps that row's id, whatever happens to it in between. The ids are
known only when the older rows are found. So staged files with such rows are written again, with a column of ids
(specification, "Row Lineage"), and without the rows that a later batch deletes.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from calve.arrays import Mask, RowNumbers
from calve.catalog.data_files import ROW_ID, StoredFile, chosen_rows, with_lineage
from calve.commit.key_search import KeySearch, UnsearchableError, reading
from calve.commit.older_rows import READERS, older_files, read_rows
from calve.errors import UnsupportedError
from calve.event import duckdb_session
from calve.record.content_file import ContentFile
from calve.record.target import RowStream
from calve.structs import decode
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.table.schema import path_of
from calve.write.parquet import storage_error
from calve.write.writer import Writers

__all__ = ["NEW_ROW_IDS", "OlderIds", "RowsWithIds", "older_ids", "rows_with_ids"]

NEW_ROW_IDS = "calve.new-row-ids"
"""A property of snapshots: why changed rows have new ids, although they should have kept theirs."""
_MOST_OPEN = 256
_STREAM = RowStream(0, "")
_NO_ROWS = np.zeros(0, np.int64)
_Batches = Mapping[int, Sequence[ContentFile]]


class RowsWithIds(NamedTuple):
    """What became of staged files.

    Attributes:
        files: Data files with rows that have ids; they belong to the attempt.
        replaced: The paths of the staged files whose rows these have.
        summary: Added to the snapshot's: why rows do not keep their ids.
    """

    files: Sequence[ContentFile] = ()
    replaced: Set[str] = frozenset()
    summary: Mapping[str, str] = {}

    def others(
        self, batches: _Batches, positions: Mapping[str, RowNumbers]
    ) -> tuple[list[ContentFile], dict[str, RowNumbers]]:
        """Return the staged data files that stay, and the rows to delete of all files but the replaced ones."""
        stays = [file for path, file in _data(batches).items() if path not in self.replaced]
        return stays, {path: rows for path, rows in positions.items() if path not in self.replaced}


class OlderIds:
    """The ids of rows that a commit deletes, by their keys.

    Args:
        search: The keys.
        rows: The rows: the columns of their keys, and `ROW_ID`.
    """

    def __init__(self, search: KeySearch, rows: pa.Table) -> None:
        self.search = search
        keys = search.columns(rows)
        self._names = ", ".join(keys.column_names)
        sql = f"SELECT {self._names}, min(id) AS id FROM rows WHERE id IS NOT NULL GROUP BY ALL"
        keys = duckdb_session.run(sql, rows=keys.append_column("id", rows.column(ROW_ID)))
        self._ids = keys.column("id").to_numpy()
        self._keys = keys.drop_columns(["id"]).append_column("number", pa.array(np.arange(len(self._ids))))
        self._is_free = np.ones(len(self._ids), bool)

    @property
    def has_some(self) -> bool:
        """Whether there is an id to keep."""
        return bool(self._is_free.any())

    def filled(self, rows: pa.Table) -> pa.Table:
        """Return rows with ids where `ROW_ID` has none; nobody else gets those that they have."""
        at, row_ids = rows.schema.get_field_index(ROW_ID), duckdb_session.one_array(rows.column(ROW_ID))
        self._is_free &= ~np.isin(self._ids, row_ids.drop_null().to_numpy())
        lacking = np.flatnonzero(row_ids.is_null().to_numpy(zero_copy_only=False))
        ids = row_ids.fill_null(-1).to_numpy().copy()
        ids[lacking] = self.give(rows.take(pa.array(lacking))).fill_null(-1).to_numpy()
        return rows.set_column(at, rows.schema.field(at), pa.array(ids, pa.int64(), mask=ids < 0))

    def give(self, rows: pa.Table) -> pa.Array:
        """Return the ids for rows with the keys of older ones, each id once; null for all other rows."""
        ids = np.full(len(rows), -1)
        keys = self.search.columns(rows).append_column("row", pa.array(np.arange(len(rows))))
        sql = f"SELECT row, number FROM rows JOIN keys USING ({self._names}) ORDER BY row"
        hits = duckdb_session.run(sql, rows=keys, keys=self._keys)
        numbers, first = np.unique(hits.column("number").to_numpy(), return_index=True)
        places, is_free = hits.column("row").to_numpy()[first], self._is_free[numbers]
        ids[places[is_free]] = self._ids[numbers[is_free]]
        self._is_free[numbers] = False
        return pa.array(ids, pa.int64(), mask=ids < 0)


def older_ids(
    java: Any, table: Table, searches: Sequence[KeySearch], positions: Mapping[str, RowNumbers]
) -> OlderIds | str:
    """Read the ids of the rows of a table that a commit deletes; return why that is impossible if it is.

    Args:
        java: A `Positions`, which has planned the files.
        table: The table.
        searches: Of the keys.
        positions: The rows of each file; some may be deleted already.

    Raises:
        CommitError: A file is damaged.
        SinkUnavailableError: A file cannot be read at the moment.
    """
    if len(searches) != 1:
        return "the columns of the key have changed"
    try:
        keys = _with_key(with_lineage(table), searches[0])
        with ThreadPoolExecutor(READERS, "calve-ids") as pool:
            older = [file for file in older_files(java, positions) if len(file.rows)]
            parts = list(pool.map(lambda file: read_rows(keys, file.file, file.rows), older))
    except (UnsearchableError, UnsupportedError) as error:
        return str(error)
    empty = arrow_schema(keys.schema).empty_table()
    return OlderIds(searches[0], pa.concat_tables([empty, *parts]))


def rows_with_ids(
    table: Table, ids: OlderIds | str, batches: _Batches, positions: Mapping[str, RowNumbers]
) -> RowsWithIds:
    """Write again the staged files with rows that continue older ones.

    Args:
        table: The table.
        ids: Those of the older rows, or why they are not known.
        batches: Staged files, in the order of the batches.
        positions: Rows of the files that later batches delete; these are left out.

    Raises:
        CalveError: A file cannot be read at the moment, or the storage refuses.
    """
    if isinstance(ids, str):
        return RowsWithIds(summary={NEW_ROW_IDS: ids})
    table = with_lineage(table)
    writers, replaced = Writers(f"kept-{uuid.uuid4().hex}", _MOST_OPEN), set[str]()
    try:
        for path, file in _data(batches).items():
            stays = np.ones(file.record_count, bool)
            stays[positions.get(path, _NO_ROWS)] = False
            if ids.has_some and _write(writers, table, ids, path, stays):
                replaced.add(path)
        closed = writers.close().values()
    except UnsearchableError as error:
        writers.discard()
        return RowsWithIds(summary={NEW_ROW_IDS: str(error)})
    except BaseException as error:
        writers.discard()
        if isinstance(error, OSError):
            raise storage_error(table.location, error) from error
        raise
    return RowsWithIds([decode(file, ContentFile) for written in closed for file in written.files], replaced)


def _data(batches: _Batches) -> dict[str, ContentFile]:
    return {file.file_path: file for files in batches.values() for file in files if file.is_data}


def _write(writers: Writers, table: Table, ids: OlderIds, path: str, stays: Mask) -> bool:
    """Write the rows of a staged file with their ids; False: it has no row that continues an older one."""
    given = ids.give(read_rows(_with_key(table, ids.search), StoredFile(path), np.flatnonzero(stays)))
    if given.null_count == len(given):
        return False
    start = 0
    with reading(path):
        try:
            for rows in chosen_rows(StoredFile(path), table, stays):
                at = rows.schema.get_field_index(ROW_ID)
                rows = rows.set_column(at, rows.schema.field(at), given.slice(start, len(rows)))
                start += len(rows)
                writers.write(_STREAM, table, table.properties, rows)
        except pa.ArrowException as error:
            raise UnsearchableError(str(error)) from error
    return True


def _with_key(table: Table, search: KeySearch) -> Table:
    """Return the table with `ROW_ID` and the columns of the key alone, those around nested ones whole."""
    names = {ROW_ID, *(path_of(table.schema, number)[0] for number in search.ids)}
    schema = Schema(*(field for field in table.schema.fields if field.name in names))
    return replace(table, schema_json=schema.model_dump_json())
