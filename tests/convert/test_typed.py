"""Typed rows become the very rows that their texts become: the exact converter says which, not our code."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.fields import Fields
from calve.convert.converter import ConvertedEvents, Converter, ConvertOptions
from calve.convert.typed_texts import with_kinds
from calve.event.columns import SCHEMA, TYPED
from calve.event.json_text import to_json
from calve.event.typed import with_text
from calve.event.typed_schema import declaration
from calve.table.arrow_schema import arrow_schema
from kit.examples import examples
from kit.tables import table_of

Values = st.SearchStrategy[Any]
Typed = tuple[pa.DataType, Values]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4).map(str.encode) | st.sampled_from(
    [b"\xff", b"a\xed\xa0\x80", b'\\u0041"\n\0', b"NaN", b"1", b"2026-01-02", b"true", b"YWJj"]
)
FIRST, LAST = -62_135_596_800, 253_402_300_799
DAYS = st.sampled_from([-719_163, -719_162, 2_932_896, 2_932_897, -(2**31), 2**31 - 1, 0]) | st.integers(-1000, 1000)


def optional(values: Values) -> Values:
    return st.none() | values


def ints(kind: pa.DataType) -> Typed:
    low = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (kind.bit_width - 1))
    high = low + 2**kind.bit_width - 1
    return kind, st.sampled_from([low, high, 0, 1]) | st.integers(low, high)


def decimals(kind: pa.DataType) -> Typed:
    most = 10**kind.precision - 1
    values = st.sampled_from([most, -most, 0, 1]) | st.integers(-most, most)
    return kind, values.map(lambda value: Decimal(f"{value}E{-kind.scale}"))


def moments(unit: str, zone: str | None = None) -> Typed:
    second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    edges = [FIRST * second, FIRST * second - 1, (LAST + 1) * second - 1, (LAST + 1) * second, 2**63 - 1, 1 - 2**63]
    inside = [each for each in edges if -(2**63) <= each < 2**63]
    return pa.timestamp(unit, zone), st.sampled_from(inside) | st.integers(-(10**15), 10**15)


LEAVES: list[Typed] = [
    (pa.bool_(), st.booleans()),
    *map(ints, (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (pa.float16(), st.floats(width=16)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    *map(decimals, (pa.decimal128(5, 2), pa.decimal128(38, 10), pa.decimal128(38, 38), pa.decimal32(5, 0))),
    decimals(pa.decimal256(30, 2)),
    *((kind, TEXTS) for kind in (pa.string(), pa.large_string())),
    *((kind, st.binary(max_size=5)) for kind in (pa.binary(), pa.large_binary())),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), DAYS),
    (pa.time64("us"), st.integers(0, 86_400 * 10**6 - 1)),
    (pa.duration("ms"), st.integers(-(10**12), 10**12)),
    *map(moments, ("s", "ms", "us", "ns")),
    moments("us", "Europe/Berlin"),
    (pa.null(), st.none()),
]  # fmt: skip
FLAT: list[Typed] = [
    *LEAVES,
    (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    (pa.uuid(), st.binary(min_size=16, max_size=16)),
    (pa.date64(), DAYS.map(lambda day: day * 86_400_000)),
    (pa.list_(pa.date32(), 2), st.lists(optional(DAYS), min_size=2, max_size=2)),
]
"""With those that pyarrow cannot build inside of others."""
NAMES = ["a", "b", "A", 'f "1"']


def listed(inner: Typed) -> Values:
    kind, values = inner
    lists = st.lists(optional(values), max_size=3)
    return st.sampled_from([(pa.list_(kind), lists), (pa.large_list(kind), lists)])


def mapped(key: Typed, inner: Typed) -> Typed:
    return pa.map_(key[0], inner[0]), st.lists(st.tuples(key[1], optional(inner[1])), max_size=3)


def structured(names: list[str], inner: list[Typed]) -> Typed:
    pairs = list(zip(names, inner, strict=False))
    values = st.fixed_dictionaries({name: optional(each[1]) for name, each in pairs})
    return pa.struct([(name, each[0]) for name, each in pairs]), values


KEYS = [leaf for leaf in LEAVES if not pa.types.is_null(leaf[0])]
NESTED: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        inner.flatmap(listed)
        | st.builds(mapped, st.sampled_from(KEYS), inner)
        | st.builds(structured, st.permutations(NAMES), st.lists(inner, min_size=1, max_size=2))
    ),
    max_leaves=3,
)


def raw(kind: pa.DataType) -> pa.DataType:
    """Return the type that pyarrow builds from any bytes, in place of texts."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(raw(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(raw(kind.key_type), raw(kind.item_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(raw(kind.value_type))
    return pa.list_(raw(kind.value_type)) if pa.types.is_list(kind) else kind


