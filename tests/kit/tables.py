"""Tables for tests, and their rows as plain values."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.schema import Schema

from calve.table.loaded import Table

__all__ = ["plain_rows", "table_of"]


def table_of(schema: Schema) -> Table:
    return Table("ns.t", "u", "file:///t", schema.model_dump_json(), '{"spec-id":0,"fields":[]}')


def plain_rows(rows: pa.Table) -> list[dict]:
    """Times and decimals as whole numbers, UUIDs as bytes, so that values compare exactly."""
    columns = {
        name: [plain(v, rows.schema.field(name).type) for v in scalars(rows[name])] for name in rows.column_names
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def scalars(column: pa.ChunkedArray) -> list:
    return list(column)


def plain(scalar, kind):
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {f.name: plain(scalar[f.name], f.type) for f in kind}
    if pa.types.is_large_list(kind):
        return [plain(each, kind.value_type) for each in scalar.values]
    if pa.types.is_map(kind):
        pairs = scalar.values
        return [
            (plain(key, kind.key_type), plain(value, kind.item_type))
            for key, value in zip(pairs.field(0), pairs.field(1), strict=True)
        ]
    if pa.types.is_temporal(kind):
        return scalar.value
    if pa.types.is_decimal(kind):
        return int(scalar.as_py().scaleb(kind.scale, context=WIDE))
    if isinstance(kind, pa.BaseExtensionType):
        return scalar.value.as_py()
    return scalar.as_py()


import decimal  # noqa: E402

WIDE = decimal.Context(prec=100)
