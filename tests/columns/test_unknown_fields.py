"""Fields without a column are counted by event and path, and their number is bounded."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from calve.convert.converter import ConvertedEvents, Converter, ConvertOptions
from calve.observe.tally import MOST_NAMES, OTHERS
from calve.table.definition import schema_from_columns
from kit.tables import table_of

COLUMNS = [
    {"name": "a", "type": "long"},
    {"name": "in", "type": "struct<b: long, deep: struct<c: long>>"},
    {"name": "list", "type": "list<struct<d: long>>"},
    {"name": "map", "type": "map<string, struct<e: long>>"},
]


def convert(columns, *events: str, **options) -> ConvertedEvents:
    rows = pa.table({"event": pa.array([event.encode() for event in events], pa.binary())})
    return Converter(table_of(schema_from_columns(columns)), ConvertOptions(count_ignored=True, **options)).convert(
        rows
    )


@pytest.mark.parametrize(
    ("event", "ignored"),
    [
        ('{"a":1}', []),
        ('{"a":1,"new":null}', ["new"]),
        ('{"a":1,"in":{"b":1,"new":{"x":2},"deep":{"y":3}}}', ["in.new", "in.deep.y"]),
        ('{"a":1,"list":[{"d":1},{"x":1},{"x":2}]}', ["list.element.x"]),
        ('{"a":1,"map":{"x":{"e":1},"y":{"x":2}}}', ["map.value.x"]),
        ('{"a":"1.0","new":1}', ["new"]),
        ('{"a":"much","new":1,"in":{"x":1}}', ["new", "in.x"]),
        ('{"a":1,"half \\ud800":2}', ["half \\ud800"]),
        (f'{{"a":1,"{"n" * 1000}":2}}', ["n" * 100 + "…"]),
    ],
)
def test_a_field_without_a_column_is_counted_once_for_each_event(event, ignored):
    assert convert(COLUMNS, event, event, '{"a":1}').ignored == dict.fromkeys(ignored, 2)


@pytest.mark.parametrize("evolves", [False, True])
@pytest.mark.parametrize(
    ("event", "ignored"),
    [
        ('{"a":1,"a":2}', ["a (repeated)"]),
        ('{"a":1,"a":2,"a":3}', ["a (repeated)"]),
        ('{"in":{"b":1,"deep":{"c":1,"c":2}}}', ["c (repeated)"]),
        ('{"list":[{"d":1},{"d":1,"d":2}]}', ["d (repeated)"]),
        ('{"map":{"x":{"e":1},"x":{"e":2}}}', ["x (repeated)"]),
        ('{"in":{"b":1,"b":2},"in":{"b":3}}', ["in (repeated)"]),
        ('{"a":1,"s":{"x":1,"x":2}}', ["x (repeated)"]),
        ('{"a":1,"s":"{\\"x\\":1,\\"x\\":2}"}', []),
    ],
)
def test_a_key_that_is_repeated_is_counted_as_its_first_values_are_not_written(event, ignored, evolves):
    options = ConvertOptions(look_for_unknown=evolves, count_ignored=not evolves)
    converter = Converter(table_of(schema_from_columns([*COLUMNS, {"name": "s", "type": "string"}])), options)
    rows = pa.table({"event": pa.array([event.encode(), b'{"a":1}', event.encode()], pa.binary())})
    assert converter.convert(rows).ignored == dict.fromkeys(ignored, 2)


def test_an_event_that_is_rejected_ignores_nothing():
    columns = [{"name": "a", "type": "long", "required": True}]
    found = convert(columns, '{"a":"x","new":1}', '{"new":1}', '{"a":1,"a":2,"new":1}', '{"a":1,"new":1}')
    assert (found.ignored, len(found.rejects)) == ({"new": 2, "a (repeated)": 1}, 2)


def test_what_is_left_out_on_purpose_is_not_counted():
    converter = Converter(table_of(schema_from_columns(COLUMNS)))
    assert converter.convert(pa.table({"event": pa.array([b'{"a":1,"new":2}'])})).ignored == {}


def test_beyond_some_names_fields_are_one_count_and_none_is_lost():
    events = [json.dumps({"a": 1, f"key{number}": 2}) for number in range(MOST_NAMES * 5)] * 2
    ignored = convert([COLUMNS[0]], *events).ignored
    assert (len(ignored), sum(ignored.values())) == (MOST_NAMES + 1, MOST_NAMES * 10)
    assert ignored[OTHERS] == MOST_NAMES * 8


def test_the_reason_of_the_first_value_that_became_null_is_kept():
    found = convert(COLUMNS, '{"a":1}', '{"a":"much"}', '{"a":"more"}', '{"a":1,"in":{"deep":{"c":true}}}')
    assert (found.nulled, found.reasons) == (
        {"a": 2, "in": 1},
        {"a": "'much' is not a valid long", "in": "deep.c: true is not a valid long"},
    )
