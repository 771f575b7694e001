"""A value has the same hash wherever it comes from: each format and source that knows its type, both images, and keys."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from calve.event.columns import EVENT, SCHEMA, TYPED
from calve.event.envelope.decoder import RECORD_KEY, EnvelopeDecoder, Envelopes
from calve.event.envelope.exact import RequestedAttributes
from calve.event.typed import with_text
from calve.event.typed_schema import declaration
from calve.processors.mask import ColumnMask, MaskColumns
from calve.processors.masking import Masker, Masks
from calve.serde.decoder import SchemaDecoder
from calve.serde.settings import SchemaSettings, Serde
from calve.sources.database.table import Column
from calve.sources.postgres.values import typed_rows
from event.envelope.debezium import envelope, field, schema, unscaled, wrapped
from kit.debezium_avro import avro_schema
from kit.debezium_avro import encoded as in_avro
from serde.avro.values import encoded
from serde.protobuf.official import message_class
from services.registry import Registry, framed

KEY = "0123456789abcdef"
BYTES, MOMENT = b"\x00\xff", datetime.datetime(2024, 2, 29, 1, 2, 3, 500_000)
ID = UUID("6f1c7c4e-7d6a-4f0f-9b1e-2f6f1f0a7c11")
TEXTS = {
    "long": "-9007199254740993",
    "int": "7",
    "dec": "12.50",
    "text": 'é"\\\n',
    "uuid": str(ID),
    "day": "2024-02-29",
    "at": "2024-02-29T01:02:03.5",
    "atz": "2024-02-29T01:02:03.5Z",
    "ok": "true",
    "raw": "AP8=",
    "real": "0.5",
    "zero": "-0.0",
    "whole": "5.0",
    "huge": "1e+22",
}
"""What is hashed: the text that a column of strings has."""
VALUES: dict[str, Any] = {
    "long": -9007199254740993,
    "int": 7,
    "dec": Decimal("12.50"),
    "text": TEXTS["text"],
    "uuid": ID,
    "day": MOMENT.date(),
    "at": MOMENT,
    "atz": MOMENT.replace(tzinfo=datetime.UTC),
    "ok": True,
    "raw": BYTES,
    "real": 0.5,
    "zero": -0.0,
    "whole": 5.0,
    "huge": 1e22,
}
ARROW = {
    "long": pa.int64(),
    "int": pa.int32(),
    "dec": pa.decimal128(9, 2),
    "text": pa.string(),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "atz": pa.timestamp("us", "UTC"),
    "ok": pa.bool_(),
    "raw": pa.binary(),
    "real": pa.float32(),
    **dict.fromkeys(("zero", "whole", "huge"), pa.float64()),
}
MICROS = 1_709_168_523_500_000
CONNECT: list[tuple[dict[str, Any], Any]] = [
    (field("long", "int64"), VALUES["long"]),
    (field("int", "int32"), 7),
    (field("dec", "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"}), unscaled(1250)),
    (field("text", "string"), TEXTS["text"]),
    (field("uuid", "string", "io.debezium.data.Uuid"), str(ID)),
    (field("day", "int32", "io.debezium.time.Date"), 19_782),
    (field("at", "int64", "io.debezium.time.MicroTimestamp"), MICROS),
    (field("atz", "string", "io.debezium.time.ZonedTimestamp"), TEXTS["atz"]),
    (field("ok", "boolean"), True),
    (field("raw", "bytes"), TEXTS["raw"]),
    (field("real", "float"), 0.5),
    (field("zero", "double"), -0.0),
    (field("whole", "double"), 5.0),
    (field("huge", "double"), 1e22),
]
COLUMNS, ROW = [column for column, _ in CONNECT], {column["field"]: value for column, value in CONNECT}
PLAIN = {"long", "int", "text", "uuid", "ok"}
"""Columns of keys and of formats without types that mean the same in each."""
KINDS = ["long", "int", "decimal(9, 2)", "string", "uuid", "date", "timestamp", "timestamptz", "boolean", "binary"]
KINDS += ["float", "double", "double", "double"]
SERVER = ["-9007199254740993", "7", "12.50", TEXTS["text"], str(ID), "2024-02-29", "2024-02-29 01:02:03.5"]
SERVER += ["2024-02-29 01:02:03.5+00", "t", "\\x00ff", "0.5", "-0", "5", "1e+22"]
PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Row { sint64 long = 1; int32 int = 2;
  string text = 4; google.protobuf.Timestamp atz = 8; bool ok = 9; bytes raw = 10; float real = 11; double zero = 12;
  double whole = 13; double huge = 14; }"""
