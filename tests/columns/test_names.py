"""Fields that cannot become columns of their own, and values that are nested too deeply for one."""

from __future__ import annotations

import json

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from calve.columns.evolve import plan_evolution
from calve.columns.infer import Inferred, infer
from calve.convert.converter import ConvertedEvents, Converter, ConvertOptions
from calve.event.column_names import COLUMN_LIMIT, folded
from calve.event.validate_json import validated
from calve.table.schema import read_schema
from kit.tables import plain_rows, table_of


def rows_of(*events) -> pa.Table:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in events]
    return pa.table({"event": pa.array([text.encode() for text in texts], pa.binary())})


def created(*events, **options) -> Schema:
    """The schema that Calve creates for events, after the way of their inference from a task to the driver."""
    return msgspec.json.decode(msgspec.json.encode(infer(rows_of(*events)).encodable()), type=Inferred).to_schema(
        **options
    )


def names(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields]


def evolved(schema: Schema, rows: pa.Table, **options) -> tuple[Schema, ConvertedEvents]:
    """The schema after the passes that events need, and what becomes of the events then."""
    ci = options.get("case_insensitive", False)
    for _ in range(5):
        table = table_of(schema)
        converted = Converter(table, ConvertOptions(look_for_unknown=True, **options)).convert(rows)
        if converted.unknown is None:
            return schema, converted
        plan = plan_evolution(table, converted.unknown.root, case_insensitive=ci)
        assert plan.add
        schema = with_columns(schema, plan.add)
    raise AssertionError("the events never fit")


def with_columns(schema: Schema, add) -> Schema:
    data = json.loads(schema.model_dump_json())
    ids = iter(range(1_000, 10_000))
    for path, name, kind, *_ in add:
        struct = data
        for step in path:
            if struct["type"] == "struct":
                struct = next(each["type"] for each in struct["fields"] if each["name"] == step)
            else:
                struct = struct[step]
        struct["fields"].append({"id": next(ids), "name": name, "required": False, "type": renumbered(kind, ids)})
    return read_schema(json.dumps(data))


def renumbered(kind, ids):
    if isinstance(kind, list):
        return [renumbered(each, ids) for each in kind]
    if not isinstance(kind, dict):
        return kind
    return {
        key: next(ids) if key == "id" or key.endswith("-id") else renumbered(each, ids) for key, each in kind.items()
    }


def rejects(converted: ConvertedEvents) -> list[tuple[str, str]]:
    return [(each["code"], each["field"]) for each in converted.rejects.to_pylist()]


HOSTILE = [
    ({"z": 1}, {"a\x00b": 2}, "a\x00b"),
    ({"s": {"z": 1}}, {"s": {"\x00": 2}}, "s.\x00"),
    ({"z": 1}, {"a\x1b[2J": 2}, "a\x1b[2J"), ({"z": 1}, {"a\x9b2J": 2}, "a\x9b2J"), ({"z": 1}, {"a\u202eb": 2}, "a\u202eb"),
    ({"s": {"z": 1}}, {"s": {"\u2028": 2}}, "s.\u2028"), ({"l": [{"z": 1}]}, {"l": [{"\u2066": 2}]}, "l.element.\u2066"),
    ({"a": {"b": 1}}, {"a.b": 2}, "a.b"), ({"id": 1}, {"Id": 2}, "Id"),
    ({"s": {"x": 1}}, {"s": {"X": 2}}, "s.X"), ({"l": [{"x": 1}]}, {"l": [{"X": 2}]}, "l.element.X"),
    ({"s": {"x": 1}}, {"S.x": 2}, "S.x"), ({"l": [1]}, {"l.element": 2}, "l.element"),
    ({"l": [{"x": 1}]}, {"l": [{"Element": 2}]}, "l.element.Element"), ({"l": [{"a": 1}]}, {"l.A": 2}, "l.A"),
    ({"l": [{"a": 1}]}, {"l.a": 2}, "l.a"), ({"s": {"l": [{"a": 1}]}}, {"s": {"l.a": 2}}, "s.l.a"),
    ({"a.b": 1}, {"a_x2Eb": 2}, "a_x2Eb"), ({"x": 1}, {"": 2}, ""), ({"x": 1}, {"_file": 2}, "_file"),
    ({"x": 1}, {"_ROW_ID": 2}, "_ROW_ID"), ({"x": 1}, {"n" * 256: 2}, "n" * 100 + "…"), ({"x": 1}, {"h\ud800": 2}, "h\\ud800"),
    ({"s": 1}, {"ſ": 2}, "ſ"), ({"k": 1}, {"\u212a": 2}, "\u212a"), ({"i": 1}, {"İ": 2}, "İ"), ({"ß": 1}, {"ẞ": 2}, "ẞ"),
]  # fmt: skip


@pytest.mark.parametrize("is_validated", [False, True], ids=["alone", "after validation"])
@pytest.mark.parametrize(("first", "second", "field"), HOSTILE, ids=[ascii(each[2]) for each in HOSTILE])
def test_a_field_that_cannot_become_a_column_makes_its_event_a_dead_letter(first, second, field, is_validated):
    rows = rows_of(first, {**second, "new": True})
    schema, converted = evolved(created(first), validated(rows).rows if is_validated else rows)
    assert rejects(converted) == [("AMBIGUOUS_FIELD", field)]
    assert converted.row.to_pylist() == [0]
    assert names(schema) == names(created(first)), "a rejected event adds no columns"
    reason = converted.rejects["reason"][0].as_py()
    assert reason.startswith("the field cannot become a column: ")
    assert "exclude_keys" in reason


