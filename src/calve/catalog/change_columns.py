"""Changes the columns of a table as it was planned, through Iceberg's `UpdateSchema`."""

from __future__ import annotations

import json
from typing import Any

from calve.columns.evolve import Evolution

__all__ = ["change_columns"]

_FREE_FIELD_ID = 2_000_000_000


def change_columns(iceberg: Any, java_table: Any, evolution: Evolution) -> None:
    """Add, widen and free columns in one commit; what another writer has done meanwhile is left out (driver).

    Args:
        iceberg: Java's package `org.apache.iceberg`.
        java_table: The table.
        evolution: The changes.
    """
    update, schema, changes = java_table.updateSchema(), java_table.schema(), 0
    for path, name, kind, doc, default in evolution.add:
        struct = schema.findType(".".join(path)).asStructType() if path else schema.asStruct()
        if struct.field(name) is not None:
            continue
        column = _field(iceberg, kind, default)
        value = [column.initialDefaultLiteral()] if default is not None else []
        update = update.addColumn(".".join(path) or None, name, column.type(), doc or None, *value)
        changes += 1
    for name, kind in evolution.widen:
        wider, column = _field(iceberg, kind).type(), schema.findField(name)
        if column is not None and _is_narrower(iceberg, column.type(), wider):
            update = update.updateColumn(name, wider)
            changes += 1
    for name in evolution.free:
        column = schema.findField(name)
        if column is not None and column.isRequired():
            update = update.makeColumnOptional(name)
            changes += 1
    if changes:
        update.commit()


def _is_narrower(iceberg: Any, kind: Any, wider: Any) -> bool:
    """Return whether a type can be widened to another; another writer may have changed the column meanwhile."""
    same = str(kind) == str(wider)
    return not same and bool(iceberg.types.TypeUtil.isPromotionAllowed(kind, wider.asPrimitiveType()))


def _field(iceberg: Any, kind: Any, default: Any = None) -> Any:
    """Read a Java field from the JSON values of its type and default, through the parser of a schema."""
    field = {"id": _FREE_FIELD_ID, "name": "field", "required": False, "type": kind}
    field |= {} if default is None else {"initial-default": default}
    schema = json.dumps({"type": "struct", "schema-id": 0, "fields": [field]})
    return iceberg.SchemaParser.fromJson(schema).findField("field")