def array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if kind == pa.uuid():
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))
    if pa.types.is_dictionary(kind):
        return array(kind.value_type, values).dictionary_encode()
    found = pa.array(values, raw(kind))
    try:
        found = found.view(kind)
        found.validate()
    except pa.ArrowInvalid:
        reject()  # pyarrow makes a few nested nulls wrong
    return found


PRIMITIVES: list[Callable[[], iceberg.IcebergType]] = [
    iceberg.BooleanType,
    iceberg.IntegerType,
    iceberg.LongType,
    iceberg.FloatType,
    iceberg.DoubleType,
    lambda: iceberg.DecimalType(9, 2),
    lambda: iceberg.DecimalType(38, 12),
    iceberg.DateType,
    iceberg.TimeType,
    iceberg.TimestampType,
    iceberg.TimestamptzType,
    iceberg.TimestampNanoType,
    iceberg.StringType,
    iceberg.UUIDType,
    iceberg.BinaryType,
    lambda: iceberg.FixedType(3),
]
numbers = itertools.count(1).__next__


def column_types(kind: pa.DataType) -> st.SearchStrategy[iceberg.IcebergType]:
    """Draw a column's type: most often one that a value of a type fits into."""
    others = st.sampled_from(PRIMITIVES).map(lambda make: make())
    return st.integers(0, 9).flatmap(lambda luck: fitting(kind) if luck else others)


def fitting(kind: pa.DataType) -> st.SearchStrategy[iceberg.IcebergType]:
    if isinstance(kind, pa.BaseExtensionType):
        return st.just(iceberg.UUIDType())
    if pa.types.is_dictionary(kind):
        return fitting(kind.value_type)
    if pa.types.is_struct(kind):
        return struct_types(list(kind)).map(lambda fields: iceberg.StructType(*fields))
    if pa.types.is_map(kind):
        return st.builds(
            lambda key, value, required: iceberg.MapType(numbers(), key, numbers(), value, required),
            column_types(kind.key_type),
            column_types(kind.item_type),
            st.booleans(),
        )
    if pa.types.is_nested(kind):
        return st.builds(
            lambda element, required: iceberg.ListType(numbers(), element, required),
            column_types(kind.value_type),
            st.booleans(),
        )
    return st.sampled_from(scalar_columns(kind))


def scalar_columns(kind: pa.DataType) -> list[iceberg.IcebergType]:
    if pa.types.is_boolean(kind):
        return [iceberg.BooleanType()]
    if pa.types.is_integer(kind):
        narrow = [iceberg.IntegerType(), iceberg.DecimalType(12, 2)] if kind.bit_width < 32 else []
        return [*narrow, iceberg.LongType(), iceberg.DecimalType(21, 1), iceberg.DecimalType(20, 0)]
    if pa.types.is_floating(kind):
        return [iceberg.DoubleType() if pa.types.is_float64(kind) else iceberg.FloatType()]
    if pa.types.is_decimal(kind):
        wide = iceberg.DecimalType(min(38, kind.precision + 2), min(kind.scale + 1, 38))
        return [iceberg.DecimalType(kind.precision, kind.scale), wide]
    if pa.types.is_date(kind):
        return [iceberg.DateType()]
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return [iceberg.TimestampType(), iceberg.TimestamptzType()]
    if kind == pa.binary(3):
        return [iceberg.FixedType(3), iceberg.BinaryType()]
    return [iceberg.BinaryType() if kind in (pa.binary(), pa.large_binary()) else iceberg.StringType()]


