"""Replaces equality deletes by deletes by position: no data file is rewritten (decision 61).

The parts are those of `merge-on-read` (decision 60): find the rows by a scan of their key columns, write deletion
vectors (format version 3) or position deletes (version 2). One snapshot adds them and removes all equality deletes by
name. The attempt is a compare-and-swap on the inspected table, so a commit that comes meanwhile is never part of it.

An equality delete applies to data files with a lower sequence number, in its own partition or, if its spec has no
partitions, in all of them (specification, "Scan Planning").
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from calve.arrays import RowNumbers
from calve.catalog.attempt import Attempt
from calve.catalog.data_files import opened
from calve.catalog.retry import retried
from calve.catalog.trust import refuse_java_class
from calve.commit.key_search import KeySearch, SearchedFile, UnsearchableError, fields_by_id, reading
from calve.commit.positions import bounds_of, distinct_rows, write_deletes
from calve.commit.swap import swap
from calve.engine.java.compiled import java_class
from calve.engine.java.errors import called, java_errors
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.rewrite import maintaining
from calve.table.loaded import Table

__all__ = ["keys_to_positions"]

_STEP = "convert equality deletes"
_MOST_KEYS = 5_000_000
"""The keys of one search are in memory: about half a gigabyte. Of more, Iceberg's action rewrites the data files."""


class _Delete(NamedTuple):
    """An equality delete file: its path, its keys and their columns, and where it applies; None: everywhere."""

    path: str
    keys: int
    ids: tuple[int, ...]
    sequence_number: int
    partition: int | None


class _Plan(NamedTuple):
    """The equality deletes of a branch, and the data files to which some apply, with the partition of each."""

    deletes: Sequence[_Delete]
    files: Sequence[tuple[SearchedFile, int]]


def keys_to_positions(context: MaintenanceContext) -> int | None:
    """Replace all equality deletes of a branch by deletes by position; may be repeated safely.

    Args:
        context: The table and its branch.

    Returns:
        How many rows were not deleted by position before. None: nothing was changed, because only Iceberg can compare
        the keys or read a file, or there are too many keys.

    Raises:
        MaintenanceError: Other writers were faster every time, or a file lies where the table may not choose.
        SinkUnavailableError: A file cannot be read at the moment.
        NoTargetError: There is no such table.
    """
    with maintaining(_STEP, context):
        return retried(lambda: _attempt(context))


def _attempt(context: MaintenanceContext) -> int | None:
    begun, branch = context.begin(), context.target.branch
    with java_errors(_STEP, context.name):
        begun.inspect(branch)
        table = begun.load()
        refuse_java_class(table.identifier, table.properties)
        if (snapshot := begun.table.snapshot(branch)) is not None:
            context.refuse_files(begun.table, [snapshot], deletes=False)
        java = java_class(context.jvm, "calve.commit.positions", "Positions").newInstance()
        try:
            plan = _planned(java, begun, branch)
            positions = distinct_rows(_hits(table, plan))
        except UnsearchableError:
            return None
        if not plan.deletes:
            return 0
        rows = write_deletes(java, [], positions) if positions else 0
        begun.replace(branch, java.added(), java.removed())
        swap(begun, branch)
        return rows


def _planned(java: Any, begun: Attempt, branch: str) -> _Plan:
    planned = json.loads(called(java, "planEqualityDeletes", begun.transaction, branch))
    if planned is None:
        raise UnsearchableError("a file is encrypted, or not Parquet")
    deletes = [_Delete(path, keys, tuple(ids), *where) for path, keys, ids, *where in planned[0]]
    if sum(delete.keys for delete in deletes) > _MOST_KEYS:
        raise UnsearchableError("there are too many keys")
    ids = planned[1]
    files = [
        (SearchedFile(path, rows, bounds_of(ids, lower), bounds_of(ids, upper), number), partition)
        for path, rows, lower, upper, number, partition in planned[2]
    ]
    return _Plan(deletes, files)


def _hits(table: Table, plan: _Plan) -> Iterator[tuple[str, RowNumbers]]:
    """Yield the rows of data files to which the deletes apply, by the columns of a key and by partition."""
    groups: dict[tuple[tuple[int, ...], int | None], list[_Delete]] = {}
    for delete in plan.deletes:
        groups.setdefault((delete.ids, delete.partition), []).append(delete)
    for (ids, partition), deletes in groups.items():
        files = [file for file, its in plan.files if partition in (None, its)]
        if files:
            keys = [(delete.sequence_number, _keys(table, delete)) for delete in deletes]
            yield from KeySearch(table, ids, keys).find(files)


def _keys(table: Table, delete: _Delete) -> pa.Table:
    """Read the keys of a delete file.

    Raises:
        UnsearchableError: It has no field ids.
        SinkUnavailableError: It cannot be read at the moment.
    """
    with reading(delete.path), opened(delete.path, table) as source, parquet.ParquetFile(source) as file:
        names = {number: ".".join(parts) for number, parts in fields_by_id(file.schema_arrow).items()}
        if not names.keys() >= set(delete.ids):
            raise UnsearchableError(f"{delete.path} lacks a column of the key")
        return file.read([names[number] for number in delete.ids], use_threads=False)
