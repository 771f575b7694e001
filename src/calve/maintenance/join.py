"""Rewrites data files by copying their rows as Arrow batches, in one task: a sixth of the CPU of Spark's SQL.

Iceberg's planner chooses the files and the equality deletes that apply to each, and the commit is that of Iceberg's
action (decision 16), with the same sequence number. Only the rows that are left are copied here, with the writer of the
pipelines. What needs more is left to the action: position deletes, a sort order, row ids (format version 3), files with
other columns than the table has now.
"""

from __future__ import annotations

import contextlib
import functools
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import parquet

from calve.engine.java.compiled import java_class
from calve.errors import CalveError, MaintenanceError, UnsupportedError
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.data_files import id_of, opened
from calve.maintenance.deleted_keys import Delete, DeletedKeys
from calve.maintenance.rewrite import RewrittenFiles, maintaining
from calve.record.target import Stream
from calve.sources.prefetch import prefetch
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.write.parquet import storage_error
from calve.write.stored import stored_schema
from calve.write.writer import UnwrittenFileError, Writers

__all__ = ["copied", "join"]

_ROW_IDS = 3
"""The format version with row ids, which a rewrite must keep."""
_BATCH_ROWS = 16_384
_TARGET = "write.target-file-size-bytes"
_STREAM = Stream(0, "")
_MOST_BYTES, _MOST_DELETE_BYTES = 1 << 30, 64 << 20
"""Larger rewrites with deletes are Iceberg's, which commits in parts; and those beside batches with one worker, for
which these would wait."""
_File = tuple[str, list[Delete]]
"""The path of a data file, and the equality deletes that apply to it."""
_Group = tuple[list[_File], int, int]
"""Files, their bytes, and into how many files they go."""


def join(context: MaintenanceContext, options: Mapping[str, str], where: Any = None) -> RewrittenFiles | None:
    """Rewrite the files that Iceberg's planner chooses; None: they need Iceberg's action. May be repeated safely.

    Args:
        context: The table and its branch.
        options: Iceberg's options to select files.
        where: A Java `Expression` for their partitions; None: all.

    Raises:
        MaintenanceError: Nothing was joined.
        NoTargetError: There is no such table.
    """
    table = context.catalog.load(context.name)
    if table is None or table.format_version >= _ROW_IDS or replace(table).sort_order.fields:
        return None
    with maintaining("join data files", context):
        java, loaded = java_class(context.jvm, __name__, "Joins").newInstance(), context.load()
        snapshot = loaded.snapshot(context.target.branch)
        where = where or context.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue()
        planned = java.plan(loaded, where, snapshot.snapshotId(), {**context.options, **options}) if snapshot else "[]"
        groups: list[_Group] = json.loads(planned or "null")
        if not groups:
            return None if groups is None else RewrittenFiles()
        deletes, is_alone = java.deleteBytes(), context.spark.tasks.parallelism == 1
        if deletes and (deletes > _MOST_DELETE_BYTES or _bytes(groups) > _MOST_BYTES or (is_alone and context.at_once)):
            return None
        [new_files] = context.spark.tasks.run(functools.partial(_run, table), [groups])
        if isinstance(new_files, CalveError):
            raise MaintenanceError(new_files.message, step="join data files", target=context.name, hint=new_files.hint)
        if new_files is None:
            return None
        java.commit(f"[{','.join(new_files)}]", context.target.branch)
    inputs, outputs = (
        sum(len(files) for files, _, _ in groups),
        sum(len(json.loads(files_json)) for files_json in new_files),
    )
    return RewrittenFiles(inputs, outputs, _bytes(groups))


def _bytes(groups: Iterable[_Group]) -> int:
    return sum(size for _, size, _ in groups)


def _run(table: Table, rounds: Iterable[list[_Group]]) -> Iterator[list[str] | CalveError | None]:
    """Copy the groups on an executor; yield the new files of each as JSON, or why there are none."""
    for groups in rounds:
        try:
            yield copied(table, groups)
        except CalveError as error:
            yield error
        except OSError as error:
            yield storage_error(table.location, error, "join data files")


def copied(table: Table, groups: Sequence[_Group]) -> list[str] | None:
    """Copy the rows of each group of files into new ones; return them as JSON; None: the files differ in their columns.

    Raises:
        OSError: A file cannot be read.
        CalveError: A file cannot be written.
    """
    name = f"joined-{uuid.uuid4().hex}"
    writers, keys = [Writers(f"{name}-{number:05d}", max_open=2) for number, _ in enumerate(groups)], DeletedKeys(table)
    try:
        return [_copy(table, files, writer, keys) for files, writer in zip(groups, writers, strict=True)]
    except BaseException as error:
        for writer in writers:
            writer.discard()
        if isinstance(error, (pa.ArrowException, UnsupportedError, UnwrittenFileError)):
            return None
        raise


def _copy(table: Table, group: _Group, writers: Writers, keys: DeletedKeys) -> str:
    """Copy the rows of one group; return its new files as JSON."""
    files, size_bytes, into = group
    properties = {**table.properties, _TARGET: str(size_bytes // into + 1 if into > 1 else 1 << 60)}
    with contextlib.closing(prefetch(_rows(file, table, keys) for file in files)) as parts:
        for rows in parts:
            writers.write(_STREAM, table, properties, rows)
    written = writers.close().get(_STREAM)
    return msgspec.json.encode(written.files if written else []).decode()


def _rows(data_file: _File, table: Table, keys: DeletedKeys) -> Iterator[pa.Table]:
    """Yield the rows of a file that are not deleted, with the table's columns.

    Raises:
        ArrowInvalid: The file has other columns.
    """
    path, deletes = data_file
    wanted, at = arrow_schema(table.schema), 0
    kept = keys.kept(path, deletes) if deletes else None
    with opened(path, table) as source, parquet.ParquetFile(source) as file:
        if _shape(file.schema_arrow) != _shape(stored_schema(wanted)):
            raise pa.ArrowInvalid(f"{path} has other columns than the table")
        for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
            rows = pa.Table.from_batches([batch]).cast(wanted)
            yield rows if kept is None else rows.filter(kept.slice(at, len(rows)))
            at += len(rows)


def _shape(fields: Iterable[pa.Field]) -> list[Any]:
    """Return the field ids and the names of columns; the parts of lists and maps have names without a meaning."""
    return [(id_of(field), field.name, _parts(field.type)) for field in fields]


def _parts(kind: pa.DataType) -> list[Any]:
    if pa.types.is_struct(kind):
        return _shape(kind.fields)
    if pa.types.is_map(kind):
        return [(id_of(field), _parts(field.type)) for field in (kind.key_field, kind.item_field)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [(id_of(kind.value_field), _parts(kind.value_type))]
    return []
