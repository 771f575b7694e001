"""Decides which rows keep their types: those that Parquet stores without loss."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

__all__ = ["holds"]

_TIMES = (DateType, TimestampNTZType, TimestampType)
_KEYS = (BinaryType, BooleanType, DecimalType, IntegerType, LongType, StringType, *_TIMES)
"""Allowed types of map keys. Floats are excluded: their texts differ, 1.0E10 in Spark and 1e+10 in Arrow."""
_SCALARS = (*_KEYS, DoubleType, FloatType)


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
        return isinstance(kind.keyType, _KEYS) and holds(kind.valueType)
    return isinstance(kind, _SCALARS)