AVRO_KINDS: dict[str, Any] = {
    "long": "long",
    "int": "int",
    "dec": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "text": "string",
    "uuid": {"type": "string", "logicalType": "uuid"},
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "local-timestamp-micros"},
    "atz": {"type": "long", "logicalType": "timestamp-micros"},
    "ok": "boolean",
    "raw": "bytes",
    "real": "float",
    **dict.fromkeys(("zero", "whole", "huge"), "double"),
}
AVRO = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in AVRO_KINDS.items()]}


def rows_of(*events: Any) -> pa.Table:
    return pa.table({EVENT: pa.array([json.dumps(event).encode() for event in events], pa.binary())})


def changes(*events: Any, shape: str = "debezium") -> pa.Table:
    return EnvelopeDecoder(Envelopes(shape)).decode(rows_of(*events)).rows


def typed(struct: pa.StructArray) -> pa.Table:
    declared = pa.array([declaration(pa.schema(struct.type.fields))] * len(struct)).dictionary_encode()
    return pa.table({TYPED: struct, SCHEMA: declared})


def arrow() -> pa.Table:
    columns = {name: pa.array([VALUES[name]], kind) for name, kind in ARROW.items()}
    columns["uuid"] = pa.array([ID.bytes], pa.uuid())
    return typed(pa.table(columns).to_struct_array().combine_chunks())


def database(*more: dict[str, str]) -> pa.Table:
    """Return rows of PostgreSQL's texts: the usual one, and others with other texts in some columns."""
    columns = [Column(name, at, kind, kind, 0, -1) for at, (name, kind) in enumerate(zip(TEXTS, KINDS, strict=True))]
    rows = [SERVER, *([row.get(name, text) for name, text in zip(TEXTS, SERVER, strict=True)] for row in more)]
    [(_, struct)] = typed_rows(columns, [pa.array(texts) for texts in zip(*rows, strict=True)])
    return typed(struct.slice(0, 1))


def decoded(registry: Registry, format: Any, kind: str, written: Any, value: bytes) -> pa.Table:
    number = registry.register("s", written, kind=kind)
    serde = Serde(format, SchemaSettings(registry_url=registry.url), ("s",))
    return SchemaDecoder(serde).decode(pa.table({EVENT: pa.array([framed(number, value)], pa.binary())})).rows


def protobuf(registry: Registry) -> pa.Table:
    message = message_class({"row.proto": PROTO}, "Row")()
    for name, value in VALUES.items():
        if name == "atz":
            message.atz.FromDatetime(value)  # type: ignore[attr-defined]
        elif name in message.DESCRIPTOR.fields_by_name:
            setattr(message, name, value)
    return decoded(registry, "protobuf", "PROTOBUF", PROTO, b"\0" + message.SerializeToString())


def debezium_in_avro(registry: Registry) -> pa.Table:
    number = registry.register("s", avro_schema(schema(COLUMNS)))
    payload = {"before": ROW, "after": ROW, "op": "u", "ts_ms": 1}
    [value] = in_avro(number, schema(COLUMNS), [payload])
    rows = decoded(registry, "debezium", "AVRO", avro_schema(schema(COLUMNS)), value[5:])
    return EnvelopeDecoder(Envelopes("debezium")).decode(rows).rows


