"""Masks by the tags of a registry's schemas: each event has those of its own schema, from the first one of a version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from calve.event.columns import EVENT, MASKED, ORIGINAL, SCHEMA
from calve.event.envelope.schema import field_of
from calve.event.typed import with_text
from calve.pipeline.plugins import PLUGINS
from calve.processors.mask import ColumnMask, MaskColumns
from calve.processors.masking import MaskedRows, Masker, Masks
from calve.serde.decoder import SchemaDecoder
from calve.serde.settings import SchemaSettings, Serde
from calve.settings import SettingsErrors, parse_text
from serde.avro.values import encoded
from serde.protobuf.official import message_class
from services.registry import Registry, framed

CANARY = "canary"
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "street", "type": "string", "confluent:tags": ["PII"]}]}
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "int"},
    {"name": "email", "type": ["null", "string"], "confluent:tags": ["PUBLIC", "PII"]},
    {"name": "place", "type": PLACE},
    {"name": "all", "type": {"type": "array", "items": "Place"}},
    {"name": "by_name", "type": {"type": "map", "values": "Place"}},
]
AVRO = {"type": "record", "name": "Person", "fields": FIELDS}
ROW = {
    "id": 1,
    "email": CANARY,
    "place": {"street": CANARY},
    "all": [{"street": CANARY}],
    "by_name": {"a": {"street": CANARY}},
}
PROTO = """syntax = "proto3"; import "confluent/meta.proto"; message Person { int32 id = 1;
  string email = 2 [(confluent.field_meta).tags = "PII"];
  Place place = 3; repeated Place all = 4; map<string, Place> by_name = 5; }
