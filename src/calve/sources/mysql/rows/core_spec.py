"""Tells the compiled core of the columns of a table."""

from __future__ import annotations

import functools
from typing import NamedTuple

import pyarrow as pa
from msgspec import structs

from calve.sources.database.table import Column, arrow_type
from calve.sources.mysql.catalog.column_types import CODECS, WIDE, decoded
from calve.sources.mysql.protocol.addresses import ADDRESSES

__all__ = ["CoreColumns", "core_columns", "value_type"]

_VALUES = ("int", "long", "float", "double", "binary")
"""The types whose values are not texts."""
_WIDE = frozenset({"utf-16-be", "utf-16-le", "utf-32-be"})
_UTF8 = "utf-8"


class CoreColumns(NamedTuple):
    """Columns as the core takes them.

    Attributes:
        schema: The Arrow types of their values.
        spec: What the core must know of them.
    """

    schema: pa.Schema
    spec: tuple[str, ...]


def value_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a column's values: the one of its type, or texts."""
    return arrow_type(kind) if kind in _VALUES else pa.string()


@functools.lru_cache(512)
def core_columns(columns: tuple[Column, ...], is_logged: bool) -> CoreColumns | None:
    """Return what the core must know; None if it cannot be told.

    Args:
        columns: The columns.
        is_logged: Whether values are as in the log, and not as in the rows of statements, where texts are UTF-8.
    """
    if is_logged and any(column.declared in ADDRESSES or column.charset in WIDE for column in columns):
        return None
    spec = [str(len(columns))]
    for column in columns:
        spec += _spec(column if is_logged else structs.replace(column, charset=""))
    if any("\0" in text for text in spec):
        return None
    schema = pa.schema([(str(number), value_type(column.kind)) for number, column in enumerate(columns)])
    return CoreColumns(schema, tuple(spec))


def _spec(column: Column) -> list[str]:
    """Return what `Declared` in `core/src/mysql/column.rs` reads."""
    kind = column.kind if column.kind in _VALUES else "text"
    if column.kind.startswith("decimal"):
        kind = "decimal"
    charset = "" if kind != "text" else _charset(column.charset)
    flags = "1" if column.is_key else "0", "1" if column.is_unsigned else "0"
    return [kind, *flags, charset, str(len(column.labels)), *column.labels]


@functools.cache
def _charset(name: str) -> str:
    """Return nothing for UTF-8, the codec of wide characters, or the characters of the bytes 1 to 255."""
    codec = CODECS.get(name, _UTF8)
    if codec == _UTF8:
        return ""
    return codec if codec in _WIDE else "".join(decoded(bytes([byte]), name) for byte in range(1, 256))
