"""Formats that only join texts and metadata, as the names of mirrors: evaluated without SQL.

DuckDB takes a quarter of a second until its first answer, which is long for a run that needs it for nothing else.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from calve.event import duck
from calve.event.operation import operation_of
from calve.expression import Format

__all__ = ["joined", "operations_of"]


def joined(text: Format, rows: pa.Table) -> pa.Array | None:
    """Evaluate a format for each row; None: this takes SQL.

    Args:
        text: The format.
        rows: The metadata columns.
    """
    parts: list[pa.Array | pa.Scalar] = []
    for fixed, piece in text.pieces:
        if not fixed and piece not in rows.column_names:
            return None
        part = pa.scalar(piece) if fixed else duck.one_array(rows[piece])
        if not pa.types.is_string(part.type):
            return None
        parts.append(part if fixed else pc.fill_null(part, ""))
    if not parts:
        return None
    found = pc.binary_join_element_wise(*parts, "")
    return pa.repeat(found, len(rows)) if isinstance(found, pa.Scalar) else found  # where no attribute exists


def operations_of(texts: pa.Array) -> pa.Array:
    """Return the `Operation` (int8) of each text; null for an unknown word."""
    words = texts.dictionary_encode()
    found = [operation_of(word) for word in words.dictionary.to_pylist()]
    return pa.array([None if one is None else int(one) for one in found], pa.int8()).take(words.indices)
