"""Messages of Protobuf, against Protobuf's own compiler and library."""

from __future__ import annotations

import base64
import json
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import Message

from calve.columns.fields import ALL_FIELDS
from calve.convert.scalar import MismatchError
from calve.errors import SinkRefusedError
from calve.event.exact_json import parse_object
from calve.serde.protobuf.plan import plan
from calve.serde.protobuf.schema import Schema
from calve.serde.protobuf.well_known import WELL_KNOWN
from calve.serde.settings import SchemaSettings
from calve.sinks.kafka.encoder import Encoding, RecordEncoder
from calve.sinks.kafka.protobuf import indexes_prefix, protobuf_writer
from calve.sinks.kafka.settings import KafkaSinkSettings
from calve.sinks.kafka.sink import record_options
from calve.sinks.records.shape import compile_shape
from serde.protobuf.official import Json, message_class, values
from serde.protobuf.random_messages import random_message
from services.registry import Registry

SCALARS = [
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "string", "bytes",
]  # fmt: skip
KEYS = [kind for kind in SCALARS if kind not in ("double", "float", "bytes")]
PROTO3 = f"""
syntax = "proto3"; package t;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto"; import "google/protobuf/wrappers.proto"; import "google/protobuf/empty.proto";
message All {{
  {"".join(f"{kind} s_{kind} = {at}; " for at, kind in enumerate(SCALARS, 1))}
  {"".join(f"optional {kind} o_{kind} = {at}; " for at, kind in enumerate(SCALARS, 101))}
  {"".join(f"repeated {kind} r_{kind} = {at}; " for at, kind in enumerate(SCALARS, 201))}
  {"".join(f"map<{kind}, Inner> m_{kind} = {at}; " for at, kind in enumerate(KEYS, 301))}
  {"".join(f"map<string, {kind}> v_{kind} = {at}; " for at, kind in enumerate(SCALARS, 401))}
  E e = 500; optional E oe = 501; repeated E re = 502; map<string, E> me = 503;
  Inner inner = 510; repeated Inner inners = 511;
  oneof one {{ int32 a = 520; string b = 521; Inner c = 522; }}
  google.protobuf.Timestamp at = 530; repeated google.protobuf.Timestamp ats = 531;
  google.protobuf.Duration long = 532; google.protobuf.Empty nothing = 533;
  google.protobuf.Struct object = 534; google.protobuf.ListValue list = 535;
  google.protobuf.Int64Value w_long = 540; google.protobuf.StringValue w_text = 541;
  google.protobuf.DoubleValue w_double = 542; google.protobuf.BytesValue w_bytes = 543;
  message Inner {{ int64 n = 1; optional string t = 2; repeated int32 l = 2000; }}
  enum E {{ ZERO = 0; ONE = 1; MINUS = -1; }}
}}
"""
PROTO2 = """
syntax = "proto2"; package t;
message All { required int32 n = 1; optional string t = 2; optional int32 d = 3 [default = 7]; repeated sint64 l = 4;
  optional E e = 5; enum E { A = 1; B = 2; } }
"""
TIMES = 'syntax = "proto3"; package t; import "{file}"; message All {{ {kind} v = 1; }}'


def write(text: str, event: str, imports: dict[str, str] | None = None) -> bytes:
    schema, out = Schema(text, imports or {}), bytearray()
    protobuf_writer(plan(schema, schema.named("t.All")))(parse_object(event), out)
    return bytes(out)


def read(text: str, event: str) -> Message:
    """Return what Protobuf's own library reads of what is written for an event."""
    return message_class({"t.proto": text}, "t.All").FromString(write(text, event))


def as_json(value: Any) -> Any:
    """Return a value of `official.values` as JSON that means it."""
    match value:
        case Json():
            return value.value
        case dict():
            return {as_name(name): as_json(item) for name, item in value.items()}
        case list():
            return [as_json(item) for item in value]
        case bytes():
            return base64.b64encode(value).decode()
        case float() if not math.isfinite(value):
            return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    return value


