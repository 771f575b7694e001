"""Inference over all events of a batch (RFC 6.4)."""

from __future__ import annotations

import json
import random

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types as t
from pyiceberg.schema import Schema

from calve.columns.declared_types import ColumnTypes
from calve.columns.evolve import NewColumn, plan_evolution, unclear
from calve.columns.infer import Inferred, infer
from calve.columns.node import Kind
from calve.convert.converter import Converter, ConvertOptions
from calve.table.definition import schema_from_columns
from convert.events import Maker
from kit.examples import examples
from kit.tables import table_of


def rows_of(*events) -> pa.Table:
    return pa.table({"event": pa.array([e if isinstance(e, bytes) else e.encode() for e in events], pa.binary())})


def columns(inferred: Inferred) -> dict[str, str]:
    return {field.name: str(field.field_type) for field in inferred.to_schema().fields}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-5"], "long"), (["1", "1.5"], "double"), (["1e3"], "double"), (["12.0"], "double"), (["1", '"x"'], "string"),
        (["1.5", '"x"'], "string"), (["true", "false"], "boolean"), (["true", "1"], "string"), (["true", '"x"'], "string"),
        (["9223372036854775807"], "long"), (["9223372036854775808"], "string"), (["-9223372036854775809", "1.5"], "string"),
        (["{}"], "string"), (["[]"], "string"), (["[null]"], "string"), (["{}", '{"a":1}'], "struct<2: a: optional long>"),
        (['{"a":1}', '{"b":"x","a":2.5}'], "struct<2: a: optional double, 3: b: optional string>"),
        (["[]", "[1]"], "list<long>"), (["[1,2.5]", "[null]"], "list<double>"), (['[1,"x"]'], "list<string>"),
        (['[{"a":1},{"b":true}]'], "list<struct<3: a: optional long, 4: b: optional boolean>>"), (['{"a":1}', "1"], "string"),
        (['{"a":1}', "[1]"], "string"), (["{}", "[]"], "string"), (["null", "1"], "long"), (["[[1],[]]"], "list<list<long>>"),
        (['{"a":null}'], "string"), (["9007199254740992", "0.5"], "double"), (["9007199254740993", "0.5"], "string"),
        (["9007199254740993", "1"], "long"), (["0.5", "1", "9007199254740993"], "string"), (["12345678901234567890"], "string"),
        (["0.1234567890123456"], "double"), (["0.12345678901234567890"], "string"), (["1e400"], "string"), (["1e-400"], "string"),
        (["1e99999999999999999999"], "string"), (["0.5", "1e-99999999999999999999"], "string"), (["-0.0E99999999999999999999"], "double"),
        (["1e22"], "double"), (["0.10"], "double"), (["12345678901234567.0"], "string"), (["[1,9007199254740993,0.5]"], "list<string>"),
        (['"2026-01-02T03:04:05Z"', '"2026-01-02 03:04:05.123456000+01:00"', "null"], "timestamptz"), (['"2026-01-02T03:04"'], "timestamp"),
        (['"2026-01-02T03:04:05"', '"2026-01-02 03:04:05.123"', "null"], "timestamp"), (['["2026-01-02T03:04"]', "[]"], "list<timestamp>"),
        (['"2026-01-02T03:04:05"', '"2026-01-02T03:04:05Z"'], "string"), (['"2026-01-02T03:04:05+02:00"', '"2026-01-02T03:04:05"'], "string"),
        (['"2026-01-02T03:04:05"', '"2026-01-02T03:04:05.123456789"'], "string"), (['"2026-01-02T03:04:05"', '"soon"'], "string"),
        (['"2026-01-02T03:04:05Z"', '"soon"'], "string"), (['"2026-01-02T03:04:05Z"', "1"], "string"), (['"2026-01-02"'], "string"),
        (['"2026-01-02T03:04:05.123456789Z"', '"2026-01-02T03:04:05Z"'], "string"), (['"2026-02-29T00:00:00Z"'], "string"),
        (['"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"'], "timestamptz"), (['"0001-01-01T00:00:00+01:00"'], "string"),
        (['"0000-01-01T00:00:00Z"'], "string"), (['"2024-02-29T23:59:59-18:00"'], "timestamptz"), (['"2026-01-02T24:00:00Z"'], "string"),
        (['["2026-01-02T03:04:05Z",null]', "[]"], "list<timestamptz>"), (['["2026-01-02T03:04:05Z","x"]'], "list<string>"),
        (['{"a":"2026-01-02T03:04:05Z"}'] * 3, "struct<2: a: optional timestamptz>"),
        (['[{"a":"2026-01-02T03:04:05Z"}]'] * 2, "list<struct<3: a: optional timestamptz>>"),
        (['[{"a":"2026-01-02T03:04:05Z"},{"a":"x"}]', '[{"a":"2026-01-02T03:04:05Z"}]'], "list<struct<3: a: optional string>>"),
    ],
)  # fmt: skip
def test_types_join_over_all_events(values, expected):
    found = columns(infer(rows_of(*[f'{{"v":{value}}}' for value in values])))["v"]
    assert found.replace("3: ", "2: ").replace("4: ", "3: ") == expected.replace("3: ", "2: ").replace("4: ", "3: ")


