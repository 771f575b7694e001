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
from calve.serde.decoder import Decoder
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
        decoder = Decoder(Serde("json_schema", SchemaSettings(registry_url=registry.url)))
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
        ({"properties": {"a": {"$ref": "#"}}}, "# contains itself"),
        (
            {"definitions": {"a": {"items": {"$ref": "#/definitions/a"}, "type": "array"}}, "$ref": "#/definitions/a"},
            "itself",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(schema: Any, reason: str) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(UnsupportedSchemaError, match=reason):
        FORMAT.plan(WriterSchema(text, kind="JSON"), None, list)