def as_name(name: Any) -> str:
    return json.dumps(name) if isinstance(name, bool) else str(name)


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("text", [PROTO3, PROTO2])
def test_what_is_written_is_the_message_that_others_would_write(text: str, share: float) -> None:
    kind, rnd = message_class({"t.proto": text}, "t.All"), random.Random(7)
    schema = Schema(text, {})
    writer = protobuf_writer(plan(schema, schema.named("t.All")))
    for _ in range(60):
        message = random_message(rnd, kind, share)
        if text == PROTO2:
            message.n = 5  # type: ignore[attr-defined]
            message.d = 9  # type: ignore[attr-defined]
        row = values(message)
        if share < 1:  # a field that is missing is the same as a null, an empty list or map
            row = {name: value for name, value in row.items() if value not in (None, [], {}) or rnd.random() < 0.5}
        row = as_json(row)
        out = bytearray()
        writer(parse_object(json.dumps(row)), out)
        assert kind.FromString(bytes(out)).SerializeToString(deterministic=True) == message.SerializeToString(
            deterministic=True
        )


@pytest.mark.parametrize(
    ("file", "kind", "value", "expected"),
    [
        ("google/protobuf/timestamp.proto", "google.protobuf.Timestamp", "2026-11-28T10:00:00.123456789Z", (1795860000, 123456789)),
        ("google/protobuf/timestamp.proto", "google.protobuf.Timestamp", "1969-12-31T23:59:59.5+00:00", (-1, 500000000)),
        ("google/protobuf/timestamp.proto", "google.protobuf.Timestamp", "0001-01-01T00:00:00Z", (-62135596800, 0)),
        ("google/protobuf/duration.proto", "google.protobuf.Duration", "-PT1H0.5S", (-3600, -500000000)),
        ("google/protobuf/duration.proto", "google.protobuf.Duration", "PT-1.5S", (-1, -500000000)),
    ],
)  # fmt: skip
def test_times_keep_each_digit(file: str, kind: str, value: str, expected: tuple[int, int]) -> None:
    message: Any = read(TIMES.format(file=file, kind=kind), json.dumps({"v": value}))
    assert (message.v.seconds, message.v.nanos) == expected


def test_decimals_and_dates_are_the_messages_for_them() -> None:
    imports = [f'import "google/type/{name}.proto";' for name in ("date", "timeofday", "decimal")]
    text = f"""syntax = "proto3"; package t; {"".join(imports)} import "confluent/type/decimal.proto";
      message All {{ confluent.type.Decimal c = 1; google.type.Date d = 2; google.type.TimeOfDay t = 3;
                     google.type.Decimal g = 4; repeated confluent.type.Decimal l = 5; }}"""
    events = [
        {
            "c": "-12.50",
            "d": "2026-11-28",
            "t": "10:11:12.5",
            "g": "1e3",
            "l": ["0", "123456789012345678901234567890.1"],
        },
        {"c": {"value": "AQ==", "precision": 1, "scale": 0}, "d": {"year": 2026}},
    ]
    schema = Schema(text, {})
    writer = protobuf_writer(plan(schema, schema.named("t.All")))
    paths = [
        "confluent/type/decimal.proto",
        *(f"google/type/{name}.proto" for name in ("date", "timeofday", "decimal")),
    ]
    kind = message_class({"t.proto": text} | {path: WELL_KNOWN[path] for path in paths}, "t.All")
    messages: list[Any] = []
    for event in events:
        out = bytearray()
        writer(parse_object(json.dumps(event)), out)
        messages.append(kind.FromString(bytes(out)))
    first, second = messages

    def number(decimal: Any) -> Decimal:
        unscaled = Decimal(int.from_bytes(decimal.value, "big", signed=True))
        return Decimal(f"{unscaled}E{-decimal.scale}")

    assert (number(first.c), first.c.scale, first.c.precision) == (Decimal("-12.50"), 2, 4)
    assert [number(item) for item in first.l] == [Decimal(0), Decimal("123456789012345678901234567890.1")]
    assert (first.d.year, first.d.month, first.d.day, first.g.value) == (2026, 11, 28, "1e3")
    assert (first.t.hours, first.t.minutes, first.t.seconds, first.t.nanos) == (10, 11, 12, 500_000_000)
    assert (second.c.value, second.d.year) == (b"\1", 2026)


