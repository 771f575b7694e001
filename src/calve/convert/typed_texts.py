"""Keeps values of typed rows from being taken for others once they are text, as JSON has no such types."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from calve.event.columns import TYPED
from calve.event.json_text import value_texts
from calve.event.validate_json import whole_array
from calve.table.kinds import VARIANT

__all__ = ["with_kinds"]

_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_NUMBERS = (pa.types.is_floating, pa.types.is_decimal, pa.types.is_duration)


def with_kinds(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return typed rows in which no value has a text that its column takes for something else.

    `Infinity` and `PT0S` are Base64 for a column of bytes, and bytes, in Base64, may be `1234` or `true`. Such values
    become texts that name their type, which no column accepts.
    """
    mistaken = [
        field
        for field in rows[TYPED].type
        if field.name in columns.names and _is_mistaken(field.type, columns.field(field.name).type)
    ]
    if not mistaken:
        return rows
    values = pa.Table.from_struct_array(rows[TYPED])
    for field in mistaken:
        at = values.column_names.index(field.name)
        column = whole_array(values.column(at))
        texts = pc.ascii_trim(value_texts(column).cast(pa.string()), characters='"')
        texts = pc.if_else(column.is_valid(), pc.binary_join_element_wise(texts, f"({field.type})", " "), None)
        values = values.set_column(at, field.name, texts)
    return rows.set_column(rows.column_names.index(TYPED), TYPED, values.to_struct_array())


def _is_mistaken(kind: pa.DataType, column: pa.DataType) -> bool:
    """Return whether the text of a value, which is not the value, may be valid for a column."""
    is_bytes = pa.types.is_large_binary(column) or pa.types.is_fixed_size_binary(column)
    if any(test(kind) for test in _BINARIES):
        return not (is_bytes or pa.types.is_large_string(column) or pa.types.is_nested(column) or column == VARIANT)
    return is_bytes and any(test(kind) for test in _NUMBERS)
