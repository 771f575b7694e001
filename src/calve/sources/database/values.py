"""Converts texts of values to typed Arrow columns, exactly.

A value that has no place in its type (a date with the year 0, NaN in a decimal) keeps its text: the converter of the
sink then decides about it, as about any other value that does not fit. The others of its batch become the texts that a
column of strings has of them, so masks and keys do not depend on their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from calve.event.json_text import plain_texts
from calve.sources.database.table import arrow_type

__all__ = ["converted"]

_UTC = "+00"


def converted(kind: str, values: pa.Array) -> pa.Array:
    r"""Return a column of its type, or the texts if one of them has no place in it.

    Args:
        kind: The Iceberg type.
        values: Texts (`t` and `f`, `\x00ff` for bytes, times with `+00`), or values of the type.
    """
    if values.type == arrow_type(kind):
        return values
    if (column := _cast(kind, values)) is not None:
        return column
    if not pa.types.is_string(values.type):
        return values
    distinct = values.dictionary_encode()
    return _texts(kind, distinct.dictionary).take(distinct.indices)


def _cast(kind: str, texts: pa.Array) -> pa.Array | None:
    """Return a column of its type; None if a value has no place in it."""
    own = _OWN.get(kind)
    try:
        return own(texts) if own else texts.cast(arrow_type(kind))
    except ValueError:  # Arrow's errors, too
        return None


def _texts(kind: str, texts: pa.Array) -> pa.Array:
    """Return the texts of typed values; those that have no place in the type stay as they are."""
    if (column := _cast(kind, texts)) is not None:
        return plain_texts(column).cast(pa.string())
    half = len(texts) // 2
    return pa.concat_arrays([_texts(kind, part) for part in (texts[:half], texts[half:])]) if half else texts


def _boolean(texts: pa.Array) -> pa.Array:
    return pc.equal(texts, "t")


def _binary(texts: pa.Array) -> pa.Array:
    return pa.array([None if text is None else bytes.fromhex(text[2:]) for text in texts.to_pylist()], pa.binary())


def _uuid(texts: pa.Array) -> pa.Array:
    hexes = pc.replace_substring(texts, "-", "").to_pylist()
    stored = pa.array([None if digits is None else bytes.fromhex(digits) for digits in hexes], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), stored)


def _timestamptz(texts: pa.Array) -> pa.Array:
    if not pc.all(pc.ends_with(texts, _UTC)).as_py() and texts.null_count < len(texts):
        raise ValueError("a time that is not in UTC")
    return pc.utf8_slice_codeunits(texts, 0, -len(_UTC)).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))


_OWN: dict[str, Callable[[pa.Array], pa.Array]] = {
    "boolean": _boolean,
    "binary": _binary,
    "uuid": _uuid,
    "timestamptz": _timestamptz,
    "string": lambda texts: texts,
}
"""Types whose texts Arrow does not read as PostgreSQL writes them."""
