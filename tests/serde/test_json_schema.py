"""JSON Schema: its types become the columns; the values are the JSON behind the header."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calve.columns.infer import infer
from calve.event.columns import EVENT
from calve.serde.decoder import SchemaDecoder
from calve.serde.format import UnsupportedSchemaError, WriterSchema
from calve.serde.json_schema import FORMAT
from calve.serde.settings import SchemaSettings, Serde
from services.registry import Registry, framed

SCHEMA = {
    "type": "object",
    "definitions": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": ["string", "null"], "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "key": {"type": "string", "format": "uuid"},
        "n": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "mixed": {"type": ["integer", "number"]},
        "ok": {"type": "boolean"},
        "place": {"$ref": "#/definitions/place"},
        "places": {"type": "array", "items": {"$ref": "#/definitions/place"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {},
        "several": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "free": {"type": "object"},
    },
}
COLUMNS = {
    "id": "long",
    "at": "timestamptz",
    "day": "date",
    "key": "uuid",
    "n": "double",
    "mixed": "double",
    "ok": "boolean",
    "place": "struct<city: optional string>",
    "places": "list<struct<city: optional string>>",
    "counts": "map<string, long>",
    "any": "string",
    "several": "string",
    "free": "string",
}


def test_types_of_columns_come_from_the_schema_and_values_are_the_json_behind_the_header() -> None:
    texts = [b'{"id":1,"any":{"a":[1]}}', b"{}", b'{"id":2,"new":true}']
    with Registry() as registry:
        number = registry.register("s", SCHEMA, kind="JSON")
        decoder = SchemaDecoder(Serde("json_schema", SchemaSettings(registry_url=registry.url)))
        values = pa.array([b"cut", *(framed(number, text) for text in texts)], pa.binary()).slice(1)
        found = decoder.decode(pa.table({EVENT: values}))
    assert found.rows[EVENT].to_pylist() == texts
    columns = infer(found.rows).to_schema().fields
    shown = {each.name: re.sub(r"\d+: ", "", str(each.field_type)) for each in columns}
    assert shown == COLUMNS | {"new": "boolean"}


def test_a_schema_of_another_document_is_found_by_its_name() -> None:
    other = WriterSchema(json.dumps({"type": "object", "properties": {"x": {"type": "integer"}}}), kind="JSON")
    text = json.dumps({"properties": {"a": {"$ref": "other.json"}}})
    plan = FORMAT.plan(WriterSchema(text, kind="JSON", references=(("other.json", other),)), None, list)
    part = plan.decode(pa.array([b"{}"], pa.binary()), 0).parts[0]
    assert '"name":"x","kind":"int64"' in part.declaration
    assert np.array_equal(part.at, [0])


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "not JSON"),
        ('{"type": "string"}', "not objects"),
        ({"properties": {"a": {"$ref": "#/none"}}}, "it has no #/none"),
        ({"properties": {"a": {"$ref": "#none"}}}, "it has no #none"),
        ({"properties": {"a": {"$ref": "none.json"}}}, "it has no none.json"),
        ({"$ref": "#"}, "not objects"),
        ({"allOf": [{"$ref": "#/allOf/0"}]}, "not objects"),
        (
            {"definitions": {"a": {"items": {"$ref": "#/definitions/a"}, "type": "array"}}, "$ref": "#/definitions/a"},
            "not objects",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(schema: Any, reason: str) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(UnsupportedSchemaError, match=reason):
        FORMAT.plan(WriterSchema(text, kind="JSON"), None, list)


def columns_of(schema: Any, **others: Any) -> dict[str, str]:
    """Return the types of the columns that a schema declares, without ids."""
    references = tuple((name, WriterSchema(json.dumps(each), kind="JSON")) for name, each in others.items())
    plan = FORMAT.plan(WriterSchema(json.dumps(schema), kind="JSON", references=references), None, list)
    [part] = plan.decode(pa.array([b"{}"], pa.binary()), 0).parts
    return {each["name"]: _shown(each) for each in json.loads(part.declaration)["fields"]}


def _shown(field: dict[str, Any]) -> str:
    inner = [_shown(each) for each in field.get("fields", ())]
    if field["kind"] == "struct":
        names = [each["name"] for each in field["fields"]]
        return f"struct<{', '.join(map(': '.join, zip(names, inner, strict=True)))}>"
    return f"{field['kind']}<{', '.join(inner)}>" if inner else field["kind"]


INT, TEXT, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}
A = {"type": "object", "properties": {"kind": {"const": "a", "type": "string"}, "x": INT, "both": INT}}
B = {"type": "object", "properties": {"kind": {"const": "b", "type": "string"}, "y": TEXT, "both": TEXT}}
DEFS = {"A": A, "B": B, "Int": INT, "Base": {"properties": {"id": INT}}, "Tree": {"$ref": "#/$defs/Node"}}
DEFS["Node"] = {
    "type": "object",
    "properties": {"v": INT, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
}
A_COLUMNS = "struct<kind: string, x: int64, both: int64>"


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        (
            {"allOf": [{"$ref": "#/$defs/Base"}, {"properties": {"n": {"type": "number"}}}]},
            {"id": "int64", "n": "double"},
        ),
        ({"$ref": "#/$defs/Base", "properties": {"n": INT}}, {"n": "int64", "id": "int64"}),
        ({"oneOf": [NULL, {"$ref": "#/$defs/Base"}]}, {"id": "int64"}),
        ({"anyOf": [{"$ref": "#/$defs/Base"}]}, {"id": "int64"}),
        (
            {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]},
            {"kind": "string", "x": "int64", "both": "string", "y": "string"},
        ),
        (
            {"type": "object", "properties": {"a": INT}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": "int64"},
        ),
        (
            {"properties": {"a": INT}, "anyOf": [{"properties": {"b": INT}}, {"required": ["a"]}]},
            {"a": "int64", "b": "int64"},
        ),
        ({"allOf": [{"oneOf": [{"$ref": "#/$defs/A"}, NULL]}]}, {"kind": "string", "x": "int64", "both": "int64"}),
        ({"$ref": "#/$defs/Node"}, {"v": "int64", "children": "array<string>"}),
    ],
)
def test_a_root_of_several_schemas_declares_the_columns_of_all(schema: Any, columns: dict[str, str]) -> None:
    assert columns_of({**schema, "$defs": DEFS}) == columns


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"allOf": [{"$ref": "#/$defs/A"}], "description": "as pydantic writes it"}, A_COLUMNS),
        ({"anyOf": [{"allOf": [{"$ref": "#/$defs/A"}]}, NULL], "default": None}, A_COLUMNS),
        ({"oneOf": [{"$ref": "#/$defs/A"}, {"const": None}]}, A_COLUMNS),
        ({"oneOf": [{"$ref": "#/$defs/A"}, {"enum": [None]}]}, A_COLUMNS),
        ({"allOf": [{"type": ["string", "null"]}, {"format": "date-time"}]}, "timestamptz"),
        ({"allOf": [{"type": "number"}, INT]}, "int64"),
        ({"allOf": [INT, TEXT]}, "string"),
        ({"type": "string", "anyOf": [{"format": "date"}, {"format": "email"}]}, "string"),
        ({"type": "number", "oneOf": [INT, {"type": "number"}]}, "double"),
        ({"oneOf": [INT, {"$ref": "#/$defs/Int"}]}, "int64"),
        ({"oneOf": [INT, {"type": "number"}]}, "string"),
        ({"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}, "string"),
        ({"oneOf": [INT, {}]}, "string"),
        ({"oneOf": [INT, True]}, "string"),
        ({"oneOf": [INT, NULL], "anyOf": [{"minimum": 1}, {"multipleOf": 2}]}, "int64"),
        ({"type": "array", "items": {"allOf": [{"$ref": "#/$defs/A"}]}}, f"array<{A_COLUMNS}>"),
        ({"type": "array", "items": [INT, TEXT]}, "array<string>"),
        ({"type": "object", "additionalProperties": {"anyOf": [INT, NULL]}}, "map<int64>"),
        ({"$ref": "#/$defs/Node"}, "struct<v: int64, children: array<string>>"),
        ({"$ref": "#"}, "string"),
        ({"$ref": "#/properties/f"}, "string"),
        ({"$ref": "#/$defs/list/0"}, "int64"),
        ({"$ref": "#named"}, "int64"),
        ({"$ref": "me.json#/$defs/Int"}, "int64"),
        ({"$ref": "other.json#/definitions/o"}, "struct<o: int64>"),
    ],
)
def test_a_field_of_several_schemas_is_what_all_of_them_say_and_else_any_json(schema: Any, kind: str) -> None:
    root = {
        "$id": "me.json",
        "$defs": {**DEFS, "n": {"$anchor": "named", **INT}, "list": [INT]},
        "properties": {"f": schema},
    }
    other = {"definitions": {"o": {"properties": {"o": {"$ref": "#/definitions/i"}}}, "i": INT}}
    assert columns_of(root, **{"other.json": other}) == {"f": kind}


def test_definitions_of_the_same_name_in_two_documents_do_not_contain_each_other() -> None:
    other = {"$ref": "#/definitions/p", "definitions": {"p": {"properties": {"x": INT}}}}
    root = {"properties": {"p": {"$ref": "#/definitions/p"}}, "definitions": {"p": {"$ref": "other.json"}}}
    assert columns_of(root, **{"other.json": other}) == {"p": "struct<x: int64>"}


@pytest.mark.parametrize("key", ["properties", "allOf", "oneOf"])
def test_references_that_multiply_end_with_a_reason(key: str) -> None:
    def pair(number: int) -> dict[str, Any]:
        refs = [{"$ref": f"#/$defs/{number + 1}"}, {"$ref": f"#/$defs/{number + 1}", "title": "t"}]
        return {key: dict(zip("ab", refs, strict=True)) if key == "properties" else refs}

    defs = {str(number): pair(number) for number in range(40)} | {"40": {"properties": {"z": INT}}}
    with pytest.raises(UnsupportedSchemaError, match="more than 20000 schemas"):
        columns_of({"$ref": "#/$defs/0", "$defs": defs})
