"""Converts texts of values to typed Arrow columns, exactly.

A value that has no place in its type (a date with the year 0, NaN in a decimal) keeps its text: the converter of the
sink then decides about it, as about any other value that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

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
    try:
        return _cast(kind, values)
    except (pa.ArrowInvalid, ValueError):
        return values


def _cast(kind: str, texts: pa.Array) -> pa.Array:
    own = _OWN.get(kind)
    return own(texts) if own else texts.cast(arrow_type(kind))


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
