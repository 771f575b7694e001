"""Makes values of a column comparable, so that Spark can group by them exactly, with the sign of zero.

Spark itself groups -0.0 with 0.0, and cannot group maps and variants; NaN equals NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType, VariantType

__all__ = ["Comparable", "comparable"]

_EXACT = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
}
"""Options to write a nested value as text without loss."""


@dataclass(frozen=True)
class Comparable:
    """Expressions to group by a column, and to restore its value.

    Attributes:
        keys: The expressions to group by; they are equal exactly if the values are the same.
        value: The value, from the columns of the grouped DataFrame.
        aggregate: An aggregate that `value` needs.
    """

    keys: Sequence[Column]
    value: Column
    aggregate: Column | None = None


def comparable(kind: DataType, column: Column, number: int) -> Comparable:
    """Return the expressions to group by the `number`th column."""
    key, extra = f"_key_{number}", f"_extra_{number}"
    if isinstance(kind, (FloatType, DoubleType)):
        zero = f.lit(-0.0).cast(kind)
        is_negative_zero = (column == 0) & (column.cast("string") == "-0.0")
        value = f.when(f.col(extra), zero).otherwise(f.col(key))
        return Comparable([column.alias(key), is_negative_zero.alias(extra)], value)
    if _is_delicate(kind):
        text = f.to_json(f.struct(column.alias("value")), _EXACT)
        absent = column.isNull().alias(f"_absent_{number}")  # a variant's own null has the same text
        return Comparable([text.alias(key), absent], f.col(extra), f.first(column).alias(extra))
    return Comparable([column.alias(key)], f.col(key))


def _is_delicate(kind: DataType) -> bool:
    """Return whether Spark cannot group by such a nested value exactly."""
    if isinstance(kind, StructType):
        return any(_is_delicate(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_delicate(kind.elementType)
    return isinstance(kind, (FloatType, DoubleType, MapType, VariantType))
