"""What a schema says of a field's meaning is the description of the column that Calve creates for it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.evolve import plan_evolution
from calve.columns.infer import UnknownColumns, infer
from calve.columns.options import ConvertOptions
from calve.event.columns import EVENT
from calve.event.envelope.schema import schema_of
from calve.event.typed import with_text
from calve.serde.avro.schema import parse
from calve.serde.debezium import connect_schema
from calve.serde.decoder import SchemaDecoder
from calve.serde.settings import SchemaSettings, Serde
from kit.tables import table_of

ZIP = {"name": "zip", "type": "string", "doc": "postal \ud800 code"}
PLACE = {"type": "record", "name": "Place", "fields": [ZIP, {"name": "city", "type": "string"}]}
AVRO = {
    "type": "record",
    "name": "Order",
    "doc": "not of a column",
    "fields": [
        {"name": "id", "type": "long", "doc": " the number "},
        {"name": "place", "type": ["null", PLACE], "doc": "where to"},
        {"name": "places", "type": {"type": "array", "items": "Place"}, "doc": 7},
    ],
}
JSON = {
    "type": "object",
    "definitions": {"place": {"description": "a place", "type": "object", "properties": {"zip": {"type": "string"}}}},
    "properties": {
        "id": {"type": "integer", "description": "the number"},
        "place": {"$ref": "#/definitions/place", "description": "where to"},
        "other": {"$ref": "#/definitions/place"},
    },
}
PROTO = """
// of the file
syntax = "proto3";  // of the syntax

// of the message
message Order {  // behind the bracket
  // detached

  // the
  //  number
  int64 id = 1;  // not this one
  /* where
   * to */
  Place place = 2;
  string note = 3 [deprecated = true];  // behind it
  string bare = 4;
  oneof one {
    // in a oneof
    string two = 5;
  }
  // last
  message Place { string zip = 1;  /* postal code */ string city = 2; }
}
"""
VALUES = {"avro": b"\2\0\0", "json_schema": b'{"id":1}', "protobuf": b"\x08\1"}


def rows(kind: str, schema: Any) -> pa.Table:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    decoder = SchemaDecoder(Serde(kind, SchemaSettings(inline_schema=text)))
    return decoder.decode(pa.table({EVENT: pa.array([VALUES[kind]], pa.binary())})).rows


def docs(schema: Schema) -> dict[str, str]:
    return {name: doc for name in schema.column_names if (doc := schema.find_field(name).doc) is not None}


EXPECTED = {
    "avro": (AVRO, {"id": "the number", "place": "where to", "zip": "postal \\ud800 code"}),
    "json_schema": (JSON, {"id": "the number", "place": "where to", "other": "a place"}),
    "protobuf": (
        PROTO,
        {"id": "the\nnumber", "place": "where\nto", "note": "behind it", "two": "in a oneof", "zip": "postal code"},
    ),
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_columns_of_a_new_table_have_the_descriptions_of_the_schema(kind: str) -> None:
    schema, expected = EXPECTED[kind]
    found = docs(infer(rows(kind, schema)).to_schema())
    assert {name.rpartition(".")[2]: doc for name, doc in found.items()} == expected


@pytest.mark.parametrize("kind", EXPECTED)
def test_columns_that_are_added_have_the_descriptions_of_the_schema_and_others_keep_theirs(kind: str) -> None:
    schema, expected = EXPECTED[kind]
    table = table_of(Schema(iceberg.NestedField(1, "id", iceberg.LongType(), doc="mine")))
    found = UnknownColumns(table.schema, ConvertOptions()).find(with_text(rows(kind, schema))).fields
    added = {each.name: each for each in plan_evolution(table, found.root).add}
    assert {name: each.doc for name, each in added.items() if each.doc} == {
        name: doc for name, doc in expected.items() if name not in ("id", "zip")
    }
    assert kind != "avro" or added["place"].kind["fields"][0]["doc"] == expected["zip"]


def test_versions_that_differ_in_a_description_only_have_the_first_one() -> None:
    later = json.loads(json.dumps(AVRO).replace(" the number ", "changed"))
    both = [infer(rows("avro", one)) for one in (AVRO, later)]
    assert docs(both[0].merge(both[1]).to_schema())["id"] == "the number"
    assert docs(both[1].merge(both[0]).to_schema())["id"] == "changed"


def test_connects_schema_of_a_debezium_topic_in_avro_has_the_descriptions() -> None:
    found = schema_of(connect_schema(parse(json.dumps(AVRO))))
    assert found is not None
    assert [each.doc for each in found.fields] == ["the number", "where to", ""]
    assert [each.doc for each in found.fields[1].fields] == ["postal \\ud800 code", ""]
