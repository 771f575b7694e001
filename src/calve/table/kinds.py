"""One row per Iceberg type: its names, Arrow type, JSON, bytes, limits, and its code in the compiled core.

`struct`, `list` and `map` have no row: they are what their parts are. To add a type, add a row. A new form in `Json`,
`Bound` or `Wider` needs an answer in the modules that mypy then names; a type that has only old ones needs no more.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pyiceberg import types as iceberg

from calve.table.schema import VariantType

__all__ = [
    "METADATA", "OTHER", "PRIMITIVES", "VALUE", "VARIANT", "Bound", "Json", "Limit", "Primitive", "Wider", "by_arrow",
    "by_spark", "named", "primitive", "widest_type",
]  # fmt: skip

METADATA, VALUE = "metadata", "value"
"""The two parts of a variant, by their Parquet names."""
VARIANT = pa.struct(
    [pa.field(METADATA, pa.large_binary(), nullable=False), pa.field(VALUE, pa.large_binary(), nullable=False)]
)
"""A variant in Arrow: no field ids inside (Iceberg specification, appendix A)."""
Json: TypeAlias = Literal[
    "boolean", "integer", "float", "double", "decimal", "date", "time", "timestamp", "string", "uuid", "base64", "any",
    "null", "",
]  # fmt: skip
"""The form of values in events, in (`convert.scalar`) and out (`changes.record`); empty: Calve reads none."""
Bound: TypeAlias = Literal["<?", "<i", "<q", "<f", "<d", "unscaled", "text", "bytes", "whole", ""]
"""The form of a bound (Iceberg specification, appendix D): packed, of a decimal, cut, or never cut; empty: none."""
Wider: TypeAlias = Literal["long", "double", "digits", ""]
"""What Iceberg can widen a column to without rewriting it: `digits` is the same scale; empty: to nothing."""
_MOST_DIGITS = 38
_UNITS = {"us": 10**6, "ns": 10**9}


class Limit(enum.Flag):
    """What cannot be done with a type, by Iceberg 1.12 and its readers."""

    NONE = 0
    NO_KEY = enum.auto()  # by Iceberg: -0.0 and 0.0, which databases hold for one value, would be two
    NO_DELETE_KEY = enum.auto()  # Java has a delete file's values in one buffer: all keys become the last one
    NO_IDENTITY = enum.auto()  # PyIceberg, iceberg-rust and DuckDB cannot read tables partitioned by its values
    NO_MERGE = enum.auto()  # Spark has no such type, or MERGE cannot write it
    NO_ORDER = enum.auto()  # Java compares UUIDs as signed numbers: by bounds it would skip files that hold the value
    PARQUET_ONLY = enum.auto()  # Iceberg writes it into no other files
    NO_ELEMENT = enum.auto()  # Spark's vectorized reader fails on it in lists and maps
    ALWAYS_NULL = enum.auto()  # cannot be required, nor partition a table


@dataclass(frozen=True)
class Primitive:
    """What Calve knows of a type."""

    text: str  # in settings; capitals are numbers
    kind: type[iceberg.IcebergType]
    arrow: Any  # the type of a table's columns, or its function of the Iceberg type
    json: Json
    bound: Bound
    spark: str  # in Spark SQL; Iceberg's own name where Spark has none
    field: str  # in the schema of rows that Spark read from a table (`event.envelope.schema.Field`)
    core: str  # for the compiled core (`core/src/spec.rs`); empty: rows with such a column are converted in Python
    wider: Wider
    limits: Limit

    @property
    def word(self) -> str:
        """The text without numbers."""
        return _word(self.text)

    @property
    def per_second(self) -> int:
        """The units in a second of a time or timestamp; of all others 0."""
        return _UNITS.get(getattr(self.arrow, "unit", ""), 0)

    @property
    def is_zoned(self) -> bool:
        """Whether it is a timestamp in UTC, not one without a zone."""
        return bool(getattr(self.arrow, "tz", None))

    @property
    def is_date_time(self) -> bool:
        """Whether it is a date or a timestamp."""
        return self.json in ("date", "timestamp")


def _word(text: str) -> str:
    return text.partition("(")[0].partition("[")[0]


# fmt: off
PRIMITIVES = (
    Primitive("boolean", iceberg.BooleanType, pa.bool_(), json="boolean", bound="<?",
        spark="boolean", field="boolean", core="boolean", wider="", limits=Limit.NONE),
    Primitive("int", iceberg.IntegerType, pa.int32(), json="integer", bound="<i",
        spark="int", field="int32", core="int", wider="long", limits=Limit.NONE),
    Primitive("long", iceberg.LongType, pa.int64(), json="integer", bound="<q",
        spark="bigint", field="int64", core="long", wider="", limits=Limit.NONE),
    Primitive("float", iceberg.FloatType, pa.float32(), json="float", bound="<f",
        spark="float", field="float", core="float", wider="double", limits=Limit.NO_KEY),
    Primitive("double", iceberg.DoubleType, pa.float64(), json="double", bound="<d",
        spark="double", field="double", core="double", wider="", limits=Limit.NO_KEY),
    Primitive("date", iceberg.DateType, pa.date32(), json="date", bound="<i",
        spark="date", field="date", core="date", wider="", limits=Limit.NONE),
    Primitive("time", iceberg.TimeType, pa.time64("us"), json="time", bound="<q",
        spark="time", field="string", core="time", wider="", limits=Limit.NO_MERGE),
    Primitive("timestamp", iceberg.TimestampType, pa.timestamp("us"), json="timestamp", bound="<q",
        spark="timestamp_ntz", field="timestamp", core="timestamp", wider="", limits=Limit.NONE),
    Primitive("timestamptz", iceberg.TimestamptzType, pa.timestamp("us", "UTC"), json="timestamp", bound="<q",
        spark="timestamp", field="timestamptz", core="timestamp", wider="", limits=Limit.NONE),
    Primitive("timestamp_ns", iceberg.TimestampNanoType, pa.timestamp("ns"), json="timestamp", bound="<q",
        spark="timestamp_ns", field="string", core="timestamp", wider="", limits=Limit.NO_MERGE),
    Primitive("timestamptz_ns", iceberg.TimestamptzNanoType, pa.timestamp("ns", "UTC"), json="timestamp", bound="<q",
        spark="timestamptz_ns", field="string", core="timestamp", wider="", limits=Limit.NO_MERGE),
    Primitive("string", iceberg.StringType, pa.large_string(), json="string", bound="text",
        spark="string", field="string", core="string", wider="", limits=Limit.NONE),
    Primitive("uuid", iceberg.UUIDType, pa.uuid(), json="uuid", bound="whole",
        spark="uuid", field="uuid", core="uuid", wider="", limits=Limit.NO_ORDER),
    Primitive("binary", iceberg.BinaryType, pa.large_binary(), json="base64", bound="bytes",
        spark="binary", field="bytes", core="binary", wider="", limits=Limit.NONE),
    Primitive("variant", VariantType, VARIANT, json="any", bound="", spark="variant",
        field="string", core="", wider="", limits=Limit.NO_KEY | Limit.NO_ELEMENT | Limit.PARQUET_ONLY),
    Primitive("unknown", iceberg.UnknownType, pa.null(), json="null", bound="",
        spark="void", field="null", core="unknown", wider="", limits=Limit.NO_MERGE | Limit.ALWAYS_NULL),
    Primitive("decimal(P,S)", iceberg.DecimalType, lambda kind: pa.decimal128(*kind.root), json="decimal",
        bound="unscaled", spark="decimal", field="decimal", core="decimal", wider="digits", limits=Limit.NONE),
    Primitive("fixed[L]", iceberg.FixedType, lambda kind: pa.binary(len(kind)), json="base64", bound="whole",
        spark="fixed", field="fixed", core="fixed", wider="", limits=Limit.NO_DELETE_KEY | Limit.NO_IDENTITY),
)
OTHER = Primitive("", iceberg.IcebergType, pa.large_binary(), json="", bound="",
    spark="", field="string", core="", wider="", limits=Limit.NONE)
# fmt: on
"""What nested types have, and types that Calve does not write: geometry, geography."""
_BY_TYPE: dict[type[iceberg.IcebergType], Primitive] = {row.kind: row for row in PRIMITIVES}
_BY_WORD = {row.word: row for row in PRIMITIVES}
_BY_SPARK = {row.spark: row for row in PRIMITIVES}


def primitive(kind: iceberg.IcebergType) -> Primitive:
    """Return the row of a type, or `OTHER`."""
    return _BY_TYPE.get(type(kind), OTHER)


def named(text: str) -> Primitive:
    """Return the row of a type by its text in a schema, or `OTHER`."""
    return _BY_WORD.get(_word(text), OTHER)


def by_arrow(kind: pa.DataType) -> Primitive:
    """Return the row of a type without numbers by its Arrow type, or `OTHER`."""
    return next((row for row in PRIMITIVES if row.arrow == kind), OTHER)


def by_spark(text: str) -> Primitive:
    """Return the row of a type by its name in Spark SQL, or `OTHER`."""
    return _BY_SPARK.get(_word(text), OTHER)


def widest_type(kind: Any) -> iceberg.IcebergType:
    """Return the widest type that Iceberg can change a type to; for most types that is itself."""
    wider = primitive(kind).wider
    if wider == "digits":
        return iceberg.DecimalType(_MOST_DIGITS, kind.scale)
    return named(wider).kind() if wider else kind
