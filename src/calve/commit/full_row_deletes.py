"""Deletes rows of tables without a key within an attempt: for each staged row one of the rows that are equal to it.

The rows of a table without a key are a multiset, so it does not matter which of equal rows goes, nor in which batch of
a commit it came. First those are deleted that the commit itself adds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.catalog.attempt import Attempt
from calve.catalog.catalog import Catalog
from calve.catalog.data_files import StoredFile, chosen_rows
from calve.catalog.trust import refuse_java_class
from calve.commit.branch_files import BranchPlan
from calve.commit.full_row_search import FullRowSearch, unreadable
from calve.commit.key_search import SearchedFile, UnsearchableError, reading
from calve.commit.mark import CommitTarget
from calve.commit.positions import distinct_rows, planned_files, searched_file, write_deletes
from calve.engine.java.compiled import java_class
from calve.engine.java.errors import called
from calve.record.content_file import ContentFile
from calve.reduce.full_rows import DeletedRows, full_row_ids
from calve.table.loaded import Table

__all__ = ["NOT_FOUND", "delete_full_rows"]

NOT_FOUND = "calve.rows-not-found"
"""A property of snapshots: how many rows should have been deleted, and were not there."""
_Batches = Mapping[int, Sequence[ContentFile]]


def delete_full_rows(
    catalog: Catalog, begun: Attempt, target: CommitTarget, batches: _Batches, summary: Mapping[str, str]
) -> None:
    """Add batches to an attempt as one snapshot: their data files, and deletes by position of whole rows.

    Args:
        catalog: The catalog of the table.
        begun: The attempt; it has inspected the table.
        target: The table and its branch.
        batches: Staged files; those that are no data files have whole rows.
        summary: Added to the snapshot's summary.

    Raises:
        UnsupportedError: The table names a class that would choose the places of its files.
        CommitError: Only Spark can read a file of the table, or it is damaged.
        SinkUnavailableError: A file cannot be read at the moment.
    """
    table = begun.load()
    refuse_java_class(table.identifier, table.properties)
    java = java_class(catalog.spark.jvm, "calve.commit.positions", "Positions").newInstance()
    java.begin(begun.transaction, target.branch, catalog.spark.jvm.java.util.ArrayList())
    staged = list({file.file_path: file for files in batches.values() for file in files}.values())
    data, hits = [file for file in staged if file.is_data], _Hits(java)
    ids = [tuple(file.equality_ids) for file in staged if not file.is_data]
    for columns in dict.fromkeys(ids):
        files = [file for file in staged if not file.is_data and tuple(file.equality_ids) == columns]
        search = FullRowSearch(table, full_row_ids(files[0].equality_ids), [_read(table, file) for file in files])
        earlier, later = _around(batches, columns)
        hits.add(search, earlier)
        if search.left.any():
            hits.add(search, _in_table(BranchPlan(java, begun, target.branch), search, hits))
        hits.add(search, later)
        hits.missing += int(search.left.sum())
    positions = distinct_rows(hits.rows)
    more = {**summary, NOT_FOUND: str(hits.missing)} if hits.missing else summary
    if positions and write_deletes(java, data, positions):
        begun.delete(target.branch, data, java.added(), java.removed(), more)
    else:
        begun.append(target.branch, data, more)


def _around(batches: _Batches, columns: tuple[int, ...]) -> tuple[list[SearchedFile], list[SearchedFile]]:
    """Return the data files up to the last batch with deletes by these columns, and those of later batches.

    Later batches may have columns that the deletes do not know, so their rows come last: an older one is meant.
    """
    last = max(batch for batch, files in batches.items() for file in files if tuple(file.equality_ids) == columns)
    by_path: dict[str, SearchedFile] = {}
    for batch, file in [(number, file) for number in sorted(batches) for file in batches[number] if file.is_data]:
        by_path.setdefault(file.file_path, searched_file(file, batch))
    earlier, later = ([file for file in by_path.values() if (file.batch > last) is late] for late in (False, True))
    return earlier, later


class _Hits:
    """The rows that searches have found, each once.

    Args:
        java: A `Positions`.

    Attributes:
        rows: Paths of files, and numbers of rows.
        deleted: The files of the table that have deletes by position.
        missing: How many rows were not there.
    """

    def __init__(self, java: Any) -> None:
        self._java = java
        self._hidden: dict[str, list[RowNumbers]] = {}
        self.rows: list[tuple[str, RowNumbers]] = []
        self.deleted: set[str] = set()
        self.missing = 0

    def add(self, search: FullRowSearch, files: Sequence[SearchedFile]) -> None:
        """Add the rows that a search finds in files."""
        for path, rows in search.find(search.matching(files), self._hidden_rows):
            self.rows.append((path, rows))
            self._hidden[path].append(rows)

    def _hidden_rows(self, path: str) -> RowNumbers:
        """Return the rows of a file that are deleted, or will be."""
        if path not in self._hidden:
            positions = called(self._java, "deleted", path) if path in self.deleted else b""
            self._hidden[path] = [np.frombuffer(positions, "<i8")]
        return np.concatenate(self._hidden[path])


def _in_table(plan: BranchPlan, search: FullRowSearch, hits: _Hits) -> list[SearchedFile]:
    """Return the files of the table that may have one of the rows."""
    try:
        files = search.matching(planned_files(plan, search.ids))
    except UnsearchableError as error:
        raise unreadable(search.table, str(error)) from error
    described = json.loads(called(plan.java, "olderFiles", json.dumps([file.path for file in files])))
    if described is None:
        raise unreadable(search.table, "another writer has deleted some by equality deletes")
    hits.deleted |= {path for path, _, has_deletes in described if has_deletes}
    return files


def _read(table: Table, file: ContentFile) -> pa.Table:
    """Read staged rows, with the columns that the table has by now."""
    deletes = DeletedRows(table).table
    with reading(file.file_path):
        try:
            rows = np.ones(file.record_count, bool)
            return pa.concat_tables(list(chosen_rows(StoredFile(file.file_path), deletes, rows)))
        except pa.ArrowException as error:
            raise unreadable(table, str(error)) from error
