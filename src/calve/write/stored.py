"""What of typed rows is stored: all but columns of type `unknown`, which files leave out (Iceberg specification)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

__all__ = ["stored", "stored_schema"]


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns that are stored, in structs too; where there would be none, all of them are."""
    return pa.schema(_kept(schema))


def stored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows as they are stored; without a copy where that is all of them."""
    return rows if rows.schema.equals(schema) else rows.select(schema.names).cast(schema)


def _kept(fields: Iterable[pa.Field]) -> list[pa.Field]:
    known = [each for each in fields if not pa.types.is_null(each.type)]
    return [
        each.with_type(pa.struct(_kept(each.type.fields))) if pa.types.is_struct(each.type) else each for each in known
    ] or list(fields)