@settings(max_examples=examples(15), deadline=None, database=None)
@given(seed=st.integers(0, 2**40))
def test_every_event_fits_the_columns_that_were_inferred_from_it(seed):
    maker = Maker(random.Random(seed))
    schema = maker.schema()
    events = rows_of(*[maker.event(schema) for _ in range(40)])
    made = infer(events).to_schema()
    names = [field.name for field in made.fields]
    if not names or len({name.casefold() for name in names}) < len(names):
        return
    converted = Converter(table_of(made), ConvertOptions(on_type_mismatch="dlq")).convert(events)
    codes = [code for code in converted.rejects["code"].to_pylist() if code not in ("MALFORMED", "NO_MATCHING_FIELDS")]
    halves = [each for each in converted.rejects.to_pylist() if "surrogate" in each["reason"]]
    assert len(codes) == len(halves)


def test_column_types_decide_at_any_depth_and_an_exact_name_wins():
    given = {"*_at": "timestamptz", "total": "decimal(12,2)", "l.element.n": "int", "raw": "map<string, long>"}
    event = '{"total":1,"made_at":1,"l":[{"n":1,"m":1}],"raw":{"a":1},"x":2}'
    schema = infer(rows_of(event)).to_schema(types=ColumnTypes(given))
    assert {name: str(schema.find_type(name)) for name in ("total", "made_at", "l.element.n", "l.element.m", "raw", "x")} == {
        "total": "decimal(12, 2)", "made_at": "timestamptz", "l.element.n": "int", "l.element.m": "long",
        "raw": "map<string, long>", "x": "long",
    }  # fmt: skip
    globs = ColumnTypes({"*": "string", **given})
    assert [str(globs.of(path)) for path in (("total",), ("made_at",))] == ["decimal(12, 2)", "string"]
    new = plan_evolution(
        table_of(Schema(t.NestedField(1, "s", t.StructType()))),
        infer(rows_of('{"s":{"b_at":1},"total":2}')).root,
        types=ColumnTypes(given),
    )
    assert new.add == [NewColumn(("s",), "b_at", "timestamptz"), NewColumn((), "total", "decimal(12, 2)")]


def test_date_times_stay_text_where_settings_say_so():
    found = infer(rows_of('{"a":"2026-01-02T03:04:05Z"}'))
    assert str(found.to_schema(types=ColumnTypes(date_times=False)).fields[0].field_type) == "string"


@settings(max_examples=examples(50), deadline=None, database=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "2026-01-02T03:04:05",
                "2026-01-02T03:04:05Z",
                "2026-01-02 03:04+02",
                "2026-01-02T03:04:05.123456789",
                "2026-01-02",
                "soon",
                "2026-01-02T03:04:05.1",
            ]
        ),
        min_size=1,
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
def test_the_zone_of_a_column_depends_on_no_order_and_no_division_into_tasks(texts, rnd):
    events = [json.dumps({"v": text}) for text in texts]
    expected = columns(infer(rows_of(*events)))
    rnd.shuffle(events)
    at = rnd.randrange(len(events) + 1)
    parts = [infer(rows_of(*part)) for part in (events[:at], events[at:]) if part]
    assert columns(parts[0].merge(parts[-1]) if len(parts) > 1 else parts[0]) == expected
    if all("T" in text or "+" in text for text in texts) and not any("789" in text for text in texts):
        zoned = {text.endswith("Z") or "+" in text for text in texts}
        assert expected["v"] == ("string" if len(zoned) > 1 else "timestamptz" if zoned == {True} else "timestamp")


def test_what_became_text_for_digits_or_mixed_types_is_named():
    events = (
        '{"d":0.12345678901234567890,"m":1,"n":"2026-01-02T03:04:05.123456789Z"}',
        '{"m":"x","s":{"m":1},"t":"x"}',
        '{"s":{"m":true},"z":"2026-01-02T03:04:05"}',
        '{"z":"2026-01-02T03:04:05Z"}',
    )
    root = infer(rows_of(*events)).root
    assert dict(unclear(root, ColumnTypes())) == {
        "d": Kind.DIGITS,
        "m": Kind.MIXED,
        "n": Kind.NANOS,
        "s.m": Kind.MIXED,
        "z": Kind.ZONES,
    }
    assert dict(unclear(root, ColumnTypes({"*": "string"}))) == {}


def test_date_times_in_fields_of_any_name_are_looked_at_together():
    for name in ("", 'f"', "e:", "q'x", "a.b", "$", "*", "[0]"):
        event = json.dumps({name: "2026-01-02T03:04:05Z", "l": [{name: "2026-01-02T03:04:05Z"}]})
        assert infer(rows_of(event, event, event)).root == infer(rows_of(event)).root


def test_a_field_that_is_only_ever_null_is_no_column():
    assert columns(infer(rows_of('{"a":null,"b":1}'))) == {"b": "long"}
    assert not infer(rows_of('{"a":null}'))


