"""Formats that only join texts, metadata and fields, as most names of tables do: evaluated without SQL.

DuckDB takes a quarter of a second until its first answer, which is long for a run that needs it for nothing else.
"""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from calve.event import duckdb_session
from calve.event.columns import JSON
from calve.event.operation import operation_of
from calve.expression import Format

__all__ = ["joined", "operations_of"]


def joined(text: Format, rows: pa.Table, *, is_name: bool = False) -> pa.Array | None:
    """Evaluate a format for each row; None: this takes SQL.

    Args:
        text: The format.
        rows: The metadata columns, and `json` if it reads fields: few rows, as each is parsed.
        is_name: Whether a part without a value makes the result null (`Format.name_sql`).
    """
    if not text.is_joined:
        return None
    parts: list[pa.Array | pa.Scalar] = []
    for kind, piece in text.pieces:
        part = _part(rows, kind, piece)
        if part is None:
            return None
        parts.append(pc.if_else(pc.equal(part, ""), pa.scalar(None, pa.string()), part) if is_name else part)
    names = pc.binary_join_element_wise(*parts, "")
    return pa.repeat(names, len(rows)) if isinstance(names, pa.Scalar) else names  # where no attribute exists


def _part(rows: pa.Table, kind: str, piece: str) -> pa.Array | pa.Scalar | None:
    if kind in ("text", "missing"):
        return pa.scalar(piece if kind == "text" else "")
    return _texts(rows, piece) if kind == "field" else _attribute(rows, piece)


def _attribute(rows: pa.Table, name: str) -> pa.Array | None:
    if name not in rows.column_names or not pa.types.is_string(rows.schema.field(name).type):
        return None
    return pc.fill_null(duckdb_session.one_array(rows[name]), "")


def _texts(rows: pa.Table, field: str) -> pa.Array | None:
    """Return a field of each event; None if it is not always a text."""
    try:
        values = [event.get(field) for event in map(msgspec.json.decode, rows[JSON].to_pylist())]
    except msgspec.DecodeError:  # half a surrogate pair
        return None
    if any(type(value) is not str or "\0" in value for value in values):
        return None
    return pa.array(values, pa.string())


def operations_of(texts: pa.Array, of_full_rows: bool) -> pa.Array:
    """Return the `Operation` (int8) of each text; null for an unknown word."""
    words = texts.dictionary_encode()
    operations = [operation_of(word, of_full_rows) for word in words.dictionary.to_pylist()]
    return pa.array([None if operation is None else int(operation) for operation in operations], pa.int8()).take(
        words.indices
    )