message Place { string street = 1 [deprecated = false, (.confluent.field_meta) = {doc: "tags", params: [{key: "a", value: "b"}],
  tags: ["OTHER", "PII"]}, json_name = "s"]; }"""
META = """syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto"; message Meta { string doc = 1;
  map<string, string> params = 2; repeated string tags = 3; } extend google.protobuf.FieldOptions { Meta field_meta = 1088; }"""
STREET = {"type": "object", "properties": {"street": {"type": "string", "confluent:tags": ["PII"]}}}
JSON = {
    "type": "object",
    "definitions": {"place": STREET},
    "properties": {
        "id": {"type": "integer"},
        "email": {"oneOf": [{"type": "null"}, {"type": "string"}], "confluent:tags": ["PII"]},
        "place": {"$ref": "#/definitions/place"},
        "all": {"type": "array", "items": {"$ref": "#/definitions/place"}},
        "by_name": {"type": "object", "additionalProperties": {"$ref": "#/definitions/place"}},
    },
}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as started:
        yield started


def masked(registry: Registry, format: Any, *values: bytes, action: Any = "fixed", as_text: bool = False) -> MaskedRows:
    serde = Serde(format, SchemaSettings(registry_url=registry.url), ("s",))
    decoded = SchemaDecoder(serde).decode(pa.table({EVENT: pa.array(values, pa.binary())}), as_text)
    assert not len(decoded.rejects)
    entries = [ColumnMask(names=["other"], action="drop"), ColumnMask(tags=["PII", "SECRET"], action=action)]
    return Masker(Masks((MaskColumns(columns=entries, key="0123456789abcdef"),))).mask(decoded.rows)


def events(rows: pa.Table) -> list[Any]:
    return list(map(json.loads, with_text(rows)[EVENT].to_pylist()))


def avro(registry: Registry) -> bytes:
    return framed(registry.register("s", AVRO), encoded(AVRO, ROW))


def protobuf(registry: Registry) -> bytes:
    message: Any = message_class({"person.proto": PROTO, "confluent/meta.proto": META}, "Person")()
    message.id, message.email, message.place.street, message.by_name["a"].street = 1, CANARY, CANARY, CANARY
    message.all.add().street = CANARY
    return framed(registry.register("s", PROTO, kind="PROTOBUF"), b"\0" + message.SerializeToString())


def json_schema(registry: Registry) -> bytes:
    return framed(registry.register("s", JSON, kind="JSON"), json.dumps(ROW).encode())


@pytest.mark.parametrize("form", [avro, protobuf, json_schema])
def test_tagged_fields_are_masked_inside_of_objects_lists_and_maps_too(form: Any, registry: Registry) -> None:
    rows = masked(registry, form.__name__, form(registry)).rows
    hidden = {"street": "***"}
    assert events(rows) == [{"id": 1, "email": "***", "place": hidden, "all": [hidden], "by_name": {"a": hidden}}]
    assert CANARY not in str(rows.to_pydict())
    fields = {field.name: field for field in field_of(rows[SCHEMA][0].as_py()).fields}
    assert (fields["email"].kind, fields["email"].doc) == ("string", "masked: fixed")
    assert set(json.loads(rows[MASKED][0].as_py())) == {
        "other",
        "email",
        "place.street",
        "all.street",
        "by_name.*.street",
    }


@pytest.mark.parametrize("as_text", [False, True])
def test_a_version_that_tags_a_field_masks_it_from_its_first_event(registry: Registry, as_text: bool) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "a*", "type": "string"}, {"name": "ab", "type": "string"}]
    kinds = [
        {"type": "record", "name": "R", "fields": [*fields[:1], {**fields[1], **tags}, fields[2]]}
        for tags in ({}, {"confluent:tags": ["PII"]})
    ]
    ids = [registry.register("s", kind) for kind in kinds]
    values = [
        framed(ids[number % 2], encoded(kinds[0], {"id": number, "a*": f"x{number}", "ab": "y"})) for number in range(5)
    ]
    result = masked(registry, "avro", *values, as_text=as_text)
    assert [(event["id"], event["a*"], event["ab"]) for event in events(result.rows)] == [
        (number, "***" if number % 2 else f"x{number}", "y") for number in range(5)
    ]
    names = [set(json.loads(text)) for text in result.rows[MASKED].to_pylist()]
    assert names == [{"other", "a[*]"} if number % 2 else {"other"} for number in range(5)]
    result = masked(registry, "avro", *values, action="year", as_text=as_text)
    assert [event["id"] for event in events(result.rows)] == [0, 2, 4]
    assert [(event["id"], event["a*"]) for event in events(result.failed_rows)] == [(1, None), (3, None)]
    assert [(one["row"], one["field"]) for one in result.failed.to_pylist()] == [(0, "a*"), (1, "a*")]
    assert ORIGINAL not in result.failed_rows.column_names


def test_tags_of_a_schema_s_metadata_count_by_the_last_name_of_their_paths(registry: Registry) -> None:
    kind = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": "string"} for name in ("ssn", "name", "n")],
    }
    number = registry.register("s", kind, tags={"**.ssn": ["SECRET"], "R.na*": ["PII"], "R.n": ["PUBLIC"]})
    value = framed(number, encoded(kind, {"ssn": CANARY, "name": CANARY, "n": "n"}))
    assert events(masked(registry, "avro", value).rows) == [{"ssn": "***", "name": "***", "n": "n"}]


PII = {"type": "string", "confluent:tags": ["PII"]}
TAGGED = {"properties": {"a": PII}}
LIST = {"$ref": "#/definitions/list"}


@pytest.mark.parametrize(
    ("declared", "value", "shown"),
    [
        ({"description": "d", "oneOf": [PII, {"type": "integer"}]}, CANARY, "***"),
        ({"type": ["object", "string"], **TAGGED}, {"a": CANARY}, "***"),
        ({"type": "object", "oneOf": [TAGGED, {"properties": {"b": {}}}]}, {"a": CANARY}, "***"),
        (
            {"type": "object", "properties": {"a": {}}, "anyOf": [TAGGED, {"properties": {"b": {}}}]},
            {"a": CANARY},
            {"a": "***"},
        ),
        (LIST, {"a": CANARY, "next": {"a": CANARY}}, {"a": "***", "next": "***"}),
        ({"type": "array", "items": [PII]}, [CANARY], "***"),
        ({"type": "object", "patternProperties": {".*": PII}}, {"a": CANARY}, "***"),
        ({"type": "object", "properties": {"b": {}}, "additionalProperties": PII}, {"a": CANARY}, "***"),
        ({"if": {}, "then": {"$ref": "#/definitions/tagged"}, "default": {"$ref": "#/nowhere"}}, CANARY, "***"),
    ],
)
def test_a_tag_of_json_schema_without_a_field_of_its_own_hides_what_it_is_in(
    declared: Any, value: Any, shown: Any, registry: Registry
) -> None:
    definitions = {"tagged": PII, "list": {"type": "object", "properties": {"a": PII, "next": LIST}}}
    kind = {"type": "object", "definitions": definitions, "properties": {"id": {"type": "integer"}, "v": declared}}
    number = registry.register("s", kind, kind="JSON")
    rows = masked(registry, "json_schema", framed(number, json.dumps({"id": 1, "v": value}).encode())).rows
    assert events(rows) == [{"id": 1, "v": shown}]
    assert CANARY not in str(rows.to_pydict())


def test_a_tag_of_fields_without_names_hides_all_fields_of_the_event(registry: Registry) -> None:
    kind = {"type": "object", "properties": {"id": {"type": "string"}}, "patternProperties": {"^x": PII}}
    value = framed(registry.register("s", kind, kind="JSON"), json.dumps({"id": "1", "x1": CANARY}).encode())
    assert events(masked(registry, "json_schema", value).rows) == [{"id": "***", "x1": "***"}]


def test_a_letter_that_is_masked_keeps_its_masks(registry: Registry) -> None:
    letter = pa.table({EVENT: [b'{"email":"***"}'], MASKED: ['["email"]']})
    masks = Masks((MaskColumns(columns=[ColumnMask(tags=["PII"], action="fixed")]),))
    assert events(Masker(masks).mask(letter).rows) == [{"email": "***"}]


YAML = """
p:
  source:
    %s
  processor:
    - mask: {key: 0123456789abcdef, columns: [{tags: [PII], action: %s}]}
  sink:
    - iceberg: {table_identifier: a.b, auto_create: true%s}
"""
KAFKA = "kafka: {bootstrap_servers: [h], topics: [{name: t, serde_format: %s}]%s}"
REGISTRY = ", schema: {registry_url: 'http://h'}"


@pytest.mark.parametrize(
    ("source", "action", "more", "why"),
    [
        ("file: {path: in.ndjson}", "fixed", "", "tags: are those of fields of Avro, Protobuf and JSON Schema"),
        (KAFKA % ("json", ""), "fixed", "", "tags: are those of fields"),
        (KAFKA % ("debezium", REGISTRY), "hash", ", identifier_columns: [id]", "tags: are those of fields"),
        (
            KAFKA % ("avro", REGISTRY),
            "fixed",
            ", upsert: true, identifier_columns: [id]",
            "tags: may be those of a key",
        ),
        (KAFKA % ("avro", REGISTRY), "hash", ", upsert: true, identifier_columns: [id]", None),
        (KAFKA % ("protobuf", REGISTRY), "fixed", "", None),
    ],
)
def test_validate_refuses_tags_that_no_schema_has(source: str, action: str, more: str, why: str | None) -> None:
    text = YAML % (source, action, more)
    if why is None:
        parse_text(text, PLUGINS)
        return
    with pytest.raises(SettingsErrors) as refused:
        parse_text(text, PLUGINS)
    assert why in str(refused.value)
