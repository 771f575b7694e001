"""Selects the stored columns: all but those of type `unknown`, which files leave out (Iceberg specification)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

__all__ = ["stored", "stored_schema"]


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the stored columns, in structs too; all columns if none would remain."""
    return pa.schema(_stored(schema))


def stored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the stored columns of rows; without a copy if these are all columns."""
    return rows if rows.schema.equals(schema) else rows.select(schema.names).cast(schema)


def _stored(fields: Iterable[pa.Field]) -> list[pa.Field]:
    storable = [field for field in fields if not pa.types.is_null(field.type)]
    return [
        field.with_type(pa.struct(_stored(field.type.fields))) if pa.types.is_struct(field.type) else field
        for field in storable
    ] or list(fields)
