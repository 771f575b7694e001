"""What envelopes look like: where each format of a change stream keeps the operation, the row, and what tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

__all__ = ["IMPLIED_OPERATION", "OPERATION_ATTRIBUTE", "SHAPES", "UNAVAILABLE", "Attribute", "Shape"]

OPERATION_ATTRIBUTE = "operation"
"""The metadata attribute with what an envelope does: `insert`, `update` or `delete`, whatever its own word."""
IMPLIED_OPERATION = '${getMetadata("operation")}'
"""What `operation` is where events are envelopes and the sink does not say otherwise."""

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium writes for a column that Postgres did not tell, because it is large and did not change (TOAST)."""


@dataclass(frozen=True)
class Attribute:
    """A metadata attribute: the pointer into the envelope, and its type."""

    path: str
    kind: pa.DataType = field(default_factory=pa.string)


@dataclass(frozen=True)
class Shape:
    """One format; paths are JSON pointers into the envelope.

    Attributes:
        title: Its name for people.
        operation: Where the envelope says what happened.
        words: What its words mean: `insert`, `update`, `delete`.
        silent: Its words for records that are about no row; they are passed over.
        refused: Its words for what cannot be applied, each with the reason.
        after: Where the row is.
        before: Where the row before the change is.
        whole_before: Whether that is a whole row, and the one a delete names; else it has only what changed.
        wrapped: Whether the envelope may be the `payload` beside a Kafka Connect `schema`.
        metadata: The attributes that it gives, by name.
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


_TABLE_CHANGES = ("table-create", "table-alter", "table-drop", "database-create", "database-alter", "database-drop")
_MAXWELL_SILENT = frozenset({"bootstrap-start", "bootstrap-complete", "heartbeat", *_TABLE_CHANGES})
_COLUMN_CHANGES = ("add-column", "drop-column", "rename-column", "change-columns", "column-type-change")
_DMS_SILENT = frozenset({"create-table", "drop-table", "rename-table", *_COLUMN_CHANGES})
_TRUNCATES = "it truncates the table, which cannot be applied: empty the table by hand"


def _source(*names: str, numbers: tuple[str, ...] = ()) -> dict[str, Attribute]:
    texts = {f"debezium_source_{name}": Attribute(f"/source/{name}") for name in names}
    return texts | {f"debezium_source_{name}": Attribute(f"/source/{name}", pa.int64()) for name in numbers}


_DEBEZIUM = Shape(
    title="Debezium",
    operation="/op",
    words={"c": "insert", "r": "insert", "u": "update", "d": "delete"},
    after="/after",
    before="/before",
    whole_before=True,
    wrapped=True,
    refused={"t": _TRUNCATES},
    metadata={
        "debezium_op": Attribute("/op"),
        "debezium_ts_ms": Attribute("/ts_ms", pa.int64()),
        **_source("connector", "name", "db", "schema", "table", "snapshot", "file", numbers=("ts_ms", "pos", "lsn")),
    },
)
_MAXWELL = Shape(
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
_DMS = Shape(
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
SHAPES: Mapping[str, Shape] = {"debezium": _DEBEZIUM, "maxwell": _MAXWELL, "dms": _DMS}
"""The formats by the names that `serde_format` and `codec` take."""
