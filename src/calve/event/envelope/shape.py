"""The formats of envelopes: where each format of a change stream has the operation, the row, and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from calve.event.envelope.placeholder import UNAVAILABLE, Placeholder

__all__ = [
    "IMPLIED_OPERATION",
    "OPERATION_ATTRIBUTE",
    "SHAPES",
    "WRAPPED",
    "Attribute",
    "EnvelopeShape",
    "change_stream",
]

OPERATION_ATTRIBUTE = "operation"
"""The metadata attribute with the operation of an envelope: `insert`, `update` or `delete` for all formats."""
IMPLIED_OPERATION = '${getMetadata("operation")}'
"""The default of `operation` if events are envelopes."""


@dataclass(frozen=True)
class Attribute:
    """A metadata attribute: the pointer into the envelope, and its type."""

    path: str
    kind: pa.DataType = field(default_factory=pa.string)


@dataclass(frozen=True)
class EnvelopeShape:
    """One format; paths are JSON pointers into the envelope, empty where its payload is a row that is inserted.

    Attributes:
        title: Its name in messages.
        operation: The path of the operation.
        words: The meaning of its words: `insert`, `update`, `delete`.
        silent: Its words for records that describe no row; they are skipped.
        refused: Its words for changes that cannot be applied, each with the reason.
        after: The path of the row.
        before: The path of the row before the change.
        whole_before: Whether `before` is a complete row, and the row of a delete; else it has only the changed columns.
        wrapped: Whether the envelope may be the `payload` beside a Kafka Connect `schema`.
        metadata: The metadata attributes, by name.
        unavailable: The placeholder for a value that the source did not send; empty: there is none.
    """

    title: str
    operation: str
    words: Mapping[str, str]
    after: str
    before: str
    whole_before: bool = False
    wrapped: bool = False
    silent: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Attribute] = field(default_factory=dict)
    unavailable: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether the payload itself is a row, and no change of one."""
        return not self.operation

    @cached_property
    def placeholder(self) -> Placeholder:
        """The forms of `unavailable`."""
        return Placeholder(self.unavailable)


_TABLE_CHANGES = ("table-create", "table-alter", "table-drop", "database-create", "database-alter", "database-drop")
_MAXWELL_SILENT = frozenset({"bootstrap-start", "bootstrap-complete", "heartbeat", *_TABLE_CHANGES})
_COLUMN_CHANGES = ("add-column", "drop-column", "rename-column", "change-columns", "column-type-change")
_DMS_SILENT = frozenset({"create-table", "drop-table", "rename-table", *_COLUMN_CHANGES})
_TRUNCATES = "it truncates the table, which cannot be applied: empty the table by hand"
_MESSAGE = "it is a message of the database (pg_logical_emit_message), which has no row"


def _source(*names: str, numbers: tuple[str, ...] = ()) -> dict[str, Attribute]:
    texts = {f"debezium_source_{name}": Attribute(f"/source/{name}") for name in names}
    return texts | {f"debezium_source_{name}": Attribute(f"/source/{name}", pa.int64()) for name in numbers}


_DEBEZIUM = EnvelopeShape(
    title="Debezium",
    operation="/op",
    words={"c": "insert", "r": "insert", "u": "update", "d": "delete"},
    after="/after",
    before="/before",
    whole_before=True,
    wrapped=True,
    refused={"t": _TRUNCATES, "m": _MESSAGE},
    unavailable=UNAVAILABLE,
    metadata={
        "debezium_op": Attribute("/op"),
        "debezium_ts_ms": Attribute("/ts_ms", pa.int64()),
        **_source(
            "connector",
            "name",
            "db",
            "schema",
            "table",
            "collection",
            "snapshot",
            "file",
            numbers=("ts_ms", "pos", "lsn"),
        ),
    },
)
_MAXWELL = EnvelopeShape(
    title="Maxwell",
    operation="/type",
    words={"insert": "insert", "bootstrap-insert": "insert", "update": "update", "delete": "delete"},
    after="/data",
    before="/old",
    silent=_MAXWELL_SILENT,
    metadata={
        "maxwell_type": Attribute("/type"),
        "maxwell_database": Attribute("/database"),
        "maxwell_table": Attribute("/table"),
        "maxwell_ts": Attribute("/ts", pa.int64()),
    },
)
_DMS = EnvelopeShape(
    title="DMS",
    operation="/metadata/operation",
    words={"load": "insert", "insert": "insert", "update": "update", "delete": "delete"},
    after="/data",
    before="/before-image",
    silent=_DMS_SILENT,
    refused={"truncate-table": _TRUNCATES},
    metadata={
        "dms_operation": Attribute("/metadata/operation"),
        "dms_schema": Attribute("/metadata/schema-name"),
        "dms_table": Attribute("/metadata/table-name"),
        "dms_timestamp": Attribute("/metadata/timestamp"),
    },
)
WRAPPED = "this looks like Kafka Connect's JSON with schema; serde_format: connect_json of the topic makes rows of it"
"""What to say of an event that consists of `schema` and `payload`, but is read as plain JSON."""
_CONNECT = EnvelopeShape(title="Connect's JSON", operation="", words={}, after="", before="", wrapped=True)
SHAPES: Mapping[str, EnvelopeShape] = {
    "debezium": _DEBEZIUM,
    "maxwell": _MAXWELL,
    "dms": _DMS,
    "connect_json": _CONNECT,
}
"""The formats by their names in `serde_format` and `codec`."""


def change_stream(format: str | None) -> str | None:
    """Return a format of envelopes if they are changes of rows, else None."""
    return format if format and not SHAPES[format].is_plain else None