def deletes_by_key() -> pa.Table:
    """Return rows of deletes that have nothing but a key, with a schema and without."""
    columns = {"type": "struct", "optional": False, "fields": COLUMNS}
    keys = [json.dumps({"schema": columns, "payload": ROW}), json.dumps({"schema": None, "payload": JSON_ROW})]
    events = rows_of(*[envelope("d", None, None)] * 2).append_column(RECORD_KEY, pa.array(keys))
    wanted = RequestedAttributes(frozenset(), frozenset(TEXTS))
    return EnvelopeDecoder(Envelopes("debezium", wanted)).decode(events).rows


JSON_ROW = {name: VALUES[name] if name in ("long", "int", "ok", "real", "zero", "whole", "huge") else text for name, text in TEXTS.items()}  # fmt: skip
PLAIN_ROW = {name: JSON_ROW[name] for name in PLAIN}
DOCUMENT = {
    "long": {"$numberLong": TEXTS["long"]},
    "int": {"$numberInt": "7"},
    "dec": {"$numberDecimal": "12.50"},
    "text": TEXTS["text"],
    "uuid": {"$binary": {"base64": base64.b64encode(ID.bytes).decode(), "subType": "04"}},
    "atz": {"$date": {"$numberLong": str(MICROS // 1000)}},
    "ok": True,
    "raw": {"$binary": {"base64": TEXTS["raw"], "subType": "00"}},
    "zero": {"$numberDouble": "-0.0"},
    "whole": {"$numberDouble": "5.0"},
    "huge": {"$numberDouble": "1e+22"},
}
MONGODB = envelope("u", json.dumps(DOCUMENT), json.dumps(DOCUMENT), connector="mongodb", collection="c")
OTHERS = {"day": "infinity", "at": "infinity", "atz": "-infinity", "dec": "NaN", "real": "?", "whole": "?"}
FORMS: dict[str, Callable[[Registry], pa.Table]] = {
    "JSON": lambda _: rows_of(JSON_ROW),
    "columns of Parquet, Arrow or Iceberg": lambda _: arrow(),
    "the same as text": lambda _: with_text(arrow()),
    "a database": lambda _: database(),
    "a database beside values without a place in their types": lambda _: database(OTHERS),
    "Avro": lambda registry: decoded(registry, "avro", "AVRO", AVRO, encoded(AVRO, VALUES)),
    "Protobuf": protobuf,
    "Debezium with a schema": lambda _: changes(wrapped(COLUMNS, envelope("u", ROW, ROW))),
    "Debezium in Avro": debezium_in_avro,
    "deletes by their keys": lambda _: deletes_by_key(),
    "Debezium without a schema": lambda _: changes(envelope("u", PLAIN_ROW, PLAIN_ROW), envelope("d", PLAIN_ROW)),
    "Maxwell": lambda _: changes(
        {"database": "d", "table": "t", "type": "update", "data": PLAIN_ROW, "old": {"int": 7}}, shape="maxwell"
    ),
    "DMS": lambda _: changes(
        {"data": PLAIN_ROW, "before-image": PLAIN_ROW, "metadata": {"operation": "update", "table-name": "t"}},
        shape="dms",
    ),
    "MongoDB": lambda _: changes(MONGODB),
}
LACKING = {"Protobuf": {"dec", "uuid", "day", "at"}, "MongoDB": {"day", "at", "real"}}
UNTYPED = {"Debezium without a schema", "Maxwell", "DMS"}


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry() as started:
        yield started


@pytest.mark.parametrize("form", FORMS)
def test_equal_values_have_equal_hashes_in_every_form(form: str, registry: Registry) -> None:
    rows = FORMS[form](registry)
    masks = Masks((MaskColumns(columns=[ColumnMask(names=[*TEXTS], action="hash")], key=KEY),))
    masked = Masker(masks).mask(rows)
    assert (len(masked.malformed), len(masked.failed)) == (0, 0)
    events = [json.loads(text) for text in with_text(masked.rows)[EVENT].to_pylist()]
    names = PLAIN if form in UNTYPED else TEXTS.keys() - LACKING.get(form, set())
    expected = {name: hmac.digest(KEY.encode(), TEXTS[name].encode(), hashlib.sha256).hex() for name in names}
    assert len(events) == len(rows) > 0
    for event in events:
        assert {name: value for name, value in event.items() if name in TEXTS} == expected
