"""Debezium's changes in Avro as Connect's converter writes them (its `AvroData`), made of those in JSON with schemas."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import fastavro

from services.registry import framed

__all__ = ["KEY_SCHEMA", "avro_schema", "encoded", "value_of"]

_KINDS = {"int16": "int", "int32": "int", "int64": "long"}
_LOGICAL = {
    "org.apache.kafka.connect.data.Decimal": "decimal",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
KEY_SCHEMA = {
    "type": "struct",
    "name": "shop.customers.Key",
    "optional": False,
    "fields": [{"type": "int64", "optional": False, "field": "id"}],
}


def avro_schema(schema: dict[str, Any], known: frozenset[str] = frozenset()) -> Any:
    """Convert Connect's schema to Avro's; a struct whose name is known is written by its name."""
    kind, name = schema["type"], schema.get("name", "")
    if kind == "struct":
        fields, inside = [], set(known)
        for each in schema["fields"]:
            found = avro_schema(each, frozenset(inside))
            default = {"default": None} if isinstance(found, list) else {}
            fields.append({"name": each["field"], "type": found, **default})
            inside |= {each["name"]} if each["type"] == "struct" else set()
        space, _, short = name.rpartition(".")
        record = {"type": "record", "name": short, "namespace": space, "fields": fields, "connect.name": name}
        found = name if name in known else record
    elif kind == "array":
        found = {"type": "array", "items": avro_schema(schema["items"])}
    elif kind == "map":
        found = {"type": "map", "values": avro_schema(schema["values"])}
    else:
        parameters = schema.get("parameters", {})
        more = {"connect.name": name, "connect.version": 1} if name else {}
        more |= {"connect.parameters": parameters} if parameters else {}
        more |= {"connect.type": kind} if kind == "int16" else {}
        if logical := _LOGICAL.get(name):
            more["logicalType"] = logical
        if logical == "decimal":
            more |= {"scale": int(parameters["scale"]), "precision": int(parameters.get(_DIGITS, 64))}
        plain = _KINDS.get(kind, kind)
        found = {"type": plain, **more} if more else plain
    return ["null", found] if schema.get("optional") else found


_DIGITS = "connect.decimal.precision"


def value_of(schema: dict[str, Any], value: Any) -> Any:
    """Return a value of Connect's JSON as fastavro takes it."""
    if value is None:
        return None
    match schema["type"]:
        case "struct":
            return {each["field"]: value_of(each, value.get(each["field"])) for each in schema["fields"]}
        case "array":
            return [value_of(schema["items"], each) for each in value]
        case "map":
            return {key: value_of(schema["values"], each) for key, each in value.items()}
        case "bytes":
            return base64.b64decode(value)
    return value


def encoded(number: int, schema: dict[str, Any], values: list[dict[str, Any]]) -> list[bytes]:
    """Return values of Connect's JSON with the id of their schema before them."""
    text = json.dumps(avro_schema(schema)).replace('"logicalType"', '"told"')  # the bytes are those of the base type
    parsed = fastavro.parse_schema(json.loads(text))
    found = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value_of(schema, value))
        found.append(framed(number, out.getvalue()))
    return found
