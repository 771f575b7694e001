"""Joins small data files by copying their rows as Arrow batches, in one task: a sixth of the CPU of Spark's SQL.

Iceberg's planner chooses the files, and the commit is that of Iceberg's action (decision 16), with the same sequence
number. Only the rows are copied here, with the writer of the pipelines. What needs more than a copy is left to the
action: delete files, a sort order, row ids (format version 3), files with other columns than the table has now.
"""

from __future__ import annotations

import functools
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import parquet
from pyiceberg.io import load_file_io

from calve.durable import local_path
from calve.engine.compiled import java_class
from calve.errors import CalveError, MaintenanceError, UnsupportedError
from calve.maintenance.context import Workbench
from calve.maintenance.rewrite import Rewritten, maintaining
from calve.record.target import Stream
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
_Group = tuple[list[str], int, int]
"""The paths of files, their bytes, and into how many files they go."""


def join(bench: Workbench, options: Mapping[str, str], where: Any) -> Rewritten | None:
    """Join the files that Iceberg's planner chooses; None: they need Iceberg's action. May be repeated safely.

    Args:
        bench: The table and its branch.
        options: Iceberg's options to select files.
        where: A Java `Expression` for their partitions.

    Raises:
        MaintenanceError: Nothing was joined.
        NoTargetError: There is no such table.
    """
    table = bench.catalog.load(bench.name)
    if table is None or table.format_version >= _ROW_IDS or replace(table).sort_order.fields:
        return None
    with maintaining("join data files", bench):
        java, loaded = java_class(bench.jvm, __name__, "Joins").newInstance(), bench.load()
        snapshot = loaded.snapshot(bench.target.branch)
        planned = java.plan(loaded, where, snapshot.snapshotId(), {**bench.options, **options}) if snapshot else "[]"
        groups: list[_Group] = json.loads(planned or "null")
        if not groups:
            return None if groups is None else Rewritten()
        [found] = bench.spark.tasks.run(functools.partial(_run, table), [groups])
        if isinstance(found, CalveError):
            raise MaintenanceError(found.message, step="join data files", target=bench.name, hint=found.hint)
        if found is None:
            return None
        java.commit(f"[{','.join(found)}]", bench.target.branch)
    inputs, outputs = sum(len(paths) for paths, _, _ in groups), sum(len(json.loads(one)) for one in found)
    return Rewritten(inputs, outputs, sum(size for _, size, _ in groups))


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
    """Copy the rows of each group of files into new ones; return them as JSON; None: the files are not alike.

    Raises:
        OSError: A file cannot be read.
        CalveError: A file cannot be written.
    """
    name = f"joined-{uuid.uuid4().hex}"
    writers = [Writers(f"{name}-{number:05d}", max_open=2) for number, _ in enumerate(groups)]
    try:
        return [_copy(table, one, writer) for one, writer in zip(groups, writers, strict=True)]
    except BaseException as error:
        for writer in writers:
            writer.discard()
        if isinstance(error, (pa.ArrowException, UnsupportedError, UnwrittenFileError)):
            return None
        raise


def _copy(table: Table, group: _Group, writers: Writers) -> str:
    """Copy the rows of one group; return its new files as JSON."""
    paths, size_bytes, into = group
    properties = {**table.properties, _TARGET: str(size_bytes // into + 1 if into > 1 else 1 << 60)}
    for path in paths:
        for rows in _rows(path, table):
            writers.write(_STREAM, table, properties, rows)
    written = writers.close().get(_STREAM)
    return msgspec.json.encode(written.files if written else []).decode()


def _rows(path: str, table: Table) -> Iterator[pa.Table]:
    """Yield the rows of a file with the table's columns.

    Raises:
        ArrowInvalid: The file has other columns.
    """
    wanted = arrow_schema(table.schema)
    local = local_path(path)
    source = load_file_io(table.io_properties, path).new_input(path).open() if local is None else local
    with parquet.ParquetFile(source, memory_map=local is not None) as file:
        if _shape(file.schema_arrow) != _shape(stored_schema(wanted)):
            raise pa.ArrowInvalid(f"{path} has other columns than the table")
        for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
            yield pa.Table.from_batches([batch]).cast(wanted)


def _shape(fields: Iterable[pa.Field]) -> list[Any]:
    """Return the field ids and the names of columns; the parts of lists and maps have names without a meaning."""
    return [(_id(each), each.name, _parts(each.type)) for each in fields]


def _parts(kind: pa.DataType) -> list[Any]:
    if pa.types.is_struct(kind):
        return _shape(kind.fields)
    if pa.types.is_map(kind):
        return [(_id(each), _parts(each.type)) for each in (kind.key_field, kind.item_field)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [(_id(kind.value_field), _parts(kind.value_type))]
    return []


def _id(field: pa.Field) -> bytes:
    found: bytes = (field.metadata or {}).get(b"PARQUET:field_id", b"")
    return found
