"""Columns become wider where a value needs it, as Iceberg allows it."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from calve.columns.evolve import Evolution, plan_evolution
from calve.columns.infer import Inferred
from calve.convert.converter import ConvertedEvents, Converter, ConvertOptions
from calve.table.definition import schema_from_columns
from calve.table.loaded import Table
from kit.tables import table_of

LOOKING = ConvertOptions(look_for_unknown=True)


def table(**columns: str) -> Table:
    found = [
        {"name": name, "type": kind.removesuffix(" required"), "required": kind.endswith(" required")}
        for name, kind in columns.items()
    ]
    return table_of(schema_from_columns(found))


def converted(of: Table, *values: str, options: ConvertOptions = LOOKING) -> ConvertedEvents:
    rows = pa.table({"event": pa.array([value.encode() for value in values], pa.binary())})
    return Converter(of, options).convert(rows)


def plan(of: Table, *values: str, options: ConvertOptions = LOOKING) -> Evolution:
    unknown = converted(of, *values, options=options).unknown
    return (
        plan_evolution(of, msgspec.json.decode(msgspec.json.encode(unknown.encodable()), type=Inferred).root)
        if unknown
        else Evolution()
    )


@pytest.mark.parametrize(
    ("kind", "value", "column", "wider"),
    [
        ("int", "2147483648", "v", "long"),
        ("int", '"-2147483649"', "v", "long"),
        ("int", "3e9", "v", "long"),
        ("float", "1e39", "v", "double"),
        ("decimal(5,2)", "1234.5", "v", "decimal(6, 2)"),
        ("decimal(5,2)", '"123456789012345678901234567890123456.78"', "v", "decimal(38, 2)"),
        ("struct<a: int>", '{"a":2147483648}', "v.a", "long"),
        ("list<int>", "[1,2147483648,null]", "v.element", "long"),
        ("map<string, float>", '{"k":1,"j":1e39}', "v.value", "double"),
        ("list<struct<m: map<string, int>>>", '[{"m":{"k":2147483648}},{}]', "v.element.m.value", "long"),
    ],
)
def test_a_value_that_a_wider_column_holds_asks_for_it_at_any_depth(kind, value, column, wider):
    found = plan(table(v=kind), f'{{"v":{value}}}')
    assert (found.widen, found.add) == ([(column, wider)], [])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "9223372036854775808"), ("int", "0.5"), ("int", '"x"'), ("long", "9223372036854775808"), ("long", "0.5"),
        ("float", "1e400"), ("decimal(5,2)", "0.001"), ("decimal(5,2)", "1e36"), ("boolean", "2"), ("date", "99999999999"),
        ("list<int>", '[2147483648,"x"]'), ("struct<a: int, b: date>", '{"a":2147483648,"b":true}'),
        ("map<int, string>", '{"2147483648":"x"}'), ("int required", "2147483648"), ("struct<a: int required>", '{"a":1e10}'),
    ],
)  # fmt: skip
def test_what_no_wider_column_holds_and_what_is_a_key_asks_for_nothing(kind, value):
    assert plan(table(id="int", v=kind), f'{{"id":1,"v":{value}}}') == Evolution()


def test_a_column_is_only_widened_for_values_and_with_evolution():
    events = ('{"v":2147483647}', '{"v":null}', '{"v":1.0}')
    assert plan(table(v="int"), *events) == Evolution()
    nulled = converted(table(v="int"), '{"v":2147483648}', options=ConvertOptions())
    assert (nulled.unknown, nulled.nulled) == (None, {"v": 1})


def test_the_widest_of_all_values_counts_beside_new_fields():
    found = plan(
        table(d="decimal(4,2)", s="struct<n: int>"),
        '{"d":123.1,"x":true}',
        '{"d":"12345.1","s":{"n":1e9}}',
        '{"s":{"n":1e10,"m":1}}',
    )
    assert sorted(found.widen) == [("d", "decimal(7, 2)"), ("s.n", "long")]
    assert sorted((each.path, each.name) for each in found.add) == [((), "x"), (("s",), "m")]


def test_a_field_matches_its_column_whatever_its_case_where_case_is_ignored():
    options = ConvertOptions(look_for_unknown=True, case_insensitive=True)
    assert plan(table(s="struct<n: int>"), '{"S":{"N":1e10}}', options=options).widen == [("s.n", "long")]
