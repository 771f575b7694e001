"""Constraints of a JSON Schema: values that break one are rejected, as another library says; and why, without values."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.event.columns import EVENT
from calve.pipeline.plugins import PLUGINS
from calve.serde import json_schema_check
from calve.serde.decoder import SchemaDecoder
from calve.serde.format import UnsupportedSchemaError, WriterSchema
from calve.serde.json_schema_check import SchemaCheck
from calve.serde.settings import SchemaSettings, Serde
from calve.settings import SettingsErrors, parse_text
from kit.examples import examples

pytest.importorskip("jsonschema_rs", reason="the extra jsonschema")

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "minimum": 1, "maximum": 2**53 + 1},
        "s": {"type": ["string", "null"], "minLength": 1, "maxLength": 3, "pattern": "^[a-zé]*$"},
        "e": {"enum": ["a", 1, None, [1]]},
        "n": {"type": "number", "exclusiveMaximum": 10, "multipleOf": 0.5},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 1},
        "one": {"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]},
        "place": {"$ref": "#/$defs/place"},
    },
    "dependentRequired": {"s": ["e"]},
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"city": {"const": "Bern"}}, "required": ["city"]}},
}
CHECK = SchemaCheck(WriterSchema(json.dumps(SCHEMA), kind="JSON"))
UNCHECKABLE = "the constraints cannot be checked: a text is no valid Unicode, a number too long, or a list too deep"
ORACLE = jsonschema.Draft202012Validator(SCHEMA)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 12)
    | st.sampled_from([2**53, 2**53 + 1, 2**53 + 2, 10**30])
    | st.sampled_from([0.5, 1.0, 1.25, -3.5, 9.5, 10.0])
    | st.sampled_from(["", "a", "é", "abc", "abcd", "A", "Bern", "𝄞"])
)
VALUES = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(st.sampled_from(["city", "x"]), LEAVES, max_size=2)
NAMES = [*SCHEMA["properties"], "other"]


@settings(max_examples=examples(150), deadline=None)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, VALUES)) | VALUES)
def test_values_that_follow_their_schema_are_those_of_another_library(value: Any) -> None:
    found = CHECK.fault(json.dumps(value).encode())
    assert (found is None) == ORACLE.is_valid(value)


def decoded(*texts: bytes, **options: Any) -> Any:
    schema = SchemaSettings(inline_schema=json.dumps(SCHEMA), **options)
    return SchemaDecoder(Serde("json_schema", schema)).decode(pa.table({EVENT: pa.array(texts, pa.binary())}))


def test_a_value_that_breaks_a_constraint_is_rejected_with_its_path_and_without_itself() -> None:
    texts = [
        b'{"id": 1}',
        b'{"id": 0}',
        b'{"id": 1, "e": "secret"}',
        b"no JSON",
        b'{"s": null, "e": 1}',
        b'{"id": 1, "place": {"city": "secret"}}',
        b'{"id": 2}',
        b'{"id": 2, "s": "\\ud800"}',
        b'{"id": 2, "more": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ]
    found = decoded(*texts, validate=True)
    assert found.rows[EVENT].to_pylist() == [texts[0], texts[3], texts[6], texts[8]], (
        "what is no JSON has its own reason later"
    )
    assert [(row["row"], row["code"], row["reason"]) for row in found.rejects.to_pylist()] == [
        (1, "UNDECODABLE", "/id: the value is less than the minimum of 1"),
        (2, "UNDECODABLE", '/e: the value is not one of "a", 1 or 2 other candidates'),
        (4, "UNDECODABLE", '"id" is a required property'),
        (5, "UNDECODABLE", '/place/city: "Bern" was expected'),
        (7, "UNDECODABLE", UNCHECKABLE),
    ]
    assert decoded(*texts).rows[EVENT].to_pylist() == texts


@pytest.mark.parametrize(
    ("schema", "text", "why"),
    [
        ({"type": "number"}, "1e400", ""),
        ({"type": "integer"}, "9007199254740993.5", 'the value is not of type "integer"'),
        ({"type": "integer"}, "1.0", ""),
        ({"maximum": 0.3}, "0.30000000000000000001", "the value is greater than the maximum of 0.3"),
        ({"const": 0.1}, "0.10", ""),
        ({"multipleOf": 0.01}, "19.99", ""),
        ({"multipleOf": 3}, "1e999999999", "the value is not a multiple of 3"),
        ({"maximum": 5}, "1e99999999999999999999", UNCHECKABLE),
        ({"type": "string"}, "1" + "0" * 5000, UNCHECKABLE),
    ],
)
def test_numbers_are_compared_with_all_their_digits_or_it_is_said(schema: Any, text: str, why: str) -> None:
    assert SchemaCheck(WriterSchema(json.dumps(schema), kind="JSON")).fault(text.encode()) == (why or None)


@pytest.mark.parametrize("own", [None, "https://example.com/a/order.json"])
def test_references_are_those_of_the_registry_and_nothing_is_loaded(own: str | None) -> None:
    other = WriterSchema(json.dumps({"$defs": {"x": {"maxLength": 2}}}), kind="JSON")
    text = {"properties": {"a": {"$ref": "other.json#/$defs/x"}}, **({"$id": own} if own else {})}
    check = SchemaCheck(WriterSchema(json.dumps(text), kind="JSON", references=(("other.json", other),)))
    assert check.fault(b'{"a": "abc"}') == "/a: the value is longer than 2 characters"
    with pytest.raises(UnsupportedSchemaError, match=r"other\.json"):
        SchemaCheck(WriterSchema(json.dumps(text), kind="JSON"))


@pytest.mark.parametrize("schema", [{"type": "strin"}, {"pattern": "("}, 5, {"$ref": "http://127.0.0.1:1/x.json"}])
def test_a_schema_that_is_none_cannot_be_used(schema: Any) -> None:
    with pytest.raises(UnsupportedSchemaError):
        SchemaCheck(WriterSchema(json.dumps(schema), kind="JSON"))


def parsed(format: str) -> None:
    topic = {"name": "t", "serde_format": format}
    source = {"bootstrap_servers": "b:1", "topics": [topic], "schema": {"registry_url": "https://r", "validate": True}}
    sink = {"iceberg": {"table_identifier": "a.b", "auto_create": True}}
    parse_text(json.dumps({"p": {"source": {"kafka": source}, "sink": [sink]}}), PLUGINS)


def test_constraints_are_checked_of_json_schema_alone_and_with_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed("json_schema")
    with pytest.raises(SettingsErrors, match="is for serde_format: json_schema"):
        parsed("avro")
    monkeypatch.setattr(json_schema_check, "find_spec", lambda name: None)
    with pytest.raises(SettingsErrors, match=r"pip install 'calve\[jsonschema\]'"):
        parsed("json_schema")
