"""Values in Avro, against the library of others (fastavro)."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.columns.fields import ALL_FIELDS
from calve.convert.scalar import MismatchError
from calve.errors import SinkRefusedError
from calve.event.exact_json import parse_object
from calve.serde.avro.schema import parse
from calve.serde.settings import SchemaSettings
from calve.sinks.kafka.avro import avro_writer
from calve.sinks.kafka.encoder import Encoding, RecordEncoder
from calve.sinks.kafka.settings import KafkaSinkSettings
from calve.sinks.kafka.sink import record_options
from calve.sinks.records.shape import compile_shape
from services.registry import Registry


def schema_of(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def logical(kind: str, name_of_type: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name_of_type, **more}


def read(schema: Any, event: str) -> Any:
    """Return what fastavro reads of what is written for an event."""
    out = bytearray()
    avro_writer(parse(json.dumps(schema)))(parse_object(event), out)
    data = io.BytesIO(bytes(out))
    value = fastavro.schemaless_reader(data, fastavro.parse_schema(schema), None)
    assert data.read() == b""
    return value


SCALARS = {
    "b": ("boolean", st.booleans()),
    "i": ("int", st.integers(-(2**31), 2**31 - 1)),
    "l": ("long", st.integers(-(2**63), 2**63 - 1)),
    "d": ("double", st.floats(allow_nan=False, allow_infinity=False)),
    "s": ("string", st.text(st.characters(exclude_categories=["Cs"]))),
    "o": (["null", "long", "string"], st.none() | st.integers(-9, 9) | st.text("0123a")),
    "a": ({"type": "array", "items": "string"}, st.lists(st.text("ab"))),
    "m": ({"type": "map", "values": ["null", "int"]}, st.dictionaries(st.text("xy"), st.none() | st.integers(0, 9))),
}


@given(st.fixed_dictionaries({name: values for name, (_, values) in SCALARS.items()}))
def test_what_is_written_is_what_others_read(event: dict[str, Any]) -> None:
    schema = schema_of(*((name, kind) for name, (kind, _) in SCALARS.items()))
    assert read(schema, json.dumps(event)) == event


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.sampled_from([0, 2, 38]))
def test_no_digit_of_a_long_decimal_is_rounded(unscaled: int, scale: int) -> None:
    number = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
    schema = schema_of(("n", logical("bytes", "decimal", precision=38, scale=scale)))
    assert Decimal(read(schema, f'{{"n":"{number:f}"}}')["n"]).as_tuple() == number.as_tuple()


@given(st.decimals(-(10**8), 10**8, places=2), st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_decimals_and_times_keep_each_digit(number: Decimal, at: datetime) -> None:
    schema = schema_of(
        ("n", logical("bytes", "decimal", precision=12, scale=2)),
        ("f", logical("fixed", "decimal", name="F", size=8, precision=12, scale=2)),
        ("t", logical("long", "timestamp-micros")),
        ("d", logical("int", "date")),
    )
    event = {"n": str(number), "f": str(number), "t": f"{at.isoformat()}Z", "d": at.date().isoformat()}
    assert read(schema, json.dumps(event)) == {"n": number, "f": number, "t": at.replace(tzinfo=UTC), "d": at.date()}


def test_other_types_are_those_of_columns() -> None:
    schema = schema_of(
        ("u", logical("string", "uuid")),
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        ("x", {"type": "fixed", "name": "X", "size": 2}),
        ("y", "bytes"),
        ("t", logical("int", "time-millis")),
        ("r", ["null", schema_of(("k", "float")) | {"name": "S"}]),
    )
    number = uuid.uuid4()
    event = {"u": str(number), "e": "B", "x": "AAE=", "y": "/w==", "t": "10:00:00.250", "r": {"k": 0.5}}
    expected = {"u": number, "e": "B", "x": b"\0\1", "y": b"\xff", "t": time(10, 0, 0, 250_000), "r": {"k": 0.5}}
    assert read(schema, json.dumps(event)) == expected
    assert read(schema_of(("d", logical("int", "date"))), '{"d": "2026-11-28"}') == {"d": date(2026, 11, 28)}


@pytest.mark.parametrize(
    ("kind", "event", "reason"),
    [
        ("int", '{"v": 3000000000}', "v: 3000000000 is not a valid int"),
        ("string", '{"v": null}', "v: null is not a valid string"),
        ("string", "{}", "v: the field is missing"),
        ("string", '{"v": "a", "w": 1}', "the schema has no field w"),
        (logical("long", "timestamp-millis"), '{"v": "2026-11-28T00:00:00.0001Z"}', "more digits"),
        (logical("bytes", "decimal", precision=4, scale=2), '{"v": 1.234}', "v: 1.234 is not a valid decimal"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, '{"v": "B"}', "v: 'B' is not a valid symbol of E"),
        (["null", "int", "boolean"], '{"v": "x"}', "v: 'x' is not a valid value of the union"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason(kind: Any, event: str, reason: str) -> None:
    with pytest.raises(MismatchError) as refused:
        read(schema_of(("v", kind)), event)
    assert reason in str(refused.value)


def test_a_missing_field_has_its_default_and_an_explicit_null_is_a_value() -> None:
    money = logical("bytes", "decimal", precision=4, scale=2)
    inner = schema_of() | {"name": "I", "fields": [{"name": "k", "type": "int", "default": 7}]}
    defaults: list[tuple[str, Any, Any, Any]] = [
        ("s", "string", "é", "é"),
        ("n", ["null", "int"], None, None),
        ("u", ["string", "null"], "a", "a"),
        ("m", money, "\x04\xd2", Decimal("12.34")),
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ("l", {"type": "array", "items": "int"}, [1], [1]),
        ("r", inner, {}, {"k": 7}),
    ]
    fields = [{"name": name, "type": kind, "default": default} for name, kind, default, _ in defaults]
    schema = {"type": "record", "name": "R", "fields": [*fields, {"name": "o", "type": ["int", "null"]}]}
    assert read(schema, "{}") == {name: value for name, _, _, value in defaults} | {"o": None}
    given_values = {"u": None, "r": {"k": 1}}
    written = read(schema, json.dumps(given_values))
    assert {name: written[name] for name in given_values} == given_values
    for name in "smelr":
        with pytest.raises(MismatchError, match=f"{name}: "):
            read(schema, json.dumps({name: None}))


def test_a_default_that_is_no_value_of_its_type_is_none() -> None:
    fields = [{"name": "v", "type": "string", "default": None}, {"name": "w", "type": "int", "default": "x"}]
    schema = {"type": "record", "name": "R", "fields": fields}
    out = bytearray()
    write = avro_writer(parse(json.dumps(schema)))
    write(parse_object('{"v": "a", "w": 1}'), out)
    assert bytes(out) == b"\x02a\x02"
    for event in ('{"w": 1}', '{"v": "a"}'):
        with pytest.raises(MismatchError, match="the field is missing"):
            write(parse_object(event), bytearray())


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as started:
        yield started


def test_values_begin_with_the_id_of_their_topics_schema(registry: Registry) -> None:
    number = registry.register("a-value", schema_of(("id", "long")))
    settings = KafkaSinkSettings(
        bootstrap_servers="b:1", topic="${/t}", serde_format="avro", schema=SchemaSettings(registry_url=registry.url)
    )
    assert list(settings.check()) == []
    events = pa.table({"json": ['{"id": 1}', '{"id": "x"}', '{"id": 2}']})
    records = compile_shape(record_options(settings), ()).records(events, ALL_FIELDS)
    encoder = RecordEncoder(Encoding(settings.schema or SchemaSettings(), "avro"), None)
    encoded = encoder.encode(("a", "none"), np.array([0, 0, 1], np.int32), records)
    assert encoded.texts.to_pylist() == [b"\0" + number.to_bytes(4, "big") + b"\2", None, None]
    assert encoded.operations.to_pylist() == [0, None, None]
    assert encoded.rejects["code"].to_pylist() == ["SINK_REFUSED", "UNKNOWN_SCHEMA"]
    with pytest.raises(SinkRefusedError, match="The subject none-value of the registry cannot be used"):
        RecordEncoder(Encoding(settings.schema or SchemaSettings(), "avro"), "none").check()


def test_avro_needs_a_registry_and_nothing_else_has_a_schema() -> None:
    def paths(**more: Any) -> list[str]:
        return [path for path, _ in KafkaSinkSettings(bootstrap_servers="b:1", topic="t", **more).check()]

    assert paths(serde_format="avro") == ["schema"]
    assert paths(schema=SchemaSettings(registry_url="http://r")) == ["schema"]
    assert paths(serde_format="avro", schema=SchemaSettings(inline_schema='"int"')) == ["schema"]
