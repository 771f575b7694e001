"""Deletes rows by position within an attempt: `merge-on-read` without a MERGE (decision 60).

Three parts: find the rows of the staged keys (`key_search`, or an index: `branch_keys`), write their positions
(`Positions.java`), and add them to the attempt with the data files of all batches, as one snapshot. The files searched
are those of the snapshot that the compare-and-swap replaces, so no other writer can have moved a row. Later batches of
the same commit delete rows of earlier ones in the staged files themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.catalog.attempt import Attempt
from calve.catalog.catalog import Catalog
from calve.catalog.data_files import LINEAGE_VERSION
from calve.catalog.trust import refuse_java_class
from calve.commit.branch_files import BranchPlan
from calve.commit.branch_keys import BranchKeys
from calve.commit.key_search import KeySearch, SearchedFile, UnsearchableError
from calve.commit.mark import CommitTarget
from calve.commit.merge_source import staged_file
from calve.commit.row_ids import OlderIds, RowsWithIds, older_ids, rows_with_ids
from calve.commit.updated_rows import UpdatedRows, is_update, updated_rows
from calve.engine.java.compiled import java_class
from calve.engine.java.errors import called
from calve.record.content_file import Bounds, ContentFile
from calve.stop_point import stop_at
from calve.table.loaded import Table

__all__ = ["bounds_of", "delete_by_position", "distinct_rows", "planned_files", "searched_file", "write_deletes"]

_Batches = Mapping[int, Sequence[ContentFile]]


_Reject = Callable[[Mapping[int, Sequence[bytes]]], Mapping[str, str]]
"""Keeps the dead letters of batches; returns the summary of the snapshot."""


def delete_by_position(
    catalog: Catalog, begun: Attempt, target: CommitTarget, batches: _Batches, reject: _Reject
) -> bool:
    """Add batches to an attempt as one snapshot: their data files, and deletes by position of rows with their keys.

    Updates that lack columns become whole rows, in data files of the attempt.

    Args:
        catalog: The catalog of the table.
        begun: The attempt; it has inspected the table.
        target: The table, its branch, and the index of its keys.
        batches: Staged files, in the order of the batches.
        reject: Called with the dead letters of events that turned out not to be rows; its summary is the snapshot's.

    Returns:
        False: nothing was added, because only Spark can search or read a file.

    Raises:
        UnsupportedError: The table names a class that would choose the places of its files.
        CommitError: A file is damaged; or an update must be left out, but its dead letters were not staged.
        SinkUnavailableError: A file cannot be read at the moment.
        InvariantError: The index of the keys is wrong.
    """
    table = begun.load()
    refuse_java_class(table.identifier, table.properties)
    if table.format_version < 2:
        return False
    keys, has_updates = _staged_keys(table, batches)
    java = java_class(catalog.spark.jvm, __name__, "Positions").newInstance()
    plan = BranchPlan(java, begun, target.branch)
    try:
        searches = [KeySearch(table, ids, parts) for ids, parts in keys.items()]
        positions = distinct_rows(_found(plan, searches, batches, target.keys))
        updated, ids = UpdatedRows(), _older_ids(java, table, target, searches, positions)
        if has_updates:
            updated = updated_rows(java, table, _only(searches), batches, positions, ids)
    except UnsearchableError:
        return False
    again = rows_with_ids(table, ids, batches, positions) if ids else RowsWithIds()
    begun.own([*updated.files, *again.files], again.replaced)
    data, positions = again.others(batches, positions)
    summary, added = {**reject(updated.letters), **again.summary}, [*data, *updated.files, *again.files]
    hidden = write_deletes(java, data, positions) if positions else 0
    if hidden:
        begun.delete(target.branch, added, java.added(), java.removed(), summary)
    else:
        begun.append(target.branch, added, summary)
    if target.keys:
        target.keys.committing(plan, sum(map(len, positions.values())) - hidden)
    return True


def _older_ids(
    java: Any, table: Table, target: CommitTarget, searches: Sequence[KeySearch], positions: Mapping[str, RowNumbers]
) -> OlderIds | str | None:
    """Return the ids that rows keep, or why they cannot; None: they need not."""
    keeps = target.keeps_row_ids and table.format_version >= LINEAGE_VERSION
    return older_ids(java, table, searches, positions) if keeps else None


def _found(
    plan: BranchPlan, searches: Sequence[KeySearch], batches: _Batches, keys: BranchKeys | None
) -> Iterator[tuple[str, RowNumbers]]:
    """Yield the rows of the keys in the table, and in the files of all batches but the last one.

    Args:
        plan: Of the attempt.
        searches: The keys, by their columns.
        batches: Staged files.
        keys: The index of the branch.
    """
    staged, hits = _earlier_files(batches), None
    keys = keys if len(searches) == 1 else None  # an index is of one key
    if keys and keys.is_used():
        hits = keys.find(searches[0], plan)
    if hits is None:
        files = _planned(plan, searches, batches)
        rows = sum(file.rows for search in searches for file in search.matching(files))
        hits = keys.find(searches[0], plan) if keys and keys.is_worth(searches[0], rows) else None
        staged += files if hits is None else []
    yield from hits or ()
    for search in searches:
        yield from search.find(staged)


def _staged_keys(table: Table, batches: _Batches) -> tuple[dict[tuple[int, ...], list[tuple[int, pa.Table]]], bool]:
    """Return the keys of each batch by the field ids of their columns, and whether some are of updates."""
    keys: dict[tuple[int, ...], list[tuple[int, pa.Table]]] = {}
    has_updates = False
    for batch, file in [(batch, file) for batch, files in batches.items() for file in files if not file.is_data]:
        with staged_file(file.file_path, table.io_properties) as opened:
            has_updates |= is_update(opened.schema_arrow)
            keys.setdefault(tuple(file.equality_ids), []).append((batch, opened.read(use_threads=False)))
    return keys, has_updates


def _only(searches: Sequence[KeySearch]) -> KeySearch:
    """Return the search of all keys.

    Raises:
        UnsearchableError: Batches have different keys.
    """
    if len(searches) > 1:
        raise UnsearchableError("the columns of the key have changed")
    return searches[0]


def _planned(plan: BranchPlan, searches: Sequence[KeySearch], batches: _Batches) -> list[SearchedFile]:
    """Return the files of the table that may have rows of the keys.

    Raises:
        UnsearchableError: One is encrypted, or not Parquet.
    """
    ids = sorted({number for search in searches for number in search.ids})
    deletes = [file for files in batches.values() for file in files if not file.is_data]
    is_partitioned = all(file.partition for file in deletes)  # else rows may be in any partition (`specs`)
    return planned_files(plan, ids, deletes if is_partitioned else None)


def planned_files(
    plan: BranchPlan, ids: Sequence[int], deletes: Sequence[ContentFile] | None = None
) -> list[SearchedFile]:
    """Return the data files of a branch, in the partitions of deletes, with the bounds of some columns.

    Raises:
        UnsearchableError: One is encrypted, or not Parquet.
    """
    partitions = msgspec.json.encode(deletes).decode()
    planned = json.loads(called(plan.java, "plan", plan.begun.transaction, plan.branch, json.dumps(ids), partitions))
    if planned is None:
        raise UnsearchableError("a file is encrypted, or not Parquet")
    return [
        SearchedFile(path, rows, bounds_of(ids, lower), bounds_of(ids, upper)) for path, rows, lower, upper in planned
    ]


def _earlier_files(batches: _Batches) -> list[SearchedFile]:
    """Return the data files of batches in which a later batch may delete rows."""
    last = max(batch for batch, files in batches.items() if not all(file.is_data for file in files))
    earlier = [(batch, file) for batch, staged in batches.items() if batch < last for file in staged]
    return [searched_file(file, batch) for batch, file in earlier if file.is_data]


def bounds_of(ids: Iterable[int], texts: Iterable[str | None]) -> dict[int, bytes]:
    """Return bounds by field id; `texts` has them as hex."""
    return {number: bytes.fromhex(text) for number, text in zip(ids, texts, strict=True) if text is not None}


def searched_file(file: ContentFile, batch: int) -> SearchedFile:
    """Return a staged data file of a batch to be searched."""
    lower, upper = (
        bounds_of(bounds.keys, bounds.values)
        for bounds in (file.lower_bounds or Bounds(), file.upper_bounds or Bounds())
    )
    return SearchedFile(file.file_path, file.record_count, lower, upper, batch)


def distinct_rows(hits: Iterable[tuple[str, RowNumbers]]) -> dict[str, RowNumbers]:
    """Return the rows that searches have found in each file, ascending."""
    parts: dict[str, list[RowNumbers]] = {}
    for path, rows in hits:
        parts.setdefault(path, []).append(rows)
    return {path: _distinct(np.concatenate(parts[path])) for path in sorted(parts)}


def _distinct(rows: RowNumbers) -> RowNumbers:
    """Return row numbers ascending, each once, as an index has them already."""
    return rows if (rows[1:] > rows[:-1]).all() else np.unique(rows)


def write_deletes(java: Any, data: Sequence[ContentFile], positions: Mapping[str, RowNumbers]) -> int:
    """Write deletes; return how many rows they hide that were not hidden before.

    Args:
        java: A `Positions`, which has planned the files.
        data: Staged files, which are not in the table yet.
        positions: The rows to delete of each file.
    """
    staged = [file for file in data if file.file_path in positions]
    counts = np.array([len(rows) for rows in positions.values()], "<i8")
    rows = np.concatenate(list(positions.values())).astype("<i8")
    arguments = msgspec.json.encode(staged).decode(), json.dumps(list(positions)), counts.tobytes(), rows.tobytes()
    hidden: int = called(java, "write", *arguments)
    stop_at("commit.after-deletes")
    return hidden
