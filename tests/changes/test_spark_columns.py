"""Which tables Spark reads itself, and the types of all others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calve.changes.spark_columns import spark_columns, with_binary_places
from calve.table.kinds import PRIMITIVES

LACKING = {"time": "string", "timestamp_ns": "string", "timestamptz_ns": "string"}
PLACES = {"geometry(OGC:CRS84)": "binary", "geometry": "binary", "geography(OGC:CRS84, spherical)": "binary"}
KINDS = [row.text.replace("(P,S)", "(9,2)").replace("[L]", "[3]") for row in PRIMITIVES] + list(PLACES)


def places(kind: str) -> list[Any]:
    """The type as a column, and in each nested type."""
    of_list = {"type": "list", "element-id": 3, "element": kind, "element-required": False}
    parts = {"key-id": 3, "key": "string", "value-id": 4, "value": kind, "value-required": False}
    struct = {"type": "struct", "fields": [{"id": 3, "name": "time", "required": False, "type": kind}]}
    return [kind, struct, of_list, {"type": "map", **parts}, {**of_list, "element": struct, "element-id": 5}]


def schema(kind: Any) -> str:
    field = {"id": 2, "name": "time", "required": False, "type": kind}
    return json.dumps({"type": "struct", "schema-id": 0, "fields": [field]})


@pytest.mark.parametrize("kind", KINDS)
def test_types_that_spark_lacks_become_text_or_binary_at_any_depth(kind: str) -> None:
    expected = (LACKING | PLACES).get(kind, kind)
    for at, (nested, converted) in enumerate(zip(places(kind), places(expected), strict=True)):
        columns = spark_columns(schema(nested))
        assert json.loads(columns.schema_json) == json.loads(schema(converted))
        fails_here = (kind == "unknown" and at == 0) or (kind == "variant" and at > 1)
        assert columns.is_readable == (kind == expected and not fails_here)
        known_places = schema(places(PLACES.get(kind, kind))[at])
        assert json.loads(with_binary_places(schema(nested))) == json.loads(known_places)


def test_defaults_are_left_to_the_readers_of_files() -> None:
    field = {"id": 1, "name": "default", "required": True, "type": "time", "initial-default": "12:00:00"}
    columns = spark_columns(json.dumps({"type": "struct", "fields": [{**field, "write-default": "12:00:00"}]}))
    assert json.loads(columns.schema_json)["fields"] == [
        {"id": 1, "name": "default", "required": True, "type": "string"}
    ]
