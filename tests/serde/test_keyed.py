"""Keys with a schema of the registry are columns of its types, and records without a value are kept for them."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest

from calve.columns.infer import infer
from calve.event.columns import EVENT, KEY
from calve.event.envelope.decoder import RECORD_KEY, EnvelopeDecoder, Envelopes
from calve.event.keyed.decoder import KeyedDecoder, RecordKeys
from calve.serde.decoder import SchemaDecoder
from calve.serde.settings import SchemaSettings, Serde
from serde.avro.values import encoded
from services.registry import Registry, framed

ROW = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "int"}]}
AVRO = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}, {"name": "shop", "type": "string"}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
JSON = {"type": "object", "properties": {"id": {"type": "integer"}, "day": {"type": "string", "format": "date"}}}
PROTO = 'syntax = "proto3"; message Key { uint32 id = 1; bool old = 2; }'
KEYS: dict[str, tuple[str, Any, bytes, list[str], str]] = {
    "avro record": ("avro", AVRO, encoded(AVRO, {"id": 7, "shop": "x"}), ["int", "string"], '{"id":7,"shop":"x"'),
    "avro long": ("avro", "long", encoded("long", 7), ["long"], '{"kafka_key":7'),
    "avro decimal": ("avro", DECIMAL, b"\x02\x7d", ["decimal(9, 2)"], '{"kafka_key":1.25'),
    "avro string": ("avro", "string", encoded("string", "7"), ["string"], '{"kafka_key":"7"'),
    "json_schema": (
        "json_schema",
        JSON,
        b'{"id":7,"day":"2026-01-01"}',
        ["long", "date"],
        '{"id":7,"day":"2026-01-01"',
    ),
    "protobuf": ("protobuf", PROTO, b"\0\x08\x07\x10\x01", ["long", "boolean"], '{"id":7,"old":true'),
}
_KINDS = {"avro": "AVRO", "json_schema": "JSON", "protobuf": "PROTOBUF"}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_with_a_schema_gives_columns_of_its_types(name: str) -> None:
    form, schema, key, kinds, start = KEYS[name]
    with Registry() as registry:
        values = [framed(registry.register("s-value", ROW), b"\x02"), None]
        number = registry.register("s-key", schema, kind=_KINDS[form])
        keys = [_in_column(framed(number, key))] * 2
        serde = Serde("avro", SchemaSettings(registry_url=registry.url, key_format=form), ("s-value",), is_keyed=True)  # type: ignore[arg-type]
        decoded = SchemaDecoder(serde).decode(
            pa.table({EVENT: pa.array(values, pa.binary()), RECORD_KEY: pa.array(keys, pa.string())})
        )
    assert decoded.rejects.num_rows == 0
    rows = KeyedDecoder(RecordKeys("kafka_key")).decode(decoded.rows).rows
    assert [event.decode() for event in rows[EVENT].to_pylist()] == [start + ',"n":1}', start + "}"]
    assert rows["operation"].to_pylist() == ["insert", "delete"]
    inferred = infer(rows).with_key(rows[KEY][0].as_py())
    columns = [inferred.to_schema().find_type(column) for column in inferred.key_columns]
    assert [str(column) for column in columns] == kinds


def test_records_of_connect_without_a_value_are_kept_for_their_keys() -> None:
    nothing = b'{"schema":{"type":"struct","fields":[]},"payload":null}'
    values, keys = [b'{"schema":null,"payload":{"n":1}}', None, nothing, b"null"], ["a", "b", "c", "d"]
    events = pa.table({EVENT: pa.array(values, pa.binary()), RECORD_KEY: pa.array(keys, pa.string())})
    decoded = EnvelopeDecoder(Envelopes("connect_json", keeps_empty=True)).decode(events)
    rows = KeyedDecoder(RecordKeys("k")).decode(decoded.rows).rows
    assert [event.decode() for event in rows[EVENT].to_pylist()] == [
        '{"k":"a","n":1}',
        *(f'{{"k":"{key}"}}' for key in "bcd"),
    ]
    assert rows["operation"].to_pylist() == ["insert", "delete", "delete", "delete"]
    assert (decoded.skipped, rows["_original"].to_pylist()) == (0, values)


def _in_column(key: bytes) -> str:
    """Return a key as the source has it."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return base64.b64encode(key).decode()
