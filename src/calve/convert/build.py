"""Builds columns of a table's Arrow types that Parquet accepts."""

from __future__ import annotations

import pyarrow as pa

from calve.event import duckdb_session

__all__ = ["seal", "struct_array"]


def struct_array(children: list[pa.Array], fields: list[pa.Field], mask: pa.Array) -> pa.Array:
    """Return a struct. A required field of a null struct is null, which Arrow allows only with a mask."""
    loose = [field.with_nullable(True) for field in fields]
    built = pa.StructArray.from_arrays(children, fields=loose, mask=mask)
    kind = pa.struct(fields)
    return pa.Array.from_buffers(kind, len(built), built.buffers()[:1], built.null_count, children=children)


def seal(rows: pa.Table) -> pa.Table:
    """Replace the nulls of required fields in null structs: no reader sees them, but Parquet refuses them."""
    columns = [duckdb_session.one_array(column) for column in rows.columns]
    return pa.table(
        [
            _sealed(column, True) if _requires(field.type) else column
            for column, field in zip(columns, rows.schema, strict=True)
        ],
        schema=rows.schema,
    )


def _requires(kind: pa.DataType) -> bool:
    """Return whether a struct has a required field, at any depth."""
    if pa.types.is_map(kind):
        return _requires(kind.item_type)
    below = [kind.field(i) for i in range(kind.num_fields)]
    return any((pa.types.is_struct(kind) and not field.nullable) or _requires(field.type) for field in below)


def _sealed(array: pa.Array, nullable: bool) -> pa.Array:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return kind.wrap_array(_sealed(array.storage, nullable))
    if pa.types.is_struct(kind):
        mask = array.is_null() if nullable else pa.repeat(False, len(array))
        below = [kind.field(i) for i in range(kind.num_fields)]
        return struct_array([_sealed(array.field(i), field.nullable) for i, field in enumerate(below)], below, mask)
    own, children = array.buffers(), None
    if pa.types.is_nested(kind):
        own, children = own[:2], [_sealed(array.values, pa.types.is_map(kind) or kind.value_field.nullable)]
    if not nullable:
        return pa.Array.from_buffers(kind, len(array), [None, *own[1:]], 0, array.offset, children)
    return pa.Array.from_buffers(kind, len(array), own, array.null_count, array.offset, children)
