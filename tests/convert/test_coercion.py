"""Every line of the RFC's coercion table (6.3), and the edges that the design settles (section 4)."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg import types as t
from pyiceberg.schema import Schema

from calve.convert.converter import Converter, ConvertOptions
from calve.errors import ConvertError
from calve.table.definition import schema_from_columns
from calve.table.loaded import Table
from kit.tables import plain_rows, table_of


def convert(columns, *events, **options):
    schema = schema_from_columns([{"name": n, "type": k, "required": n.endswith("!")} for n, k in columns.items()])
    rows = pa.table({"event": pa.array([e.encode() if isinstance(e, str) else e for e in events], pa.binary())})
    return Converter(table_of(schema), ConvertOptions(**options)).convert(rows)


def value(kind, text):
    converted = convert({"v": kind}, f'{{"v":{text}}}')
    assert not converted.rejects.num_rows
    return plain_rows(converted.rows)[0]["v"], converted.nulled


COERCED = [
    ("int", "7", 7), ("int", '"12"', 12), ("long", "9007199254740993", 9007199254740993), ("long", "12.0", 12),
    ("long", "1e3", 1000), ("long", '"9223372036854775807"', 2**63 - 1),
    ("float", "1.5", 1.5), ("float", '"1.5"', 1.5), ("double", "1.1", 1.1), ("double", '"-2e3"', -2000.0), ("double", "3", 3.0),
    ("decimal(9,2)", "1.10", 110), ("decimal(9,2)", '"1.1"', 110), ("decimal(9,2)", "7", 700), ("decimal(9,2)", "1.100", 110),
    ("decimal(38,20)", "0.12345678901234567890", 12345678901234567890),
    ("boolean", "true", True), ("boolean", '"false"', False), ("boolean", '"TRUE"', True),
    ("string", '"x"', "x"), ("string", "1.10", "1.10"), ("string", "1E400", "1E400"), ("string", "-0", "-0"),
    ("string", "true", "true"), ("string", '{"a": [1.0, null]}', '{"a":[1.0,null]}'), ("string", "[ ]", "[]"),
    ("timestamp", '"2026-03-01T12:00:00.123456"', 1772366400123456), ("timestamp", '"2026-03-01T12:00:00+02:00"', 1772359200000000),
    ("timestamp", "1772366400123", 1772366400123000), ("timestamptz", '"2026-03-01T12:00:00Z"', 1772366400000000),
    ("timestamptz", '"2026-03-01 12:00"', 1772366400000000), ("timestamptz", '"2026-03-01T12:00:00+0200"', 1772359200000000),
    ("timestamptz", '"2026-03-01"', 1772323200000000), ("timestamp_ns", '"2026-03-01T12:00:00.123456789"', 1772366400123456789),
    ("timestamptz_ns", "1772366400123", 1772366400123000000), ("timestamp", '"2026-03-01T12:00:00.1234560"', 1772366400123456),
    ("date", '"2026-03-01"', 20513), ("date", "20513", 20513), ("date", '"2026-03-01T00:00:00Z"', 20513),
    ("timestamptz", "253402300799999", 253402300799999000), ("timestamptz", "-62135596800000", -62135596800000000),
    ("date", "2932896", 2932896), ("date", '"0001-01-01"', -719162), ("timestamp_ns", "9223372036854", 9223372036854000000),
    ("time", '"12:00:00.5"', 43200500000), ("time", "1500", 1500000), ("time", '"12:30"', 45000000000),
    ("binary", '"YWJj"', b"abc"), ("fixed[3]", '"YWJj"', b"abc"),
    ("uuid", '"550e8400-e29b-41d4-a716-446655440000"', bytes.fromhex("550e8400e29b41d4a716446655440000")),
    ("uuid", '"550E8400E29B41D4A716446655440000"', bytes.fromhex("550e8400e29b41d4a716446655440000")),
    ("struct<a: int, b: string>", '{"a":"1","b":2.50}', {"a": 1, "b": "2.50"}), ("struct<a: int>", "{}", {"a": None}),
    ("list<int>", '[1,"2",null]', [1, 2, None]), ("map<string, long>", '{"x":1,"y":null}', [("x", 1), ("y", None)]),
    ("map<int, string>", '{"1":"x"}', [(1, "x")]), ("double", '"NaN"', float("nan")), ("double", '"-Infinity"', float("-inf")),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "expected"), COERCED, ids=[f"{k} from {v}" for k, v, _ in COERCED])
def test_a_value_that_fits_is_written_exactly(kind, text, expected):
    got, nulled = value(kind, text)
    assert repr(got) == repr(expected)
    assert nulled == {}


NOT_COERCIBLE = [
    ("int", "2147483648"), ("int", "12.5"), ("int", '"12.5"'), ("int", "true"), ("long", "9223372036854775808"), ("long", '"0x10"'),
    ("long", '"1_000"'), ("long", '" 1"'), ("long", "{}"), ("double", "1e400"), ("double", '"inf"'), ("double", '"0x10"'),
    ("double", "true"), ("float", "3.5e38"), ("decimal(9,2)", "1.123"), ("decimal(9,2)", "12345678.9"), ("boolean", "1"),
    ("boolean", '"yes"'), ("string", '"\\ud800"'), ("timestamp", '"2026-03-01T12:00:00.1234567"'), ("timestamp", '"infinity"'),
    ("timestamp", '"2026-02-30T00:00:00"'), ("timestamp", '"24:00"'), ("timestamp", '"2026-03-01T24:00:00Z"'), ("date", '"2026-03-01T01:00:00"'),
    ("date", "1.5"), ("time", "86400000"), ("time", '"24:00:00"'), ("binary", '"YWI"'), ("binary", "12"), ("fixed[2]", '"YWJj"'),
    ("uuid", '"550e8400"'), ("struct<a: int>", "1"), ("struct<a: int required>", "{}"), ("struct<a: int>", '{"a":"x"}'),
    ("timestamp", "253402300800000"), ("timestamptz", "-62135596800001"), ("timestamptz", "1700000000000000"), ("date", "2932897"),
    ("date", "-719163"), ("timestamptz", '"0001-01-01T00:00:00+01:00"'), ("timestamp", '"9999-12-31T23:30:00-01:00"'),
    ("date", "1700000000000"), ("timestamp_ns", "9223372036855"), ("timestamptz_ns", '"2263-01-01T00:00:00Z"'), ("timestamp", "1e400"),
    ("list<int>", '[1,"x"]'), ("list<int>", "{}"), ("map<int, string>", '{"x":"y"}'), ("map<int, string>", '{"1":"a","01":"b"}'),
    ("map<float, int>", '{"0.1":1,"0.1000000001":2}'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text"), NOT_COERCIBLE, ids=[f"{k} from {v}" for k, v in NOT_COERCIBLE])
def test_a_value_that_does_not_fit_is_null_and_counted_or_rejected(kind, text):
    assert value(kind, text) == (None, {"v": 1})
    for converted in (
        convert({"v": kind}, f'{{"v":{text}}}', on_type_mismatch="dlq"),
        convert({"v!": kind}, f'{{"v!":{text}}}'),
    ):
        assert converted.rejects["code"].to_pylist() == ["NOT_COERCIBLE"]
        assert converted.rejects["field"][0].as_py().startswith("v")
        assert converted.rows.num_rows == 0


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("timestamptz", "1700000000000000", "is outside of the years 1 to 9999, the range of type timestamptz: "
         "a number is read as epoch milliseconds, and seems to be epoch microseconds: set timestamp_unit: us"),
        ("timestamp_ns", "1700000000000000000", "is outside of the years 1677 to 2262, the range of type timestamp_ns: "
         "a number is read as epoch milliseconds, and seems to be epoch nanoseconds: set timestamp_unit: ns"),
        ("date", "1700000000000", "is outside of the years 1 to 9999, the range of type date: "
         "a number is read as days since 1970"),
        ("timestamp", '"9999-12-31T23:59:59-01:00"', "is outside of the years 1 to 9999, the range of type timestamp"),
    ],
)  # fmt: skip
def test_a_time_that_readers_do_not_know_tells_what_it_was_read_as(kind, text, reason):
    [reject] = convert({"v": kind}, f'{{"v":{text}}}', on_type_mismatch="dlq").rejects.to_pylist()
    assert reject["reason"] == f"{json.loads(text)} {reason}"


def test_extra_fields_are_ignored():
    converted = convert({"a": "int"}, '{"a":1,"x":{"y":[1]}}')
    assert converted.rows.to_pylist() == [{"a": 1}]
    assert converted.unknown is None


def test_a_missing_optional_field_is_null():
    assert convert({"a": "int", "b": "string"}, '{"a":1}').rows.to_pylist() == [{"a": 1, "b": None}]


@pytest.mark.parametrize("event", ['{"a":1}', '{"a":1,"id!":null}'])
def test_a_missing_or_null_required_field_rejects(event):
    converted = convert({"a": "int", "id!": "long"}, event)
    assert [(r["code"], r["field"]) for r in converted.rejects.to_pylist()] == [("REQUIRED_MISSING", "id!")]


@pytest.mark.parametrize("event", ["{}", '{"x":1}'])
def test_an_event_without_a_matching_field_is_rejected(event):
    assert convert({"a": "int"}, event).rejects["code"].to_pylist() == ["NO_MATCHING_FIELDS"]


@pytest.mark.parametrize(
    "event",
    ["", "[1]", "null", '"x"', '{"a":1', '{"a":NaN}', '{"a":1,}', '{"b":[1,]}', b"\xff", None, '{"b":-Infinity}'],
)
def test_what_is_no_json_object_is_malformed_and_disturbs_nobody(event):
    converted = convert({"a": "int"}, '{"a":1}', event, '{"a":2}')
    assert converted.rejects["code"].to_pylist() == ["MALFORMED"]
    assert converted.row.to_pylist() == [0, 2]
    assert converted.rows["a"].to_pylist() == [1, 2]


def test_the_last_of_duplicate_fields_wins():
    assert convert({"a": "int"}, '{"a":1,"a":2}').rows.to_pylist() == [{"a": 2}]
    assert convert({"a": "struct<b: int>"}, '{"a":{"b":1,"b":3}}').rows.to_pylist() == [{"a": {"b": 3}}]


def test_names_match_by_name_first_then_ignoring_case_and_a_collision_is_rejected():
    columns = {"id": "int", "v": "string"}
    assert convert(columns, '{"ID":1,"v":"x"}').rows.to_pylist() == [{"id": None, "v": "x"}]
    assert convert(columns, '{"ID":1,"v":"x"}', case_insensitive=True).rows.to_pylist() == [{"id": 1, "v": "x"}]
    for event in ('{"ID":1,"Id":2}', '{"id":1,"ID":2}'):
        assert convert(columns, event, case_insensitive=True).rejects["code"].to_pylist() == ["AMBIGUOUS_FIELD"]


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [("struct<b: int>", '{"B":1,"b":2}', "v.b"), ("list<struct<b: int>>", '[{"B":1,"b":2}]', "v.element.b")],
)
def test_a_collision_inside_a_value_is_named_by_its_path(kind, text, path):
    converted = convert({"v": kind}, f'{{"v":{text}}}', case_insensitive=True)
    assert [(r["code"], r["field"]) for r in converted.rejects.to_pylist()] == [("AMBIGUOUS_FIELD", path)]


def test_a_reason_shows_at_most_a_hundred_characters_of_a_value():
    converted = convert({"a!": "int"}, json.dumps({"a!": "x" * 5000}))
    assert len(converted.rejects["reason"][0].as_py()) < 150


def test_rows_have_the_arrow_schema_of_the_table_with_field_ids():
    converted = convert({"a": "decimal(9,2)", "b": "list<uuid>"}, '{"a":1.5,"b":["550e8400e29b41d4a716446655440000"]}')
    assert converted.rows.schema.field("a").metadata == {b"PARQUET:field_id": b"1"}
    assert converted.rows["a"].to_pylist() == [Decimal("1.50")]
    converted.rows.validate(full=True)


def test_columns_whose_names_differ_by_case_only_each_get_their_value():
    assert convert({"a": "int", "A": "int"}, '{"a":1,"A":2}').rows.to_pylist() == [{"a": 1, "A": 2}]


@pytest.mark.parametrize("kind", ["geometry", "variants"])
def test_a_table_with_a_type_that_cannot_be_written_is_a_clear_error(kind):
    text = Schema(t.NestedField(1, "v", t.StringType(), required=False)).model_dump_json()
    table = Table("ns.t", "u", "file:///t", text.replace('"string"', f'"{kind}"'), "{}")
    with pytest.raises(ConvertError, match=r"ns\.t has a type that cannot be written|type geometry"):
        Converter(table)


def test_a_map_with_variants_as_keys_is_a_clear_error():
    schema = schema_from_columns([{"name": "m", "type": "map<string, int>"}])
    table = table_of(schema)
    with pytest.raises(ConvertError, match=r"ns\.t has a type that cannot be written"):
        Converter(replace(table, schema_json=table.schema_json.replace('"string"', '"variant"')))


def test_no_events_are_no_rows():
    assert convert({"a": "int"}).rows.num_rows == 0


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("float", "16777216", 16777216.0), ("float", "16777217", None), ("float", '"16777217"', None), ("float", "-16777217.0", None),
        ("float", "16777218", 16777218.0), ("float", "0.1", pytest.approx(0.1)), ("float", "1.6777217e7", 16777216.0),
        ("float", "1.23456794E9", 1234567936.0), ("double", "16777217", 16777217.0), ("double", "9007199254740993", None),
        ("double", "9007199254740993.0", None), ("double", "9007199254740992.0", 9007199254740992.0), ("double", "1e23", 1e23),
        ("double", "0.1", 0.1), ("list<float>", "[1,16777217]", None), ("struct<a: float>", '{"a":16777217}', None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mismatch", ["null", "dlq"])
def test_a_whole_number_is_exact_or_not_coercible_and_a_fraction_is_rounded(kind, text, value, mismatch):
    found = convert({"v": kind}, f'{{"v":{text}}}', on_type_mismatch=mismatch)
    if value is None and mismatch == "dlq":
        assert found.rejects["code"].to_pylist() == ["NOT_COERCIBLE"]
    else:
        assert found.rows["v"].to_pylist() == [value]


def test_a_float_column_that_can_grow_becomes_a_double_for_a_whole_number():
    found = convert({"v": "float"}, '{"v":16777217}', look_for_unknown=True)
    assert found.unknown.root.fields["v"].kind == "double"
