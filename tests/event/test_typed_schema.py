"""A Parquet file's rows make a table of its types with its values; pyarrow says what they are, not our code."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from pyiceberg.schema import Schema

from calve.columns.infer import infer
from calve.convert.converter import ConvertedEvents, Converter, ConvertOptions
from calve.event.validate_json import validated
from calve.sources.file.parquet import read_parquet
from calve.sources.file.rows import FileBatches
from calve.table.definition import schema_from_columns
from kit.tables import table_of
from sources.file import texts

TIMES = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
INSTANTS = TIMES.map(lambda value: value.replace(tzinfo=dt.UTC))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
FLOATS = st.floats(width=32)


def _ints(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high) | st.sampled_from([low, high, 0])


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return _ints(-most, most).map(lambda value: Decimal(f"{value}E-{scale}"))


def _uuids(kind: pa.DataType, values: list[Any]) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.binary(16)))


LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any], pa.DataType]] = [
    (pa.bool_(), st.booleans(), pa.bool_()),
    *((kind, _ints(-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1), pa.int32()) for kind in (pa.int8(), pa.int16(), pa.int32())),
    (pa.int64(), _ints(-(2**63), 2**63 - 1), pa.int64()),
    (pa.uint8(), _ints(0, 2**8 - 1), pa.int32()),
    (pa.uint16(), _ints(0, 2**16 - 1), pa.int32()),
    (pa.uint32(), _ints(0, 2**32 - 1), pa.int64()),
    (pa.uint64(), _ints(0, 2**64 - 1), pa.decimal128(20, 0)),
    (pa.float16(), st.floats(width=16), pa.float32()),
    (pa.float32(), FLOATS, pa.float32()),
    (pa.float64(), st.floats(), pa.float64()),
    (pa.decimal128(38, 10), _decimals(38, 10), pa.decimal128(38, 10)),
    (pa.decimal128(38, 38), _decimals(38, 38), pa.decimal128(38, 38)),
    (pa.decimal32(5, 0), _decimals(5, 0), pa.decimal128(5, 0)),
    (pa.decimal256(30, 2), _decimals(30, 2), pa.decimal128(30, 2)),
    (pa.string(), TEXTS, pa.string()),
    (pa.large_string(), TEXTS, pa.string()),
    (pa.string_view(), TEXTS, pa.string()),
    (pa.dictionary(pa.int32(), pa.string()), TEXTS, pa.string()),
    (pa.binary(), st.binary(max_size=5), pa.binary()),
    (pa.large_binary(), st.binary(max_size=5), pa.binary()),
    (pa.binary(5), st.binary(min_size=5, max_size=5), pa.binary(5)),
    (pa.uuid(), st.uuids().map(lambda value: value.bytes), pa.uuid()),
    (pa.date32(), st.dates(), pa.date32()),
    (pa.date64(), st.dates(), pa.date32()),
    (pa.timestamp("ms"), TIMES.map(lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000)), pa.timestamp("us")),
    (pa.timestamp("us"), TIMES, pa.timestamp("us")),
    (pa.timestamp("us", "Europe/Berlin"), INSTANTS, pa.timestamp("us", "UTC")),
]  # fmt: skip
"""Types of a file with their values, and the types of the columns that they become."""

_ALONE = (pa.uuid(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))
Typed = tuple[pa.DataType, st.SearchStrategy[Any], pa.DataType]


def _optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def _list(inner: Typed) -> Typed:
    return pa.list_(inner[0]), st.lists(_optional(inner[1]), max_size=3), pa.list_(inner[2])


def _map(key: Typed, inner: Typed) -> Typed:
    pairs = st.dictionaries(key[1], _optional(inner[1]), max_size=3).map(lambda found: list(found.items()))
    return pa.map_(key[0], inner[0]), pairs, pa.map_(key[2], inner[2])


def _struct(inner: list[Typed]) -> Typed:
    kinds = [pa.struct([(f'f "{n}"', each[at]) for n, each in enumerate(inner)]) for at in (0, 2)]
    values = st.fixed_dictionaries({f'f "{n}"': _optional(each[1]) for n, each in enumerate(inner)})
    return kinds[0], values, kinds[1]


BY = {str(leaf[0]): leaf for leaf in LEAVES}
NESTABLE = [leaf for leaf in LEAVES if leaf[0] not in _ALONE]
"""Types that pyarrow can build and cast inside others."""
KEYS = [BY[name] for name in ("string", "int64", "int32", "date32[day]", "decimal128(38, 10)", "binary", "bool")]
NESTED = st.recursive(
    st.sampled_from(NESTABLE),
    lambda inner: (
        inner.map(_list)
        | st.tuples(st.sampled_from(KEYS), inner).map(lambda pair: _map(*pair))
        | st.lists(inner, min_size=1, max_size=2).map(_struct)
    ),
    max_leaves=4,
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Schema]:
    """Draw a table of a file, and the schema of the table that it becomes."""
    typed = draw(st.lists(st.sampled_from(LEAVES) | NESTED, min_size=1, max_size=4))
    count = draw(st.integers(1, 4))
    columns, expected = [], []
    for number, (kind, values, becomes) in enumerate(typed):
        found = draw(st.lists(_optional(values), min_size=count, max_size=count))
        columns.append(_uuids(kind, found) if kind == pa.uuid() else pa.array(found, kind))
        expected.append(pa.field(f"c{number}", becomes))
    return pa.table(columns, names=[field.name for field in expected]), pa.schema(expected)


def events(rows: pa.Table) -> pa.Table:
    """Write a Parquet file and read it as the source does."""
    out = io.BytesIO()
    parquet.write_table(rows, out, row_group_size=2)
    found = texts.rows(read_parquet(pa.BufferReader(out.getvalue()), FileBatches("f"), 0, out.tell()))
    assert found["malformed"].null_count == len(found)
    return found


def made(rows: pa.Table) -> tuple[Schema, ConvertedEvents]:
    """Give the schema of the table that rows of a file make, and what it then has."""
    found = events(rows)
    schema = infer(validated(found).rows).to_schema()
    return schema, Converter(table_of(schema), ConvertOptions(on_type_mismatch="dlq")).convert(found)


def shown(column: pa.ChunkedArray, kind: pa.DataType) -> list[str]:
    """Show values with the sign of a zero and NaN."""
    column = column if kind == pa.uuid() else column.cast(kind)
    return [repr(value) for value in column.to_pylist()]


@given(tables())
def test_a_file_makes_a_table_of_its_types_with_its_values(drawn: tuple[pa.Table, pa.Schema]) -> None:
    rows, expected = drawn
    _, converted = made(rows)
    assert len(converted.rejects) == 0
    assert converted.nulled == {}
    for name, kind in zip(expected.names, expected.types, strict=True):
        assert same(converted.rows.schema.field(name).type, kind)
        assert shown(converted.rows[name], kind) == shown(rows[name], kind), kind


def same(one: pa.DataType, other: pa.DataType) -> bool:
    """Say whether two types are equal but for how large their values may be."""
    if pa.types.is_nested(one):
        kinds = [pa.types.is_struct, pa.types.is_map]
        alike = [test(one) for test in kinds] == [test(other) for test in kinds]
        parts = range(one.num_fields)
        return (
            alike
            and one.num_fields == other.num_fields
            and all(same(one.field(at).type, other.field(at).type) for at in parts)
        )
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return small.get(one, one) == other


def test_a_whole_column_is_uuid_text_duration_or_null_as_it_was() -> None:
    """What has no random values above: each next to what it becomes."""
    number = uuid.UUID(int=5)
    rows = pa.table(
        {
            "d": pa.array([-1, 86_400_000_000_001, None]).cast(pa.duration("ns")),
            "time": pa.array([dt.time(1, 2, 3, 450_000), dt.time(0), None], pa.time64("us")),
            "n": pa.nulls(3),
            "ns": pa.array([1, 10**18, None]).cast(pa.timestamp("ns", "UTC")),
            "micros": pa.array([1_000, 10**18, None]).cast(pa.timestamp("ns", "UTC")),
            "by": pa.array([[({"x": 1}, 2)], [], None], pa.map_(pa.struct([("x", pa.int8())]), pa.int8())),
            "cat": pa.array(
                [[{"c": "x"}], [], None], pa.list_(pa.struct([("c", pa.dictionary(pa.int32(), pa.string()))]))
            ),
            "view": pa.array([[1, None], [], None], pa.list_view(pa.int8())),
            "two": pa.array([[1.5, math.nan], [0, 1], None], pa.list_(pa.float32(), 2)),
            "u": _uuids(pa.uuid(), [number.bytes, None, None]),
        }
    )
    schema, converted = made(rows)
    assert {each.name: str(each.field_type) for each in schema.fields} == {
        "d": "string",
        "time": "string",
        "ns": "string",
        "micros": "timestamptz",
        "by": "string",
        "cat": "list<struct<11: c: optional string>>",
        "view": "list<int>",
        "two": "list<float>",
        "u": "uuid",
    }
    found = converted.rows.to_pydict()
    assert found["d"] == ["PT-0.000000001S", "PT86400.000000001S", None]
    assert found["time"] == ["01:02:03.45", "00:00:00", None]
    assert found["ns"] == ["1970-01-01T00:00:00.000000001Z", "2001-09-09T01:46:40Z", None]
    assert [value and value.microsecond for value in found["micros"]] == [1, 0, None]
    assert found["by"] == ['[[{"x":1},2]]', "[]", None]
    assert repr(found["two"]) == "[[1.5, nan], [0.0, 1.0], None]"
    assert found["u"] == [number, None, None]


def test_a_text_that_is_not_utf8_is_its_own_rows_reject_only() -> None:
    broken = pa.array([b"a", b"\xff", b"c"]).cast(pa.string(), safe=False)
    _, converted = made(pa.table({"s": broken}))
    assert converted.rows["s"].to_pylist() == ["a", "c"]
    assert converted.rejects["row"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("first", "then", "becomes"),
    [
        (pa.int32(), pa.int64(), "long"),
        (pa.int32(), pa.uint32(), "long"),
        (pa.float32(), pa.float64(), "double"),
        (pa.decimal128(9, 2), pa.decimal128(12, 2), "decimal(12, 2)"),
        (pa.binary(3), pa.binary(3), "fixed[3]"),
        (pa.binary(3), pa.binary(4), "binary"),
        (pa.int64(), pa.uint64(), "decimal(20, 0)"),
        (pa.timestamp("us"), pa.timestamp("ms"), "timestamp"),
        (pa.date32(), pa.string(), "string"),
    ],
)
def test_files_of_two_versions_make_the_least_type_that_holds_both(
    first: pa.DataType, then: pa.DataType, becomes: str
) -> None:
    rows = [events(pa.table({"c": pa.nulls(2, kind)})) for kind in (first, then)]
    schema = infer(pa.concat_tables(rows)).to_schema()
    assert str(schema.find_type("c")) == becomes


def test_a_table_that_is_there_gets_what_its_types_hold_exactly_and_the_rest_is_told() -> None:
    rows = pa.table(
        {
            "i": [2**53 + 1, 2**40],
            "d": pa.array([Decimal("1.50"), Decimal("1.55")], pa.decimal128(5, 2)),
            "t": pa.array([0, 1], pa.timestamp("us")),
            "m": pa.array([[(1, 1)], [(2, 2)]], pa.map_(pa.int32(), pa.int32())),
        }
    )
    columns = {"i": "string", "d": "decimal(4,1)", "t": "date", "m": "map<string,double>"}
    schema = schema_from_columns([{"name": name, "type": kind} for name, kind in columns.items()])
    converted = Converter(table_of(schema)).convert(events(rows))
    assert converted.rows.to_pydict() == {
        "i": ["9007199254740993", "1099511627776"],
        "d": [Decimal("1.5"), None],
        "t": [dt.date(1970, 1, 1), None],
        "m": [[("1", 1.0)], [("2", 2.0)]],
    }
    assert converted.nulled == {"d": 1, "t": 1}


def test_a_repeated_column_is_one_reject_of_the_file_that_says_where() -> None:
    out = io.BytesIO()
    parquet.write_table(pa.table([[1], [2], [3]], names=["a", "b", "a"]), out)
    [batch] = read_parquet(pa.BufferReader(out.getvalue()), FileBatches("f"), 0, out.tell())
    assert batch["malformed"].to_pylist() == [
        "The file f has two columns of the name 'a', the columns 1 and 3; give them unique names"
    ]


@pytest.mark.parametrize("finest", [0, 1])
def test_int96_is_a_moment_of_any_year_and_loses_no_nanosecond(finest: int) -> None:
    """Spark writes its timestamps so, Hive and Impala with nanoseconds."""
    nanos = 1_767_323_045_678_901_000 + finest
    kind = pa.timestamp("ns") if finest else pa.timestamp("us")
    values = pa.array([nanos if finest else nanos // 1_000, None, 0]).cast(kind)
    rows = pa.table({"t": values, "l": pa.array([values.to_numpy(zero_copy_only=False)[:1], None, []], pa.list_(kind))})
    far = None if finest else 253_402_300_799_999_999  # the year 9999, beyond nanoseconds
    rows = (
        rows
        if finest
        else pa.concat_tables([rows, pa.table({"t": pa.array([far]).cast(kind), "l": [None]}, rows.schema)])
    )
    out = io.BytesIO()
    parquet.write_table(rows, out, use_deprecated_int96_timestamps=True)
    found = texts.rows(read_parquet(pa.BufferReader(out.getvalue()), FileBatches("f"), 0, out.tell()))
    schema = infer(found).to_schema()
    shown = [json.loads(event)["t"] for event in found["event"].to_pylist()]
    assert str(schema.find_type("t")) == ("string" if finest else "timestamptz")
    assert shown[0] == "2026-01-02T03:04:05.678901" + ("001Z" if finest else "Z")
    assert finest or shown[3] == "9999-12-31T23:59:59.999999Z"
    assert json.loads(found["event"][0].as_py())["l"] == shown[:1]


def test_an_enum_is_text() -> None:
    """pyarrow writes none, so what a file says of a string (UTF8, STRING) becomes ENUM in its footer."""
    rows, out = pa.table({"e": ["é", "b"], "n": [[1], []]}), io.BytesIO()
    parquet.write_table(rows, out, store_schema=False)
    text = b"\x18\x01e\x25\x00\x4c\x1c\x00\x00"
    data = out.getvalue()
    assert data.count(text) == 1
    data = data.replace(text, b"\x18\x01e\x25\x08\x4c\x4c\x00\x00")
    assert parquet.read_schema(io.BytesIO(data)).field("e").type == pa.binary()
    found = texts.rows(read_parquet(pa.BufferReader(data), FileBatches("f"), 0, len(data)))
    assert [json.loads(event) for event in found["event"].to_pylist()] == rows.to_pylist()
    assert str(infer(found).to_schema().find_type("e")) == "string"
