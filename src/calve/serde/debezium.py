"""The format `debezium`: Avro of Debezium's connectors becomes the JSON that Connect's JSON converter writes.

Connect's Avro converter has Connect's schema in properties of the Avro schema (`connect.name`, `connect.parameters`).
Each text has this schema beside its payload, so the envelopes' decoder (`event.envelope`) treats both the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from calve.event.duckdb_session import one_array
from calve.event.envelope.logical import DECIMAL
from calve.event.json_text import to_json
from calve.serde.avro.format import AvroPlan
from calve.serde.avro.plan import compiled
from calve.serde.avro.schema import RecordField, Type, parse_schema
from calve.serde.format import DecodedValues, DecodePlan, UnsupportedSchemaError, WriterSchema

__all__ = ["FORMAT", "connect_schema"]

_ROW = "after"
_KINDS = {"int": "int32", "long": "int64", "fixed": "bytes", "enum": "string", "record": "struct"}
_LOGICAL = {
    ("int", "date"): "org.apache.kafka.connect.data.Date",
    ("int", "time-millis"): "org.apache.kafka.connect.data.Time",
    ("long", "time-micros"): "io.debezium.time.MicroTime",
    ("long", "timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
    ("long", "timestamp-micros"): "io.debezium.time.MicroTimestamp",
    ("bytes", "decimal"): DECIMAL,
    ("string", "uuid"): "io.debezium.data.Uuid",
}
"""What Avro's logical types mean in a schema without Connect's names."""


class _TextPlan:
    """Decodes records to texts.

    Args:
        records: Decodes them to columns, without logical types.
        schema: Connect's schema as JSON.
    """

    def __init__(self, records: AvroPlan, schema: str) -> None:
        self._records = records
        self._start = f'{{"schema":{schema},"payload":'.encode()

    def decode(self, values: pa.Array, start: int) -> DecodedValues:
        """Decode values; see `calve.serde.format.DecodePlan`."""
        decoded = self._records.decode(values, start)
        return decoded._replace(parts=[part._replace(rows=self._texts(part.rows)) for part in decoded.parts])

    def _texts(self, rows: pa.StructArray) -> pa.Array:
        payloads = one_array(to_json(pa.Table.from_struct_array(rows)))
        return pc.binary_join_element_wise(self._start, payloads, b"}", b"")


class _Debezium:
    def plan(
        self, schema: WriterSchema, reader: WriterSchema | None, earlier: Callable[[], Sequence[WriterSchema]]
    ) -> DecodePlan:
        writer = parse_schema(schema, with_logical=False)
        chosen = writer if reader is None else parse_schema(reader, with_logical=False)
        records = AvroPlan(compiled(writer, chosen))
        return _TextPlan(records, json.dumps(_of_row(connect_schema(chosen)), separators=(",", ":")))


FORMAT = _Debezium()
"""Reads envelopes, and the keys of their records."""


def connect_schema(kind: Type) -> dict[str, Any]:
    """Return Connect's schema of a type, as `event.envelope.schema` reads it.

    Args:
        kind: A type that was parsed without logical types.

    Raises:
        UnsupportedSchemaError: It has a union of several types, which no connector writes.
    """
    if kind.kind == "union":
        types = [part for part in kind.parts if part.kind != "null"] or [kind.parts[0]]
        if len(types) > 1:
            raise UnsupportedSchemaError("it has a union of several types, which is none of Debezium's")
        return connect_schema(types[0])
    schema: dict[str, Any] = {"type": _KINDS.get(kind.kind, kind.kind), **_named(kind)}
    match kind.kind:
        case "record":
            schema["fields"] = [
                _with_doc(part, {**connect_schema(part.type), "field": part.name}) for part in kind.fields
            ]
        case "array":
            schema["items"] = connect_schema(kind.parts[0])
        case "map":
            schema |= {"keys": {"type": "string"}, "values": connect_schema(kind.parts[0])}
    return schema


def _with_doc(field: RecordField, schema: dict[str, Any]) -> dict[str, Any]:
    doc = field.doc or schema.get("doc") or ""
    return {**schema, "doc": doc} if doc else schema


def _named(kind: Type) -> dict[str, Any]:
    """Return the name of a logical type and its parameters."""
    given = kind.properties
    name = given.get("connect.name") or _LOGICAL.get((kind.kind, str(given.get("logicalType"))), kind.name)
    if name != DECIMAL:
        return {"name": name} if name else {}
    parameters = given.get("connect.parameters")
    if not isinstance(parameters, Mapping):
        parameters = {"connect.decimal.precision": given.get("precision")}
    return {"name": name, "parameters": {"scale": given.get("scale"), **parameters}}


def _of_row(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an envelope's schema that describes its rows; the schema of a key is returned as it is."""
    rows = [field for field in schema["fields"] if field["field"] == _ROW and field["type"] == "struct"]
    return {"type": "struct", "fields": rows} if rows else schema
