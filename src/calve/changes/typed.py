"""Decides which rows keep their types: those that Parquet stores without loss."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from calve.table.kinds import Limit, by_spark

__all__ = ["holds"]

_NOT_STORED = ("time", "any", "null", "")


def holds(kind: DataType) -> bool:
    """Return whether Parquet can store the values of a type.

    It cannot store a struct without fields or a column that is always NULL, and Spark cannot write a variant.
    """
    if isinstance(kind, StructType):
        names = kind.names
        is_named = bool(names) and all(names) and len(set(names)) == len(names)
        return is_named and all(holds(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return holds(kind.elementType)
    if isinstance(kind, MapType):
        # texts of floats differ: 1.0E10 in Spark and 1e+10 in Arrow
        is_text = Limit.NO_KEY not in by_spark(kind.keyType.simpleString()).limits
        return is_text and _is_stored(kind.keyType) and holds(kind.valueType)
    return _is_stored(kind)


def _is_stored(kind: DataType) -> bool:
    return by_spark(kind.simpleString()).json not in _NOT_STORED