def test_columns_are_optional_and_stand_in_the_order_of_the_events():
    schema = infer(rows_of('{"b":null,"c":1}', '{"a":1,"b":2}')).to_schema()
    assert [field.name for field in schema.fields] == ["b", "c", "a"]
    assert not any(field.required for field in schema.fields)


def test_malformed_events_are_passed_over():
    found = infer(rows_of('{"a":1}', "[1]", '{"b":', b"\xff", '{"c":NaN}', '{"d":1,}', "null"))
    assert columns(found) == {"a": "long"}
    assert found.events == 1


@settings(max_examples=examples(15), deadline=None, database=None)
@given(seed=st.integers(0, 2**40), parts=st.integers(1, 5))
def test_inference_does_not_depend_on_how_events_were_divided(seed, parts):
    rnd = random.Random(seed)
    maker = Maker(rnd)
    schema = maker.schema()
    events = [maker.event(schema) for _ in range(20)]
    cuts = sorted(rnd.choices(range(len(events) + 1), k=parts - 1))
    pieces = [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]
    merged = Inferred()
    for piece in pieces:
        merged = merged.merge(
            msgspec.json.decode(msgspec.json.encode(infer(rows_of(*piece)).encodable()), type=Inferred)
        )
    whole = infer(rows_of(*events))
    one_by_one = Inferred()
    for event in events:
        one_by_one = one_by_one.merge(infer(rows_of(event)))
    assert msgspec.json.encode(merged) == msgspec.json.encode(whole) == msgspec.json.encode(one_by_one)


def unknown(columns_, *events, **options):
    schema = schema_from_columns([{"name": n, "type": k} for n, k in columns_.items()])
    converter = Converter(table_of(schema), ConvertOptions(look_for_unknown=True, **options))
    return table_of(schema), converter.convert(rows_of(*events))


def test_unknown_fields_are_found_at_any_depth():
    table, converted = unknown(
        {"a": "int", "s": "struct<x: int>", "l": "list<struct<y: int>>", "m": "map<string, struct<z: int>>"},
        '{"a":1,"n":{"p":1.5}}',
        '{"s":{"x":1,"x2":true},"a":null}',
        '{"l":[{"y":1},{"y2":"t"}]}',
        '{"m":{"k":{"z":1},"j":{"z2":[1]}},"nothing":null}',
        '{"only":1}',
    )
    plan = plan_evolution(table, converted.unknown.root)
    assert [(path, name) for path, name, *_ in plan.add if not path] == [((), "n"), ((), "only")]
    assert {(path, name): kind for path, name, kind, *_ in plan.add if path and name != "z2"} == {
        (("s",), "x2"): "boolean",
        (("l", "element"), "y2"): "string",
    }
    assert (("m", "value"), "z2") in [(path, name) for path, name, *_ in plan.add]
    assert converted.rejects["code"].to_pylist() == ["NO_MATCHING_FIELDS"]


def test_nothing_unknown_is_none():
    assert unknown({"a": "int"}, '{"a":1}', '{"a":null}', '{"a":"x","b":null}', "{}")[1].unknown is None


def test_fields_that_differ_by_case_only_are_known_when_case_is_ignored():
    assert unknown({"a": "int"}, '{"A":1}', case_insensitive=True)[1].unknown is None
    rejects = unknown({"a": "int"}, '{"A":1}')[1].rejects.to_pylist()
    assert [(each["code"], each["field"]) for each in rejects] == [("AMBIGUOUS_FIELD", "A")]


def test_fields_beyond_the_limit_on_columns_reject_their_events_which_decide_no_column():
    events = ['{"a":1,"b":{"c":1,"d":2}}', '{"a":2,"e":5}', '{"a":3,"e":null}', '{"a":4}']
    table, converted = unknown({"a": "int"}, *events, column_limit=3)
    plan = plan_evolution(table, converted.unknown.root, limit=3)
    assert [(path, name) for path, name, *_ in plan.add] == [((), "e")]
    assert converted.rejects["row"].to_pylist() == [0]
    evolved = {"a": "int", "b": "struct<c: long>"}
    _, converted = unknown(evolved, *events, column_limit=3)
    assert converted.unknown is None
    assert converted.rejects.to_pylist() == [
        {"row": 0, "code": "TOO_MANY_COLUMNS", "field": "b.d", "reason": converted.rejects["reason"][0].as_py()},
        {"row": 1, "code": "TOO_MANY_COLUMNS", "field": "e", "reason": converted.rejects["reason"][0].as_py()},
    ]
    assert converted.rows["a"].to_pylist() == [3, 4]


def test_planning_again_after_the_columns_came_plans_nothing():
    _, converted = unknown({"a": "int"}, '{"a":1,"b":{"c":1}}')
    evolved = table_of(Schema(t.NestedField(1, "b", t.StructType(t.NestedField(2, "c", t.LongType(), False)), False)))
    assert plan_evolution(evolved, converted.unknown.root).add == []
