"""Rows of typed sources: a struct instead of the text, which is made only when it is needed.

A batch has either `event` or `_typed`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from calve.event.columns import EVENT, ORIGINAL, TYPED
from calve.event.json_text import to_json

__all__ = ["is_typed", "joinable", "joined", "with_decimals_as_strings", "with_text"]

_STRINGS = {b"calve.decimals": b"string"}
"""The metadata of fields whose decimals become strings in JSON text."""


def is_typed(rows: pa.Table) -> bool:
    """Return whether the rows have no text yet."""
    return TYPED in rows.column_names


def with_text(rows: pa.Table) -> pa.Table:
    """Return rows with the column `event`; JSON text replaces typed values, those of `_original`, too."""
    if not is_typed(rows):
        return rows
    if ORIGINAL in rows.column_names and pa.types.is_struct(rows[ORIGINAL].type):
        rows = rows.set_column(rows.column_names.index(ORIGINAL), ORIGINAL, _texts(rows[ORIGINAL]))
    return rows.set_column(rows.column_names.index(TYPED), EVENT, _texts(rows[TYPED]))


def joined(batches: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of batches, of which some may be texts or lack columns; what a row lacks is not null then."""
    if len({batch.schema.field(TYPED).type if is_typed(batch) else None for batch in batches}) > 1:
        batches = list(map(with_text, batches))
    return pa.concat_tables(batches, promote_options="default")


def _texts(rows: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the JSON text of typed rows (binary)."""
    values = pa.Table.from_struct_array(rows)
    has_strings = any(field.metadata == _STRINGS for field in values.schema)
    return to_json(values, decimals_as_strings=True) if has_strings else to_json(values)


def with_decimals_as_strings(rows: pa.StructArray) -> pa.StructArray:
    """Mark rows so that their texts have decimals as strings instead of numbers."""
    fields = [field.with_metadata(_STRINGS) for field in rows.type]
    return pa.StructArray.from_arrays(rows.flatten(), fields=fields)


def joinable(kind: pa.DataType) -> bool:
    """Return whether Arrow can select rows of a type: it cannot for views (Arrow 26)."""
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return False
    return all(joinable(kind.field(number).type) for number in range(kind.num_fields))
