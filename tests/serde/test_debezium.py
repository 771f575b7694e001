"""Debezium's envelopes in Avro become what the same envelopes in JSON become."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from calve.columns.connect_schema import node_of
from calve.event.columns import EVENT, ORIGINAL, ROW, SCHEMA
from calve.event.envelope.decoder import RECORD_KEY, DecodedEnvelopes, EnvelopeDecoder, Envelopes
from calve.event.envelope.exact import RequestedAttributes
from calve.event.envelope.placeholder import UNAVAILABLE
from calve.serde.decoder import DecodedRows, SchemaDecoder
from calve.serde.settings import SchemaSettings, Serde
from event.envelope.debezium import field, schema, unscaled, wrapped
from kit.debezium_avro import KEY_SCHEMA, avro_schema, encoded
from serde.avro.values import encoded as raw
from services.registry import Registry, framed

_CONNECT, _TIME = "org.apache.kafka.connect.data", "io.debezium.time"
_PAIR = {"type": "struct", "name": "shop.Pair", "fields": [field("day", "int32", f"{_TIME}.Date"), field("n", "int16")]}
_ANY_SCALE = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
}
UNSENT = list(UNAVAILABLE.encode())
COLUMNS: list[tuple[dict[str, Any], list[Any]]] = [
    (field("id", "int64"), [1, -(1 << 62)]),
    (field("small", "int16"), [-7, None]),
    (field("yes", "boolean"), [True, False]),
    (field("half", "float"), [0.1, -2.5]),
    (field("double", "double"), [0.1, 1e300]),
    (field("text", "string"), ['é"\n', "__debezium_unavailable_value"]),
    (field("raw", "bytes"), ["AP8=", ""]),
    (
        field("money", "bytes", f"{_CONNECT}.Decimal", parameters={"scale": "2", "connect.decimal.precision": "12"}),
        [unscaled(-501), unscaled(0)],
    ),
    (field("wide", "bytes", f"{_CONNECT}.Decimal", parameters={"scale": "3"}), [unscaled(10**80), None]),
    ({**field("any", "struct"), **_ANY_SCALE}, [{"scale": 4, "value": unscaled(31415)}, None]),
    (field("day", "int32", f"{_CONNECT}.Date"), [-3000, 20_000]),
    (field("at", "int64", f"{_CONNECT}.Timestamp"), [1_767_225_600_123, -1]),
    (field("born", "int32", f"{_TIME}.Date"), [3_000_000, 0]),
    (field("milli", "int64", f"{_TIME}.Timestamp"), [1_767_225_600_123, None]),
    (field("micro", "int64", f"{_TIME}.MicroTimestamp"), [1_767_225_600_123_456, 1 << 62]),
    (field("nano", "int64", f"{_TIME}.NanoTimestamp"), [1_767_225_600_123_456_789, None]),
    (field("time", "int64", f"{_TIME}.MicroTime"), [86_399_999_999, 0]),
    (field("zoned", "string", f"{_TIME}.ZonedTimestamp"), ["2026-01-01T00:00:00.5Z", None]),
    (field("uuid", "string", "io.debezium.data.Uuid"), ["6f1c7c4e-7d6a-4f0f-9b1e-2f6f1f0a7c11", None]),
    (field("kind", "string", "io.debezium.data.Enum", parameters={"allowed": "a,b"}), ["a", "b"]),
    ({**field("days", "array"), "items": {"type": "int32", "name": f"{_TIME}.Date"}}, [[0, 1], []]),
    *(
        ({**field(f"unsent{number}", "array"), "items": {"type": kind}}, [value, value[:-1]])
        for number, (kind, value) in enumerate(
            [("int32", UNSENT), ("int64", UNSENT), ("float", UNSENT), ("double", UNSENT), ("string", [UNAVAILABLE])]
        )
    ),
    ({**field("blobs", "array"), "items": {"type": "bytes"}}, [[base64.b64encode(UNAVAILABLE.encode()).decode()], []]),
    ({**field("store", "map"), "values": {"type": "string", "optional": True}}, [{UNAVAILABLE: UNAVAILABLE}, {}]),
    ({**field("tags", "map"), "values": {"type": "string", "optional": True}}, [{"a": "b", "c": None}, {}]),
    ({**field("pair", "struct"), **_PAIR}, [{"day": 1, "n": 2}, {"day": None, "n": None}]),
]
SOURCES = frozenset({"debezium_op", "debezium_ts_ms"})
ROWS = [{column["field"]: values[number] for column, values in COLUMNS} for number in range(2)]
FIELDS = [column for column, _ in COLUMNS]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as started:
        yield started


def _payload(operation: str, before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "op": operation, "ts_ms": 1_767_225_600_123}


def _read(
    registry: Registry, values: list[bytes | None], keys: list[str | None], **options: Any
) -> tuple[DecodedRows, DecodedEnvelopes]:
    settings = SchemaSettings(registry_url=None if "inline_schema" in options else registry.url, **options)
    events = {EVENT: pa.array(values, pa.binary()), RECORD_KEY: pa.array(keys, pa.string())}
    rows = SchemaDecoder(Serde("debezium", settings, ("s",))).decode(pa.table(events))
    return rows, _changes(rows.rows)


def _changes(events: pa.Table) -> DecodedEnvelopes:
    wanted = RequestedAttributes(SOURCES | {RECORD_KEY}, frozenset({"id"}))
    return EnvelopeDecoder(Envelopes("debezium", wanted)).decode(events)


def _shown(found: DecodedEnvelopes) -> list[Any]:
    rows = found.rows
    texts, schemas = map(json.loads, rows[EVENT].to_pylist()), rows[SCHEMA].to_pylist()
    columns = [rows[name].to_pylist() for name in (ROW, "operation", *sorted(SOURCES))]
    return list(zip(texts, [None if one is None else node_of(one) for one in schemas], *columns, strict=True))


def _kept(id: int, *, key: bool = False) -> str:
    """A key as the source has it: text, or Base64 if it is not UTF-8."""
    [value] = encoded(id, KEY_SCHEMA, [{"id": 1 << 40 if key else 5}])
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def test_rows_types_and_operations_are_those_of_the_same_envelopes_in_json(registry: Registry) -> None:
    payloads = [_payload("c", None, ROWS[0]), _payload("u", ROWS[0], ROWS[1]), _payload("d", ROWS[1], None)]
    number = registry.register("s", avro_schema(schema(FIELDS)))
    values = encoded(number, schema(FIELDS), payloads)
    read, found = _read(registry, [values[0], None, *values[1:]], [None] * 4)
    texts = [json.dumps(wrapped(FIELDS, each)).encode() for each in payloads]
    same = _changes(pa.table({EVENT: pa.array([texts[0], None, *texts[1:]], pa.binary())}))
    assert not len(read.rejects)
    assert not len(found.rejects)
    assert _shown(found) == _shown(same)
    unsent = {"text", "blobs", "store", *(f"unsent{number}" for number in range(5))}
    rows = [row for row, *_ in _shown(found)]
    assert [set(ROWS[0]) - set(row) for row in rows] == [unsent - {"text"}, unsent - {"text"}, {"text"}, {"text"}]
    assert [each[2:4] for each in _shown(found)] == [(0, "insert"), (2, "delete"), (2, "update"), (3, "delete")]
    assert found.skipped == same.skipped == 1
    assert found.rows[ORIGINAL].to_pylist() == [values[0], values[1], values[1], values[2]]


def test_a_delete_without_a_row_finds_it_by_its_key_in_avro(registry: Registry) -> None:
    number, of_key = (
        registry.register("s", avro_schema(schema(FIELDS))),
        registry.register("k", avro_schema(KEY_SCHEMA)),
    )
    [value] = encoded(number, schema(FIELDS), [_payload("d", None, None)])
    long = _kept(of_key, key=True)
    keys = [_kept(of_key), long, '{"id":7}', _kept(99), "AAAA", "A plain text", None]
    read, found = _read(registry, [value] * len(keys), keys)
    assert long.startswith("AA")
    assert [json.loads(text) for text in found.rows[EVENT].to_pylist()] == [{"id": 5}, {"id": 1 << 40}, {"id": 7}]
    assert [node_of(one) for one in found.rows[SCHEMA].to_pylist()[:1]] == [node_of_key()]
    assert [(one["row"], one["code"]) for one in found.rejects.to_pylist()] == [
        (row, "NO_KEY") for row in range(3, len(keys))
    ]
    assert read.rows[RECORD_KEY].to_pylist()[2:] == keys[2:]
    again, _ = _read(registry, [value] * len(keys), read.rows[RECORD_KEY].to_pylist())  # as a replay has them
    assert again.rows[RECORD_KEY].to_pylist() == read.rows[RECORD_KEY].to_pylist()
    _, without = _read(registry, [value[5:]], keys[:1], inline_schema=json.dumps(avro_schema(schema(FIELDS))))
    assert without.rejects["code"].to_pylist() == ["NO_KEY"]


def node_of_key() -> Any:
    text = {"name": "", "kind": "struct", "fields": [{"name": "id", "kind": "int64"}]}
    return node_of(json.dumps(text))


def test_what_is_no_envelope_is_rejected_alone(registry: Registry) -> None:
    flat = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    several = {"type": "record", "name": "R", "fields": [{"name": "id", "type": ["int", "string"]}]}
    numbers = [registry.register("s", each) for each in (avro_schema(schema(FIELDS)), flat, several)]
    other = registry.register("o", "{}", kind="JSON")
    [good] = encoded(numbers[0], schema(FIELDS), [_payload("c", None, ROWS[0])])
    values = [good[:-1], framed(numbers[1], b"\2"), framed(numbers[2], b"\0\2"), framed(other, b"{}"), b"{}", good]
    read, found = _read(registry, values, [None] * len(values))
    assert [(one["row"], one["code"]) for one in read.rejects.to_pylist()] == [
        (0, "UNDECODABLE"),
        (2, "UNKNOWN_SCHEMA"),
        (3, "UNKNOWN_SCHEMA"),
        (4, "UNDECODABLE"),
    ]
    assert "a union of several types" in read.rejects["reason"][1].as_py()
    [reject] = found.rejects.to_pylist()
    assert (reject["code"], reject["reason"][:23]) == ("MALFORMED", "not a Debezium envelope")
    assert read.rows[ORIGINAL].to_pylist() == [values[1], good]
    assert found.rows[ORIGINAL].to_pylist() == [good]


def test_schemas_without_connects_names_have_avros_logical_types_and_versions_resolve(registry: Registry) -> None:
    kinds = {
        "day": ({"type": "int", "logicalType": "date"}, 1, "1970-01-02"),
        "at": ({"type": "long", "logicalType": "timestamp-micros"}, 1_500_000, "1970-01-01T00:00:01.5"),
        "money": ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, b"\5", "0.05"),
        "tag": ({"type": "fixed", "name": "Tag", "size": 2}, b"ab", "YWI="),
        "mood": ({"type": "enum", "name": "Mood", "symbols": ["x", "y"]}, "y", "y"),
    }

    def envelope(*names: str) -> dict[str, Any]:
        row = {"type": "record", "name": "Value", "fields": [{"name": one, "type": kinds[one][0]} for one in names]}
        fields = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
        return {"type": "record", "name": "Envelope", "fields": [*fields, {"name": "op", "type": "string"}]}

    first, second = envelope(*kinds), envelope("at", "day")
    number = registry.register("s", first)
    registry.register("s", second)
    plain = json.loads(json.dumps(first).replace("logicalType", "told"))
    value = framed(number, raw(plain, {"before": None, "after": {n: k[1] for n, k in kinds.items()}, "op": "c"}))
    _, found = _read(registry, [value], [None])
    assert json.loads(found.rows[EVENT][0].as_py()) == {name: shown for name, (_, _, shown) in kinds.items()}
    _, found = _read(registry, [value], [None], version="2")
    assert json.loads(found.rows[EVENT][0].as_py()) == {"at": kinds["at"][2], "day": kinds["day"][2]}
