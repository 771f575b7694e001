"""Defaults of fields in schemas are those of new columns in tables of format version 3."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from calve.columns.connect_schema import node_of
from calve.columns.evolve import new_schema
from calve.columns.options import ConvertOptions
from calve.convert.defaults import Defaults
from calve.event.columns import EVENT, TYPED
from calve.event.typed import with_text
from calve.serde.avro.format import FORMAT as AVRO
from calve.serde.decoder import SchemaDecoder
from calve.serde.format import DecodedPart, WriterSchema
from calve.serde.json_schema import FORMAT as JSON_SCHEMA
from calve.serde.protobuf.format import FORMAT as PROTOBUF
from calve.serde.settings import SchemaSettings, Serde
from calve.table.loaded import Table
from kit.running import Calve
from services.registry import Registry, framed

LOGICAL = {
    "date": ("int", 19_000),
    "timestamp-micros": ("long", 1_700_000_000_123_456),
    "local-timestamp-micros": ("long", 1_700_000_000_123_456),
}
DEFAULTS: dict[str, tuple[Any, Any]] = {
    "boolean": ("boolean", True),
    "int": ("int", -7),
    "long": ("long", 1 << 62),
    "float": ("float", 0.1),
    "double": ("double", 1e300),
    "string": ("string", "it's \"\n ü"),
    "empty": ("string", ""),
    "bytes": ("bytes", "\u0000ÿ"),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, "\u0001þ"),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    "long decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}, "\u0001" * 15),
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "\u00ff\u0000"),
    "uuid": ({"type": "string", "logicalType": "uuid"}, "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    "nullable": (["int", "null"], 3),
    **{name: ({"type": kind, "logicalType": name}, value) for name, (kind, value) in LOGICAL.items()},
}


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, *fields]})


def decoded(form: Any, schema: WriterSchema, value: bytes, reader: WriterSchema | None = None) -> DecodedPart:
    return form.plan(schema, reader, list).decode(pa.array([value]), 0).parts[0]


def text_of(part: DecodedPart) -> bytes:
    return with_text(pa.table({TYPED: part.rows}))[EVENT][0].as_py()


def filled(part: DecodedPart, event: bytes) -> bytes:
    """What is written for an event into a table with the columns of a schema."""
    schema = new_schema(node_of(part.declaration)).model_dump_json()
    table = Table("n.t", "", "", schema, '{"spec-id":0,"fields":[]}', format_version=3)
    return Defaults(table, ConvertOptions()).fill(pa.table({EVENT: [event]}))[EVENT][0].as_py()


@pytest.mark.parametrize("name", DEFAULTS)
def test_an_avro_default_is_what_avro_reads_where_the_field_is_missing(name: str) -> None:
    kind, default = DEFAULTS[name]
    newer = WriterSchema(record({"name": "x", "type": kind, "default": default}))
    part = decoded(AVRO, WriterSchema(record()), b"\x02", newer)
    numbers = str if "decimal" in name else float  # a decimal's default is a text: no digit is lost
    written = filled(part, b'{"id":1}').replace(b"+00:00", b"Z")
    assert json.loads(written) == json.loads(text_of(part), parse_float=numbers)


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (["null", "int"], None),
        (["null", "int", "string"], None),
        ({"type": "array", "items": "int"}, [1]),
        ({"type": "map", "values": "int"}, {}),
    ],
)
def test_a_default_that_no_column_can_have_is_none(kind: Any, default: Any) -> None:
    newer = WriterSchema(record({"name": "x", "type": kind, "default": default}))
    part = decoded(AVRO, WriterSchema(record()), b"\x02", newer)
    assert filled(part, b'{"id":1}') == b'{"id":1}'


def test_protobuf_has_only_the_defaults_that_it_says() -> None:
    text = """syntax = "proto2"; message M {
      optional int32 x = 1 [default = -7]; optional string s = 2 [default = "a\\"b"];
      optional E e = 3 [default = B]; optional bytes b = 4 [default = "\\001"]; optional int32 n = 5;
      optional double inf = 6 [default = inf]; enum E { A = 0; B = 1; } }"""
    part = decoded(PROTOBUF, WriterSchema(text, kind="PROTOBUF"), b"")
    assert json.loads(filled(part, b'{"n":null}')) == {
        "n": None,
        **{name: value for name, value in json.loads(text_of(part)).items() if name in "xseb"},
    }


def test_json_schema_has_defaults_of_scalars() -> None:
    properties = {
        "x": {"type": "integer", "default": 1 << 60},
        "s": {"anyOf": [{"type": "string", "default": "a"}, {"type": "null"}]},
        "day": {"type": "string", "format": "date", "default": "2024-02-03"},
        "wrong": {"type": "integer", "default": "many"},
        "o": {"type": "object", "properties": {"y": {"type": "boolean", "default": False}}, "default": {}},
    }
    schema = WriterSchema(json.dumps({"type": "object", "properties": properties}), kind="JSON")
    event = b'{"o":{"z":1}}'
    part = decoded(JSON_SCHEMA, schema, event)
    expected = {"x": 1 << 60, "s": "a", "day": "2024-02-03", "o": {"y": False, "z": 1}}
    assert json.loads(filled(part, event)) == expected


def test_versions_in_one_batch_keep_apart_what_lacks_a_field_with_a_default() -> None:
    with Registry() as registry:
        kinds = [record(), record({"name": "x", "type": "int", "default": 5})]
        first, newer = (registry.register("s", kind) for kind in kinds)
        values = [framed(newer, b"\x02\x0c"), framed(first, b"\x04")]
        decoder = SchemaDecoder(Serde("avro", SchemaSettings(registry_url=registry.url), ("s",)))
        rows = decoder.decode(pa.table({EVENT: pa.array(values, pa.binary())})).rows
    assert rows[EVENT].to_pylist() == [b'{"id":1,"x":6}', b'{"id":2}']


def avro_file(path: Path, schema: str, *records: dict[str, Any]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, json.loads(schema), records)


YAML = """
p:
  source: {file: {path: "*.avro"}}
  sink:
    - iceberg:
        table_identifier: n.t
        auto_create: true
        schema_evolution: true
        table_properties: {format-version: 3}
"""


@pytest.mark.spark
def test_spark_reads_the_default_in_rows_that_are_older_than_the_column(
    calve: Callable[..., Calve], tmp_path: Path
) -> None:
    pipeline = calve(YAML)
    avro_file(pipeline.folder / "a.avro", record(), {"id": 1})
    assert pipeline.once() == 0
    inner = {"type": "record", "name": "I", "fields": [{"name": "y", "type": "string", "default": "b"}]}
    fields = [{"name": "x", "type": "int", "default": 5}, {"name": "in", "type": inner}]
    avro_file(pipeline.folder / "b.avro", record(*fields), {"id": 2, "x": 6, "in": {"y": "c"}})
    assert pipeline.once() == 0
    avro_file(pipeline.folder / "c.avro", record(), {"id": 3})
    assert pipeline.once() == 0
    rows = pipeline.shared_spark().sql("SELECT id, x, `in`.y FROM lakehouse.n.t ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, 5, None), (2, 6, "c"), (3, 5, None)]
