"""Which rows are written down with their types: Parquet holds them, and gives back what Iceberg has."""

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
"""What keys of a map may be: the texts of floats are others, 1.0E10 from Spark and 1e+10 from Arrow."""
_SCALARS = (*_KEYS, DoubleType, FloatType)


def holds(kind: DataType) -> bool:
    """Return whether Parquet holds the values of a type.

    It has no struct without fields, no column that is always NULL, and Spark cannot write a variant.
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