@pytest.mark.parametrize(("first", "second", "field"), HOSTILE, ids=[ascii(each[2]) for each in HOSTILE])
def test_such_a_field_is_null_without_harm_and_ignored_where_tables_stay_as_they_are(first, second, field):
    null = json.loads(json.dumps(second), object_hook=lambda each: {k: None if v == 2 else v for k, v in each.items()})
    assert rejects(evolved(created(first), rows_of({**first, **null}))[1]) == []
    found = Converter(table_of(created({"z": 1})), ConvertOptions()).convert(rows_of({"z": 1, **second}))
    assert plain_rows(found.rows) == [{"z": 1}]


@pytest.mark.parametrize(("first", "second", "field"), HOSTILE, ids=[ascii(each[2]) for each in HOSTILE])
def test_a_table_that_is_created_has_the_first_of_two_fields_that_collide(first, second, field):
    schema = created(first, second)
    folds = [folded(name) for name in schema.column_names]
    assert len(set(folds)) == len(folds)
    assert names(schema)[0] == names(created(first))[0]


ALLOWED = [
    " ", "a b", "`", "\\", "Price\r\n\t(EUR)", "\n", "می\u200cخواهم", "a.b", ".", "é", "e\u0301", "😀", "n" * 255, "pos", "file_path", "element", "value",
    "ss", "ﬀ",
]  # fmt: skip


@pytest.mark.parametrize("name", ALLOWED, ids=ascii)
def test_any_other_name_is_a_column_at_the_top_and_inside(name):
    _, converted = evolved(created({"ß": 1}), rows_of({name: 1, "s": {name: 2}, "l": [{name: 3}]}))
    assert rejects(converted) == []
    assert plain_rows(converted.rows)[0][name] == 1
    assert plain_rows(converted.rows)[0]["l"] == [{name: 3}]


def test_an_object_or_array_whose_fields_collide_with_columns_is_text():
    schema, converted = evolved(created({"a.b": 2, "l.element": 1}), rows_of({"a": {"b": 1}, "l": [1]}))
    assert [str(schema.find_type(name)) for name in ("a", "l")] == ["string", "string"]
    assert plain_rows(converted.rows) == [{"a.b": None, "l.element": None, "a": '{"b":1}', "l": "[1]"}]


def test_names_that_normalise_alike_are_columns_of_their_own():
    assert names(created({"é": 1, "e\u0301": 2})) == ["é", "e\u0301"]


def test_fields_that_differ_by_case_share_a_column_where_case_is_ignored():
    schema = created({"Id": 1, "s": {"X": 1}}, {"id": 1.5, "S": {"x": None, "y": True}}, case_insensitive=True)
    assert names(schema) == ["id", "s"]
    assert str(schema.find_type("id")) == "double"
    rows = rows_of({"ID": 2}, {"s": {"Y": False, "x": 1}}, {"New": 1}, {"new": 2}, {"New": None})
    schema, converted = evolved(schema, rows, case_insensitive=True)
    assert (names(schema), rejects(converted)) == (["id", "s", "new"], [])
    assert [row["new"] for row in plain_rows(converted.rows)] == [None, None, 1, 2, None]


@pytest.mark.parametrize("bracket", ["[", '{"a":'])
def test_what_is_nested_deeper_than_16_levels_is_text(bracket):
    def nested(depth: int) -> str:
        return bracket * depth + "1" + ("]" if bracket == "[" else "}") * depth

    for deep in (17, 130, 248):
        assert len(created(f'{{"v":{nested(deep)}}}').fields) == 1
        _, converted = evolved(created({"s": {"x": 1}}), rows_of(f'{{"s":{{"x":1,"v":{nested(deep)}}}}}'))
        assert rejects(converted) == []
        value, depth = plain_rows(converted.rows)[0]["s"]["v"], 2
        while not isinstance(value, str):
            value, depth = (value[0] if bracket == "[" else value["a"]), depth + 1
        assert (value, depth) == (nested(deep - 14), 16)


@pytest.mark.parametrize("is_validated", [False, True], ids=["alone", "after validation"])
@pytest.mark.parametrize("kind", ["string", "struct"])
def test_what_is_nested_deeper_than_250_levels_is_malformed(kind, is_validated):
    schema = created({"v": "x"} if kind == "string" else {"v": {"a": 1}})
    rows = rows_of({"w": 1}, '{"v":' + "[" * 250 + "]" * 250 + "}", '{"v":' + '{"a":' * 10_000 + "1" + "}" * 10_001)
    found = validated(rows).rejects if is_validated else evolved(schema, rows)[1].rejects
    assert [(each["row"], each["code"], each["reason"]) for each in found.to_pylist()] == [
        (1, "MALFORMED", "nested deeper than 250 levels"),
        (2, "MALFORMED", "nested deeper than 250 levels"),
    ]


def test_many_distinct_keys_fill_a_table_to_its_limit_and_no_further():
    one = {f"k{number}": number for number in range(3 * COLUMN_LIMIT)}
    many = [{f"k{number}": number} for number in range(3 * COLUMN_LIMIT)]
    for rows, count in ((rows_of(one), 1), (rows_of(*many), COLUMN_LIMIT)):
        assert (
            len(names(msgspec.json.decode(msgspec.json.encode(infer(rows).encodable()), type=Inferred).to_schema()))
            == COLUMN_LIMIT
        )
        schema, converted = evolved(created({"id": 1}), rows)
        assert len(names(schema)) == count
        assert set(rejects(converted)) == {("TOO_MANY_COLUMNS", field) for _, field in rejects(converted)}
        assert len(converted.rows) + len(converted.rejects) == len(rows)
