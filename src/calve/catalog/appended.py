"""The row changes of snapshots that only add rows, without a JVM: each row of an added file is an INSERT.

The lines are those of `calve.changes.record.lines`. What has other changes, or rows without a key in format version 3,
whose identity is in metadata columns, is left to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table

from calve.catalog.rows import TableRows
from calve.catalog.variant_files import variant_ids
from calve.changes.snapshot import History, Snapshot, SnapshotStep, steps
from calve.errors import PositionLostError
from calve.event.json_text import to_json, unquoted, value_texts
from calve.table.kinds import primitive

__all__ = ["appended_lines"]

_MOST_BYTES = 256 << 20
"""Beyond that, tasks of Spark side by side are faster."""
_KEYS = ("int", "long", "string", "uuid")
"""The types whose text in an id of a document is that of JSON."""
_SHORT: Mapping[str, Any] = {"ensure_ascii": False, "separators": (",", ":")}


@dataclass(frozen=True)
class _Added:
    """The files with the new rows of a snapshot."""

    snapshot: Snapshot
    files: tuple[DataFile, ...]


def appended_lines(
    table: Table, branch: str, after: int | None, until: int | None, key: Sequence[str] = ()
) -> Iterator[str] | None:
    """Return the changes between two snapshots as lines; None: they need Spark.

    Args:
        table: The table, as PyIceberg loaded it.
        branch: The branch that is read.
        after: The snapshot before the first changes; None: all rows of the oldest retained snapshot come first.
        until: The last snapshot; None: the newest.
        key: The identifier columns; none: the table's identifier fields.

    Raises:
        NoTargetError, PositionLostError, SettingsError: As `calve.changes.snapshot.steps`.
    """
    columns = _key_of(table, key)
    if branch not in table.metadata.refs or columns is None or variant_ids(table.metadata):
        return None
    name = ".".join(table.name())
    snapshots = [_added(table, step) for step in steps(_history(table, name, branch), after, until)]
    added = [snapshot for snapshot in snapshots if snapshot is not None]
    files = [file for snapshot in added for file in snapshot.files]
    is_large = sum(file.file_size_in_bytes for file in files) > _MOST_BYTES
    if len(added) < len(snapshots) or is_large or any(file.file_format != FileFormat.PARQUET for file in files):
        return None
    return _lines(TableRows(table), name, added, columns)


def _key_of(table: Table, key: Sequence[str]) -> list[str] | None:
    schema = table.schema()
    columns = list(key) or [str(schema.find_column_name(number)) for number in sorted(schema.identifier_field_ids)]
    words = {field.name: primitive(field.field_type).word for field in schema.fields}
    if any(words.get(name) not in _KEYS for name in columns):
        return None
    return None if not columns and table.format_version >= 3 else columns


def _history(table: Table, name: str, branch: str) -> History:
    snapshots = {
        snapshot.snapshot_id: Snapshot(
            snapshot.snapshot_id,
            snapshot.parent_snapshot_id,
            snapshot.sequence_number or 0,
            snapshot.timestamp_ms,
            snapshot.summary.operation.value if snapshot.summary else "",
        )
        for snapshot in table.metadata.snapshots
    }
    line: list[Snapshot] = []
    number: int | None = table.metadata.refs[branch].snapshot_id
    while number is not None and number in snapshots:
        line.insert(0, snapshots.pop(number))
        number = line[0].parent_id
    return History(name, str(table.metadata.table_uuid), branch, line, snapshots)


def _added(table: Table, step: SnapshotStep) -> _Added | None:
    """Return the files of a step; None: it also has other changes."""
    number = step.snapshot.snapshot_id
    snapshot = table.snapshot_by_id(number)
    if not step.changes_rows:
        return _Added(step.snapshot, ())
    if snapshot is None or step.base is not None or not (step.is_full or step.snapshot.operation == "append"):
        return None
    manifests = snapshot.manifests(table.io)
    if any(m.content == ManifestContent.DELETES and (step.is_full or m.added_snapshot_id == number) for m in manifests):
        return None
    entries = [
        entry
        for manifest in manifests
        if manifest.content == ManifestContent.DATA and (step.is_full or manifest.added_snapshot_id == number)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]
    is_new = [step.is_full or (e.status == ManifestEntryStatus.ADDED and e.snapshot_id == number) for e in entries]
    return _Added(step.snapshot, tuple(e.data_file for e, new in zip(entries, is_new, strict=True) if new))


def _lines(rows: TableRows, name: str, snapshots: Sequence[_Added], key: Sequence[str]) -> Iterator[str]:
    try:
        for added in snapshots:
            for batch in rows.of_files(added.files):
                yield from _of_batch(batch, name, added.snapshot, key)
    except FileNotFoundError as error:
        message = f"Files of snapshots of {name} no longer exist"
        hint = "Snapshots expired while they were read; start without a position to read all retained snapshots"
        raise PositionLostError(message, step="changes", target=name, hint=hint) from error


def _of_batch(batch: pa.RecordBatch, name: str, snapshot: Snapshot, key: Sequence[str]) -> Iterator[str]:
    events = to_json(pa.Table.from_batches([batch]), decimals_as_strings=True).to_pylist()
    start = {
        "iceberg_operation": "INSERT",
        "iceberg_table_name": name,
        "iceberg_snapshot_id": snapshot.snapshot_id,
        "iceberg_sequence_number": snapshot.sequence_number,
        "iceberg_commit_timestamp": snapshot.committed_at,
    }
    ids = _document_ids(batch, key) if key else [{}] * len(events)
    for event, document_id in zip(events, ids, strict=True):
        metadata = json.dumps({**start, **document_id, "bulk_action": "index"}, **_SHORT)
        yield f'{{"event":{event.decode()},"metadata":{metadata}}}'


def _document_ids(batch: pa.RecordBatch, key: Sequence[str]) -> Iterator[dict[str, str]]:
    r"""Yield the id of each row, as `calve.changes.record.document_id` has it: `\N` is a NULL, `\E` an empty text."""
    columns = [[text.decode() for text in value_texts(batch.column(name)).to_pylist()] for name in key]
    for texts in zip(*columns, strict=True):
        joined = "|".join(r"\N" if text == "null" else _escaped(unquoted(text)) for text in texts)
        yield {"document_id": joined or r"\E"}


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")
