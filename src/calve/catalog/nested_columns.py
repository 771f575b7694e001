"""Gives nested columns of older files the parts that they have now, found by field id; runs anywhere.

An added part is NULL in older rows, a dropped one goes, a renamed one stays (specification, "Column Projection").
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

import pyarrow as pa

__all__ = ["fitted", "id_of"]


def id_of(field: pa.Field) -> bytes:
    """Return the field id of a column of a file."""
    field_id: bytes = (field.metadata or {}).get(b"PARQUET:field_id", b"")
    return field_id


def fitted(column: pa.ChunkedArray, kind: pa.DataType, defaulted: Set[bytes]) -> pa.ChunkedArray:
    """Return a column of a file with the type that it has in the table.

    Args:
        column: The column.
        kind: The type.
        defaulted: The ids of parts that are not NULL in rows without them.

    Raises:
        ArrowInvalid: Only Iceberg can read it so: a part that is missing has a value in older rows.
    """
    if _parts(column.type) == _parts(kind):
        return column.cast(kind)
    return pa.chunked_array([_fitted(chunk, kind, defaulted) for chunk in column.chunks], kind)


def _fitted(values: pa.Array, kind: pa.DataType, defaulted: Set[bytes]) -> pa.Array:
    if _parts(values.type) == _parts(kind):
        return values.cast(kind)
    if pa.types.is_struct(kind):
        stored = {id_of(field): values.field(at) for at, field in enumerate(values.type.fields)}
        parts = [_part(field, stored.get(id_of(field)), len(values), defaulted) for field in kind.fields]
        return pa.StructArray.from_arrays(parts, fields=kind.fields, mask=values.is_null())
    offsets = values.offsets.to_numpy()  # those of a slice point into the whole array's items
    first, last = int(offsets[0]), int(offsets[-1])
    starts, is_null = offsets - first, values.is_null()
    if pa.types.is_map(kind):
        keys = _fitted(values.keys.slice(first, last - first), kind.key_type, defaulted)
        items = _fitted(values.items.slice(first, last - first), kind.item_type, defaulted)
        return pa.MapArray.from_arrays(pa.array(starts, pa.int32()), keys, items, type=kind, mask=is_null)
    items = _fitted(values.values.slice(first, last - first), kind.value_type, defaulted)
    is_large = pa.types.is_large_list(kind)
    build, width = (pa.LargeListArray, pa.int64()) if is_large else (pa.ListArray, pa.int32())
    return build.from_arrays(pa.array(starts, width), items, type=kind, mask=is_null)


def _part(field: pa.Field, stored: pa.Array | None, rows: int, defaulted: Set[bytes]) -> pa.Array:
    if stored is not None:
        return _fitted(stored, field.type, defaulted)
    if id_of(field) in defaulted or not field.nullable:
        raise pa.ArrowInvalid(f"a nested column lacks {field.name}, which is not NULL in older rows")
    return pa.nulls(rows, field.type)


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
