"""Values of logical types become exact text, and no value or schema disturbs another row."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from calve.event.envelope import decoder
from calve.event.envelope.decoder import EnvelopeDecoder, Envelopes
from event.envelope.debezium import envelope, field, text, unscaled, wrapped
from event.envelope.decoding import DECIMAL, EXACT, WANTED, changes, decoded, events
from kit.compiled_core import needs_core

TOAST = "__debezium_unavailable_value"


def test_logical_types_come_out_exactly() -> None:
    columns = [field(name, kind, logical) for name, (kind, logical, _, _) in EXACT.items()]
    row = {name: given for name, (_, _, given, _) in EXACT.items()}
    found = decoded([wrapped(columns, envelope("c", None, row)), wrapped(columns, envelope("d", row))])
    wanted = {name: meant for name, (_, _, _, meant) in EXACT.items()}
    assert changes(found) == [("insert", wanted), ("delete", wanted)]


def test_without_a_schema_values_are_what_they_are() -> None:
    row = {name: given for name, (_, _, given, _) in EXACT.items()}
    assert changes(decoded([envelope("c", None, row)])) == [("insert", row)]


@pytest.mark.parametrize("number", [0, 1, -1, 127, 128, -128, -129, 255, 10**17, -(10**17), 10**30, 10**37, -(10**45)])
@pytest.mark.parametrize("scale", [0, 2, 20])
def test_decimals_keep_every_digit(number: int, scale: int) -> None:
    columns = [
        field("fixed", "bytes", DECIMAL, parameters={"scale": str(scale), "connect.decimal.precision": "38"}),
        field("free", "struct", "io.debezium.data.VariableScaleDecimal", fields=[field("scale", "int32"), field("value", "bytes")]),
    ]  # fmt: skip
    row = {"fixed": unscaled(number), "free": {"scale": scale, "value": unscaled(number)}}
    [(_, found)] = changes(decoded([wrapped(columns, envelope("c", None, row))]))
    digits = str(abs(number)).rjust(scale + 1, "0")
    whole = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    assert found == {"fixed": ("-" * (number < 0)) + whole, "free": ("-" * (number < 0)) + whole}


def test_decimals_as_text_and_as_number_stay_what_they_are() -> None:
    as_text = [field("price", "string")]
    [(_, row)] = changes(decoded([wrapped(as_text, envelope("c", None, {"price": "12.50"}))]))
    assert row == {"price": "12.50"}
    exact = b'{"before":null,"after":{"id":1,"price":12345678901234567890.123456789},"source":{},"op":"c"}'
    numeric = [field("id", "int32"), field("price", "bytes", DECIMAL, parameters={"scale": "9"})]
    schema = text(wrapped(numeric, 0)).removesuffix(b"0}")
    for value in (exact, schema + exact + b"}"):
        [found] = decoded([value]).rows["event"].to_pylist()
        assert found == b'{"id":1,"price":12345678901234567890.123456789}'


def test_logical_types_are_found_in_structs_arrays_and_maps() -> None:
    day = {"type": "int32", "optional": True, "name": "io.debezium.time.Date"}
    columns = [
        field("person", "struct", fields=[field("born", "int32", "io.debezium.time.Date"), field("name", "string")]),
        field("days", "array", items=day),
        field("by_name", "map", keys={"type": "string"}, values=day),
    ]
    row = {"person": {"born": 1, "name": "a"}, "days": [0, None], "by_name": {"x": 2}}
    told = [envelope("c", None, row), envelope("c", None, {"person": None, "days": None, "by_name": None})]
    first, second = changes(decoded([wrapped(columns, one) for one in told]))
    assert first[1] == {
        "person": {"born": "1970-01-02", "name": "a"},
        "days": ["1970-01-01", None],
        "by_name": {"x": "1970-01-03"},
    }
    assert second[1] == {"person": None, "days": None, "by_name": None}


def test_a_value_that_postgres_did_not_tell_is_absent() -> None:
    columns = [field("id", "int64"), field("note", "string"), field("tags", "array", items={"type": "string"})]
    row = {"id": 1, "note": TOAST, "tags": [TOAST]}
    for one in (envelope("u", None, row), wrapped(columns, envelope("u", None, row))):
        assert changes(decoded([one])) == [("update", {"id": 1})]


UNITS = [base64.b64encode(bytes([byte])).decode() for byte in TOAST.encode()]
BYTES = list(TOAST.encode())
NAME = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""Java's UUID.nameUUIDFromBytes of the placeholder."""
GEOMETRY = base64.b64encode(bytes.fromhex("0101000020E6100000000000FC83D797C1000000FC83D797C1")).decode()
SCALED = {"fields": [field("scale", "int32"), field("value", "bytes")]}
UNSENT = {
    "text": ({"type": "string"}, TOAST),
    "bytea": ({"type": "bytes"}, base64.b64encode(TOAST.encode()).decode()),
    "bytea in hexadecimal": ({"type": "string"}, TOAST.encode().hex()),
    "text[]": ({"type": "array", "items": {"type": "string"}}, [TOAST]),
    "bytea[]": ({"type": "array", "items": {"type": "bytes"}}, [base64.b64encode(TOAST.encode()).decode()]),
    "uuid[]": ({"type": "array", "items": {"type": "string", "name": "io.debezium.data.Uuid"}}, [NAME]),
    "int[]": ({"type": "array", "items": {"type": "int32"}}, BYTES),
    "bigint[]": ({"type": "array", "items": {"type": "int64"}}, BYTES),
    "double[]": ({"type": "array", "items": {"type": "double"}}, [float(byte) for byte in BYTES]),
    "numeric(9,2)[]": ({"type": "array", "items": {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}}}, UNITS),
    "numeric(9,2)[] as numbers": ({"type": "array", "items": {"type": "double"}}, [byte / 100 for byte in BYTES]),
    "numeric[]": (
        {"type": "array", "items": {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", **SCALED}},
        [{"scale": 0, "value": unit} for unit in UNITS],
    ),
    "hstore": ({"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}}, {TOAST: TOAST}),
    "hstore as json": ({"type": "string", "name": "io.debezium.data.Json"}, json.dumps({TOAST: TOAST}, separators=(",", ":"))),
    "geometry": (
        {"type": "struct", "name": "io.debezium.data.geometry.Geometry", "fields": [field("wkb", "bytes"), field("srid", "int32")]},
        {"wkb": GEOMETRY, "srid": 4326},
    ),
}  # fmt: skip
NEAR = [
    TOAST[1:], TOAST + "s", [TOAST, TOAST], [], BYTES[:-1], [*BYTES, 1], [0, *BYTES[1:]], [2 * byte for byte in BYTES], [95],
    [str(byte) for byte in BYTES], NAME, [NAME, NAME], {TOAST: "x"}, {"x": TOAST}, {TOAST: TOAST, "a": "b"}, [[TOAST]],
    {"wkb": GEOMETRY[1:], "srid": 4326}, UNITS[:-1], [True] * len(BYTES), [{"scale": 0, "value": "Xw=="}],
]  # fmt: skip


@pytest.mark.parametrize("kind", UNSENT)
@pytest.mark.parametrize("has_schema", [True, False])
def test_each_form_of_a_value_that_postgres_did_not_send_is_absent(kind: str, has_schema: bool) -> None:
    schema, value = UNSENT[kind]
    columns = [field("id", "int64"), {"field": "v", "optional": True, **schema}]
    one = envelope("u", None, {"id": 1, "v": value})
    assert changes(decoded([wrapped(columns, one) if has_schema else one])) == [("update", {"id": 1})]


@pytest.mark.parametrize("value", NEAR, ids=range(len(NEAR)))
def test_a_value_that_only_resembles_a_placeholder_is_data(value: Any) -> None:
    assert changes(decoded([envelope("u", None, {"id": 1, "v": value})])) == [("update", {"id": 1, "v": value})]


@pytest.mark.parametrize(
    ("configured", "text"), [("not sent", "not sent"), ("hex:6e6f742073656e74", "not sent"), ("é", "é")]
)
def test_a_configured_placeholder_replaces_the_default(configured: str, text: str) -> None:
    data = struct.unpack(f"{len(text.encode())}b", text.encode())
    row = {"id": 1, "a": text, "b": [text], "c": list(data), "d": TOAST, "e": {text: text}}
    made = EnvelopeDecoder(Envelopes("debezium", WANTED, configured)).decode(
        events([json.dumps(envelope("u", None, row)).encode()])
    )
    assert changes(made) == [("update", {"id": 1, "d": TOAST})]


def test_a_format_without_a_placeholder_has_none() -> None:
    row = {"database": "d", "table": "t", "type": "insert", "data": {"id": 1, "v": TOAST}}
    assert changes(decoded([row], form="maxwell")) == [("insert", {"id": 1, "v": TOAST})]


@needs_core
def test_rows_that_postgres_told_in_part_are_decoded_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [field("id", "int64"), field("note", "string"), field("day", "int32", "io.debezium.time.Date")]
    rows = [{"id": number, "note": TOAST if number % 2 else "x", "day": 0} for number in range(10)]
    monkeypatch.setattr(decoder, "decode", None)  # one by one would fail
    for operation, at in (("u", "after"), ("d", "before")):
        found = decoded([wrapped(columns, envelope(operation, **{at: row})) for row in rows])
        assert [row for _, row in changes(found)] == [
            {**({} if row["note"] == TOAST else {"note": "x"}), "id": row["id"], "day": "1970-01-01"} for row in rows
        ]


HOSTILE = [
    {"v": {"scale": 2_000_000_000, "value": "AQ=="}},
    {"v": {"scale": -2_000_000_000, "value": "AQ=="}},
    {"v": {"scale": 2, "value": "A" * 40_000}},
    {"v": {"scale": 1.5, "value": 5}},
    {"v": [], "d": "A" * 40_000},
    {"d": "", "t": int("9" * 4_000)},
    {"d": "no Base64!", "t": "yesterday"},
    {"t": 1e300, "s": []},
    {"t": {"a": 1}, "s": {"b": {}}},
]


@pytest.mark.parametrize("row", HOSTILE, ids=range(len(HOSTILE)))
def test_values_that_do_not_fit_their_schema_harm_nobody(row: dict[str, Any]) -> None:
    columns = [
        field("v", "struct", "io.debezium.data.VariableScaleDecimal", fields=[field("scale", "int32")]),
        field("d", "bytes", DECIMAL, parameters={"scale": "2"}),
        field("t", "int64", "io.debezium.time.NanoTimestamp"),
        field("s", "struct", fields=[field("b", "int32", "io.debezium.time.Date")]),
    ]
    good = {"t": 1}
    found = decoded([wrapped(columns, envelope("c", None, one)) for one in (good, row, good)])
    wanted = {"t": "1970-01-01T00:00:00.000000001"}
    assert [row for _, row in changes(found)][::2] == [wanted, wanted]
    assert found.rows["row"].to_pylist() == [0, 1, 2]


ODD_SCHEMAS = [
    5,
    {"type": 5},
    {"type": "struct", "fields": 7},
    {"type": "struct", "fields": [None, {"field": "after"}, {"type": "struct", "field": "after", "fields": {}}]},
    {"type": "array"},
    {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": [field("id", "array"), field("n", "map")]}]},
    {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": [field("id", "bytes", DECIMAL, parameters={"scale": "9" * 5_000})]}]},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_SCHEMAS, ids=range(len(ODD_SCHEMAS)))
def test_a_schema_that_is_none_leaves_values_as_they_are(odd: Any) -> None:
    one = envelope("c", None, {"id": [1], "n": {"a": 1}})
    found = decoded([{"schema": odd, "payload": one}, one])
    assert [row for _, row in changes(found)] == [{"id": [1], "n": {"a": 1}}] * 2


@pytest.mark.parametrize("number", ["9" * 5_000, "1" + "0" * 400 + ".5", "1e999"])
def test_a_number_of_any_length_harms_nobody(number: str) -> None:
    good, long = b'{"op":"c","ts_ms":1,"after":{"id":1}}', b'{"op":"c","ts_ms":%b,"after":{"id":%b}}'
    found = decoded([good, long.replace(b"%b", number.encode()), good])
    assert found.rows["row"].to_pylist() == [0, 1, 2]
    assert found.rows["event"].to_pylist()[::2] == [b'{"id":1}'] * 2