@pytest.mark.parametrize(
    ("text", "event", "reason"),
    [
        (PROTO3, '{"s_int32": 3000000000}', "s_int32: 3000000000 is not a valid int"),
        (PROTO3, '{"s_uint32": -1}', "s_uint32: -1 is not a valid uint32"),
        (PROTO3, '{"s_uint64": 18446744073709551616}', "s_uint64: 18446744073709551616 is not a valid uint64"),
        (PROTO3, '{"s_int32": null}', "s_int32: null is not a valid int32"),
        (PROTO3, '{"r_int32": null}', "r_int32: null is not a valid list"),
        (PROTO3, '{"r_string": ["a", null]}', "r_string: null is not a valid string"),
        (PROTO3, '{"m_int32": {"x": {}}}', "m_int32: 'x' is not a valid int"),
        (PROTO3, '{"e": "TWO"}', "e: 'TWO' is not a valid int"),
        (PROTO3, '{"a": 1, "b": "x"}', "a and b are of one oneof"),
        (PROTO3, '{"inner": {"x": 1}}', "inner: the schema has no field x"),
        (PROTO3, '{"at": "tomorrow"}', "at: 'tomorrow' is not an ISO 8601 date-time"),
        (PROTO3, '{"long": "1.5s"}', "long: '1.5s' is not a valid duration"),
        (PROTO3, '{"object": "[1]"}', "object: '[1]' is not a valid object"),
        (PROTO3, '{"s_string": "\\ud800"}', "s_string: "),
        (PROTO3, '{"object": {"\\ud800": 1}}', "object: "),
        (PROTO3, json.dumps({"list": json.loads("[" * 60 + "]" * 60)}), "list: the value is nested deeper"),
        (PROTO3, json.dumps({"list": "[" * 5000 + "]" * 5000}), "list: "),
        (PROTO2, "{}", "n: the field is missing"),
        (PROTO2, '{"n": null}', "n: null is not a valid int32"),
        (PROTO2, '{"n": 1, "d": null}', "d: null is not a valid int32"),
        (PROTO2, '{"n": 1, "e": "3"}', "e: '3' is not a valid value of E"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason(text: str, event: str, reason: str) -> None:
    with pytest.raises(MismatchError) as refused:
        write(text, event)
    assert reason in str(refused.value)


def test_a_missing_field_has_its_default_and_an_explicit_null_stays_absent() -> None:
    message: Any = read(PROTO2, '{"n": 1, "t": null}')
    assert (message.d, message.HasField("t"), message.HasField("d")) == (7, False, False)
    other: Any = read(PROTO3, '{"o_int32": null, "o_int64": 0}')
    assert (other.HasField("o_int32"), other.HasField("o_int64"), other.s_int32) == (False, True, 0)


NESTED = """syntax = "proto3"; package t; message A { message B {} message C { message D { int32 x = 1; } } }
message E { int32 y = 1; }"""


def test_the_indexes_of_a_message_are_its_places_in_the_file() -> None:
    schema = Schema(NESTED, {})
    named = {"": (0,), "t.A": (0,), "t.A.C": (0, 1), "t.A.C.D": (0, 1, 0), "t.E": (1,)}
    assert {name: schema.indexes(name) for name in named} == named
    assert indexes_prefix((0,)) == b"\0"
    assert indexes_prefix((1,)) == b"\2\2"
    assert indexes_prefix((0, 1, 0)) == b"\6\0\2\0"
    for name, indexes in named.items():
        assert not name or schema.message(indexes).name == name
    for name in ("A", "t.A.X", "t.AB", "t"):
        with pytest.raises(Exception, match=f"declares no message {name}"):
            schema.indexes(name)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as started:
        yield started


def encoded(
    registry: Registry, events: list[Any], one_topic: str | None = None, **options: Any
) -> list[tuple[Any, ...]]:
    """Return key, value and reason of what events become in the topic a."""
    key_format = options.pop("key_format", "text")
    schema = SchemaSettings(registry_url=registry.url, key_format=key_format)
    settings = KafkaSinkSettings(bootstrap_servers="b:1", topic="${/t}", schema=schema, **options)
    assert list(settings.check()) == []
    table = pa.table({"json": [json.dumps(event) for event in events]})
    records = compile_shape(record_options(settings), ()).records(table, ALL_FIELDS)
    key = "" if key_format == "text" else key_format
    names = settings.key_subject, settings.message, bool(settings.key_columns)
    encoder = RecordEncoder(Encoding(schema, settings.value_format, key, *names), one_topic)
    done = encoder.encode(("a",), np.zeros(len(events), np.int32), records)
    reasons = {reject["row"]: reject["reason"] for reject in done.rejects.to_pylist()}
    rows = zip(done.keys.to_pylist(), done.texts.to_pylist(), strict=True)
    return [(*pair, reasons.get(row)) for row, pair in enumerate(rows)]


def test_values_and_keys_begin_with_the_ids_of_their_schemas_and_deletes_keep_the_key(registry: Registry) -> None:
    value = registry.register("a-value", NESTED, "PROTOBUF").to_bytes(4, "big")
    long_key = registry.register("a-key", '{"type": "long"}').to_bytes(4, "big")
    text_key = registry.register("k", 'syntax = "proto3"; message K { string y = 1; }', "PROTOBUF").to_bytes(4, "big")
    events = [{"y": 5, "op": "delete"}, {"y": 6, "op": "insert"}, {"y": "x", "op": "insert"}]
    rows = encoded(
        registry, events, serde_format="protobuf", message="t.E", key="${/y}", key_format="avro", operation="${/op}"
    )
    assert [row[0] for row in rows] == [b"\0" + long_key + b"\x0a", b"\0" + long_key + b"\x0c", None]
    assert rows[0][1:] == (None, None)
    assert "the schema has no field op" in rows[1][2]
    assert "'x' is not a valid long" in rows[2][2]
    rows = encoded(registry, [{"y": 1}], serde_format="protobuf", message="t.E")
    assert rows == [(None, b"\0" + value + b"\2\2" + b"\x08\1", None)]
    options = {"key_columns": ["y"], "key_format": "protobuf", "key_subject": "k"}
    assert encoded(registry, [{"y": "é"}], **options) == [
        (b"\0" + text_key + b"\0\x0a\2" + "é".encode(), '{"y": "\\u00e9"}', None)
    ]
    with pytest.raises(
        SinkRefusedError, match=r"a-value of the registry cannot be used: The file declares no message t\.X"
    ):
        encoded(registry, [{}], "a", serde_format="protobuf", message="t.X")


def test_the_old_row_of_an_update_has_the_key_of_its_new_row_to_be_joined_with_it(registry: Registry) -> None:
    registry.register("a-key", '{"type": "long"}')
    events = [{"y": 5, "op": "update_before"}, {"y": 5, "op": "update"}, {"y": "x", "op": "update_before"}]
    options = {"serde_format": "debezium", "key": "${/y}", "key_format": "avro", "operation": "${/op}"}
    (old, _, _), (new, _, _), (_, _, reason) = encoded(registry, events, **options)
    assert old is not None
    assert old == new
    assert "'x' is not a valid long" in reason


def test_types_that_no_row_can_have_are_named(registry: Registry) -> None:
    registry.register("a-value", 'syntax = "proto3"; message R { R inner = 1; }', "PROTOBUF")
    (row,) = encoded(registry, [{}], serde_format="protobuf")
    assert row[2].endswith("cannot be used: Field inner of message R makes R contain itself, which has no columns")


def test_options_of_schemas_that_have_no_effect_are_refused() -> None:
    def paths(key_format: str = "text", **more: Any) -> list[str]:
        schema = SchemaSettings(registry_url="http://r", key_format=key_format)  # type: ignore[arg-type]
        return [
            path
            for path, _ in KafkaSinkSettings(
                **{"bootstrap_servers": "b:1", "topic": "t", "schema": schema} | more
            ).check()
        ]

    assert (
        paths("avro") == paths("protobuf", serde_format="debezium") == paths(serde_format="protobuf", message="M") == []
    )
    assert paths(serde_format="avro", message="M") == ["message"]
    assert paths(serde_format="protobuf", key_subject="k") == ["key_subject"]
    assert paths("json_schema") == ["schema.key_format"]
    assert paths(serde_format="protobuf", schema=None) == ["schema"]
