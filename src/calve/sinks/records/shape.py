"""Converts events to records: keys, headers and operations in one SELECT, the value is the event's text.

Runs on executors; the driver compiles.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as option
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from calve.columns.fields import Fields
from calve.event import duckdb_session
from calve.event.columns import JSON
from calve.event.operation import Operation, operation_sql
from calve.event.reject import Code, reject_rows
from calve.expression import Format, compile_format
from calve.expression.format import compile_value
from calve.expression.sql import duckdb_text

__all__ = ["EventRecords", "RecordOptions", "RecordShape", "compile_shape"]

_ID = '${getMetadata("document_id")}'
_OPERATIONS = ("iceberg_operation", "operation")
"""The attributes with the operations of sources that have changes."""
_SOURCE = {
    "db": "database_name",
    "schema": "schema_name",
    "table": "table_name",
    "iceberg_table": "iceberg_table_name",
    "snapshot_id": "iceberg_snapshot_id",
    "commit_time": "iceberg_commit_timestamp",
}
"""The fields of Debezium's `source`, and the attributes that they have."""


@dataclass(frozen=True)
class RecordOptions:
    """How a sink's settings make records of events.

    Attributes:
        target: The option that names where records go, for rejects.
        key: The text of the key; None: that of the row, if the source has it.
        key_columns: Fields that form the key instead.
        headers: Names of headers, with their texts.
        operation: The text of an event's operation; None: the source's.
        is_envelope: Whether values have Debezium's envelope.
        deletes_need_key: Whether a delete without a key is rejected.
    """

    target: str
    key: str | None = None
    key_columns: Sequence[str] = ()
    headers: Mapping[str, str] = option(default_factory=dict)
    operation: str | None = None
    is_envelope: bool = False
    deletes_need_key: bool = True


class EventRecords(NamedTuple):
    """What the records of events have, by event.

    Attributes:
        texts: The events' JSON, or their encoded values (binary).
        keys: Null: none.
        operations: `Operation`; null: it is rejected.
        headers: The values of each header; null: none.
        sources: Debezium's `source` as JSON, if it is asked for.
        rejects: `REJECTS`.
    """

    texts: pa.Array
    keys: pa.Array
    operations: pa.Array
    headers: dict[str, pa.Array]
    sources: pa.Array | None
    rejects: pa.Table


@dataclass(frozen=True)
class RecordShape:
    """How a sink's events become records; pickled into tasks.

    Attributes:
        sql: The SELECT over `events`.
        metadata: The metadata attributes that it reads.
        headers: The names of headers.
        needs_key: Whether an event without a key is rejected.
        deletes_need_key: Whether a delete without one is.
        is_envelope: Whether values have Debezium's envelope.
        target_field: The option that names where records go.
    """

    sql: str
    metadata: frozenset[str]
    headers: tuple[str, ...]
    needs_key: bool
    deletes_need_key: bool
    is_envelope: bool
    target_field: str

    def records(self, events: pa.Table, fields: Fields) -> EventRecords:
        """Convert events with `json` and the metadata columns."""
        columns = duckdb_session.run(self.sql, events=events)
        keys, operations = (duckdb_session.one_array(columns[name]) for name in ("key", "operation"))
        unknown = operations.is_null()
        is_delete = pc.fill_null(pc.equal(operations, pa.scalar(int(Operation.DELETE), pa.int8())), False)
        needing = pa.repeat(self.needs_key, len(events)) if self.needs_key or not self.deletes_need_key else is_delete
        lacks_key = pc.and_(pc.and_(needing, keys.is_null()), pc.invert(unknown))
        faults = [
            (unknown, Code.UNKNOWN_OPERATION, "operation", "is missing, or not one that Calve knows"),
            (lacks_key, Code.NO_KEY, "key", "has no value, but the record needs a key"),
        ]
        return EventRecords(
            duckdb_session.one_array(fields.texts(events[JSON])),
            keys,
            pc.if_else(lacks_key, pa.scalar(None, pa.int8()), operations),
            {name: duckdb_session.one_array(columns[f"h{at}"]) for at, name in enumerate(self.headers)},
            duckdb_session.one_array(columns["source"]) if self.is_envelope else None,
            pa.concat_tables(reject_rows(pc.indices_nonzero(where).cast(pa.int64()), *why) for where, *why in faults),
        )


def compile_shape(options: RecordOptions, metadata: Collection[str], implied: str | None = None) -> RecordShape:
    """Compile the conversion of a sink's events.

    Args:
        options: Those of the sink.
        metadata: The attributes that events have.
        implied: The expression of an event's operation if the source is a change stream.
    """
    own = next((f'${{getMetadata("{name}")}}' for name in _OPERATIONS if name in metadata), None)
    chosen = options.operation or implied or own
    operation = compile_format(chosen, metadata) if chosen else None
    key, used = _key(options, metadata)
    headers = [compile_format(text, metadata) for text in options.headers.values()]
    attributes = {field: name for field, name in _SOURCE.items() if name in metadata} if options.is_envelope else {}
    parts = [
        f"nullif({key}, '') AS key",
        f"{operation_sql(operation.sql) if operation else '0::TINYINT'} AS operation",
        *(f"nullif({header.sql}, '') AS h{at}" for at, header in enumerate(headers)),
        *([f"{_source(attributes)} AS source"] if options.is_envelope else []),
    ]
    used |= frozenset(attributes.values()).union(*(text.metadata for text in (*headers, operation) if text))
    needs_key = options.key is not None or bool(options.key_columns)
    return RecordShape(
        f"SELECT {', '.join(parts)} FROM events",
        used,
        tuple(options.headers),
        needs_key,
        options.deletes_need_key,
        options.is_envelope,
        options.target,
    )


def _key(options: RecordOptions, metadata: Collection[str]) -> tuple[str, frozenset[str]]:
    """Return SQL of the key, and the attributes that it reads."""
    if not options.key_columns:
        text = options.key or (_ID if "document_id" in metadata else "")
        key: Format = compile_format(text, metadata)
        return key.sql, key.metadata
    values = [(name, compile_value(_pointer(name), metadata).sql) for name in options.key_columns]
    pairs = " || ',' || ".join(f"to_json({duckdb_text(name)})::VARCHAR || ':' || {value}" for name, value in values)
    is_absent = " OR ".join(f"coalesce({value}, 'null') = 'null'" for _, value in values)
    return f"CASE WHEN {is_absent} THEN NULL ELSE '{{' || {pairs} || '}}' END", frozenset()


def _source(attributes: Mapping[str, str]) -> str:
    pairs = ["'connector'", "'calve'"]
    for field, name in attributes.items():
        pairs += [duckdb_text(field), f'"{name}"']
    return f"json_object({', '.join(pairs)})::VARCHAR"


def _pointer(field: str) -> str:
    """Return the expression of a field at the top, whatever its name."""
    path = field.replace("~", "~0").replace("/", "~1")
    return f'"/{path}"'