@st.composite
def struct_types(draw: st.DrawFn, fields: list[pa.Field]) -> list[iceberg.NestedField]:
    """Draw the fields of a struct: most often those of rows, in any order, and at times one that rows lack."""
    kept = draw(st.permutations(fields)) if draw(st.integers(0, 3)) else fields[1:] or fields
    columns = [(field.name, draw(column_types(field.type))) for field in kept]
    if draw(st.integers(0, 3)) == 0:
        columns.append(("more", draw(column_types(pa.int32()))))
    return [iceberg.NestedField(numbers(), name, kind, required=draw(st.integers(0, 4)) == 0) for name, kind in columns]


@st.composite
def typed_rows(draw: st.DrawFn) -> pa.Table:
    """Draw rows as a typed source gives them, perhaps a part of a larger array."""
    fields = draw(st.lists(st.sampled_from(FLAT) | NESTED, min_size=1, max_size=3))
    count, first = draw(st.integers(1, 5)), draw(st.integers(0, 2))
    columns = [array(kind, draw(st.lists(optional(values), min_size=count, max_size=count))) for kind, values in fields]
    return rows_of(pa.table(columns, names=NAMES[: len(columns)])).slice(min(first, count - 1))


def rows_of(columns: pa.Table) -> pa.Table:
    text = declaration(columns.schema)
    told = pa.DictionaryArray.from_arrays(pa.array([0] * len(columns), pa.int32()), [text])
    return pa.table({TYPED: columns.to_struct_array(), SCHEMA: told})


OPTIONS = st.builds(
    lambda evolves, **others: ConvertOptions(look_for_unknown=evolves, count_ignored=not evolves, **others),
    st.booleans(),
    on_type_mismatch=st.sampled_from(["null", "dlq"]),
    case_insensitive=st.booleans(),
    fields=st.sampled_from([Fields(), Fields(), Fields(exclude=frozenset("a")), Fields(include=frozenset("ab"))]),
    timestamp_unit=st.sampled_from(["ms", "auto"]),
)


def shown(converted: ConvertedEvents) -> dict[str, Any]:
    """Show all that became of rows; NaN and the sign of a zero count."""
    converted.rows.validate(full=True)
    return {
        "rows": repr(converted.rows.to_pylist()),
        "schema": converted.rows.schema,
        "row": converted.row.to_pylist(),
        "rejects": converted.rejects.to_pylist(),
        "nulled": converted.nulled,
        "unknown": converted.unknown,
        "reasons": converted.reasons,
        "ignored": converted.ignored,
    }


@given(st.data(), typed_rows(), OPTIONS)
@settings(max_examples=examples(50))
def test_typed_rows_become_what_their_texts_become(
    data: st.DataObject, rows: pa.Table, options: ConvertOptions
) -> None:
    fields = data.draw(struct_types(list(rows[TYPED].type)))
    table = table_of(Schema(*fields))
    texts = with_text(with_kinds(rows, arrow_schema(Schema(*fields))))
    straight, by_text = (Converter(table, options).convert(each) for each in (rows, texts))
    assert shown(straight) == shown(by_text)


def test_the_text_of_a_whole_float_has_the_digits_of_its_value() -> None:
    floats = pa.array([257851856.0, -1234567936.0, 16777216.0, 0.1, 1e30, None], pa.float32())
    texts = [json.loads(text)["x"] for text in to_json(pa.table({"x": floats})).to_pylist()]
    assert texts == [257851856.0, -1234567936.0, 16777216.0, 0.1, 1e30, None]
