"""Values of a registry become rows: the message by its indexes, types by its fields, and a reason for what is no message."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calve.serde.format import DecodedValues, Fault, UnsupportedSchemaError, WriterSchema
from calve.serde.formats import format_of
from calve.serde.protobuf.indexes import by_message
from calve.serde.protobuf.plan import arrow_type, plan
from calve.serde.protobuf.schema import Schema
from calve.serde.protobuf.tokens import ProtoError

ORDER = """syntax = "proto3"; package shop; import "shop/money.proto"; import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; optional string note = 2; Money price = 3; repeated Line lines = 4;
  google.protobuf.Timestamp time = 5; message Line { uint32 count = 1; uint64 item = 2; } }
message Other { bool flag = 1; message Inner { string text = 1; } }"""
MONEY = WriterSchema("package shop; message Money { required sint32 cents = 1; }", 2, "PROTOBUF")
SCHEMA = WriterSchema(ORDER, 1, "PROTOBUF", (("shop/money.proto", MONEY),))
HEADER = b"\0\0\0\0\1"


def decode(schema: WriterSchema, *values: bytes, start: int = 5, reader: WriterSchema | None = None) -> DecodedValues:
    made = format_of("protobuf").plan(schema, reader, list)
    return made.decode(pa.array([b"sliced away", *values], pa.binary())[1:], start)


def rows(found: DecodedValues) -> dict[int, Any]:
    return {int(at): row for part in found.parts for at, row in zip(part.at, part.rows.to_pylist(), strict=True)}


def test_each_message_of_a_file_is_a_part_of_its_own() -> None:
    found = decode(
        SCHEMA,
        HEADER + b"\0" + b"\x08\x05\x12\x00\x1a\x02\x08\x03",
        HEADER + b"\2\2" + b"\x08\x01",
        HEADER + b"\2\0" + b"\x08\x07",
        HEADER + b"\4\2\0" + b"\x0a\x01x",
        HEADER + b"\0",
    )
    order = {"id": 0, "note": None, "price": None, "lines": [], "time": None}
    assert rows(found) == {
        0: order | {"id": 5, "note": "", "price": {"cents": -2}},
        1: {"flag": True},
        2: order | {"id": 7},
        3: {"text": "x"},
        4: order,
    }
    assert found.faults == []
    assert len({part.declaration for part in found.parts}) == 3


def test_values_that_are_no_messages_have_a_reason_with_the_field() -> None:
    faults = {
        b"\0\x08": "a number without an end",
        b"\0\x0a\x01x": "field id: the wire type 2 instead of that of int64",
        b"\0\x12\x01\xff": "field note: a text that is not UTF-8",
        b"\0\x1a\x00": "field price.cents: a required field that is missing",
        b"\0\x22\x05\x08": "a value that ends too early",
        b"\0\x2a\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": "field time: a timestamp outside the years 1 to 9999",
        b"\0\x00\x00": "a field number that Protobuf does not allow",
        b"\0\x7b\x7b\x7c": "a number without an end",
        b"\0\x7b\x74": "the end of a group that is not open",
        b"\0\x0a\x80\x80\x80\x80\x80\x00": "a tag or a length of more than 32 bits",
        b"\0\x7f": "an unexpected wire type, 7",
        b"\0\x08" + b"\xff" * 10: "a number of more than 64 bits",
        b"": "the indexes of its message are broken: a number without an end",
        b"\1": "the indexes of its message are broken: a list of -1 indexes",
        b"\xfe\1": "the indexes of its message are broken: a list of 127 indexes",
        b"\2\x04": "The schema has no message with the indexes [2]",
        b"\4\0\1": "The schema has no message with the indexes [0, -1]",
    }
    found = decode(SCHEMA, *(HEADER + value for value in faults))
    assert rows(found) == {}
    assert sorted(found.faults) == [Fault(row, reason) for row, reason in enumerate(faults.values())]


def test_a_timestamp_with_nanoseconds_is_a_text_with_all_digits() -> None:
    found = decode(SCHEMA, HEADER + b"\0\x2a\x04\x08\x01\x10\x01", HEADER + b"\0\x2a\x05\x08\x01\x10\xe8\x07")
    assert {row: str(each["time"]) for row, each in rows(found).items()} == {
        0: "1970-01-01T00:00:01.000000001Z",
        1: "1970-01-01 00:00:01.000001+00:00",
    }
    kinds = [{each["name"]: each["kind"] for each in json.loads(part.declaration)["fields"]} for part in found.parts]
    fields = {"id": "int64", "note": "string", "price": "struct", "lines": "array", "time": "timestamptz"}
    assert sorted(kinds, key=str) == sorted([fields, fields | {"time": "string"}], key=str)


def test_a_given_schema_has_no_indexes_and_its_first_message_counts() -> None:
    given = WriterSchema("message A { optional int32 a = 1; } message B {}", -1, "PROTOBUF")
    assert rows(decode(given, b"\x08\x05", b"", start=0)) == {0: {"a": 5}, 1: {"a": None}}


def test_a_chosen_version_decides_the_columns_by_the_numbers_of_fields() -> None:
    old = WriterSchema('syntax = "proto3"; message A { int32 n = 1; string gone = 2; } message B {}', 1, "PROTOBUF")
    new = WriterSchema(
        'syntax = "proto3"; message B {} message A { int64 renamed = 1; int32 added = 3; }', 2, "PROTOBUF"
    )
    found = decode(old, HEADER + b"\0\x08\x05\x12\x01x", reader=new)
    assert rows(found) == {0: {"renamed": 5, "added": 0}}


def test_a_reference_of_a_reference_is_found() -> None:
    inner = WriterSchema("message Inner { optional int32 a = 1; }", 3, "PROTOBUF")
    middle = WriterSchema('import "i"; message Middle { optional Inner inner = 1; }', 2, "PROTOBUF", (("i", inner),))
    outer = WriterSchema('import "m"; message Outer { optional Middle middle = 1; }', 1, "PROTOBUF", (("m", middle),))
    assert rows(decode(outer, HEADER + b"\0\x0a\x04\x0a\x02\x08\x05")) == {0: {"middle": {"inner": {"a": 5}}}}


def test_a_file_that_is_not_understood_is_an_unsupported_schema() -> None:
    with pytest.raises(UnsupportedSchemaError, match="Editions"):
        decode(WriterSchema('edition = "2023";', 1, "PROTOBUF"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A { optional B b = 1; } message B { repeated A again = 1; }", "Field again of message B makes A contain itself"),
        ("message A { optional group G = 1 { } }", "Field G of message A is a group, which is not supported"),
        ("message A { optional x.Missing a = 1; }", "Message A has a field of type x.Missing, which no imported file declares"),
        ("message A { extensions 1 to 5; }", "Message A has no fields"),
        ("".join(f"message M{at} {{ {' '.join(f'optional M{at + 1} f{n} = {n};' for n in range(1, 9))} }}" for at in range(9)) + "message M9 { optional int32 a = 1; }", "Message M0 has more than 10000 columns"),
        ("".join(f"message M{at} {{ optional M{at + 1} f = 1; }}" for at in range(99)) + "message M99 { optional int32 a = 1; }", "Message M0 is nested more than 64 levels deep"),
    ],
)  # fmt: skip
def test_messages_without_columns_are_refused_by_name(text: str, reason: str) -> None:
    schema = Schema(text, {})
    with pytest.raises(ProtoError) as caught:
        plan(schema, schema.message((0,)))
    assert reason in str(caught.value)
    assert reason in decode(WriterSchema(text, 1, "PROTOBUF"), HEADER + b"\0").faults[0].reason


def test_each_type_has_the_column_that_holds_all_its_values() -> None:
    names = "double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 bool string bytes"
    fields = "".join(f"optional {name} f{number} = {number};" for number, name in enumerate(names.split(), 1))
    more = "map<int32, T> times = 20; google.type.Date date = 21; google.protobuf.Any any = 22; repeated E enums = 23;"
    text = f"""syntax = "proto3"; import "google/protobuf/any.proto"; import "google/type/date.proto";
        import "google/protobuf/timestamp.proto"; message A {{ {fields} {more} }} enum E {{ E0 = 0; }}"""
    schema = Schema(text.replace("T>", "google.protobuf.Timestamp>"), {})
    texts, binary, date = (
        pa.large_string(),
        pa.large_binary(),
        pa.struct({name: pa.int32() for name in ("year", "month", "day")}),
    )
    whole, decimal = (pa.int32(), pa.int64()), pa.decimal128(20)
    assert [field.type for field in arrow_type(plan(schema, schema.message((0,))))] == [
        pa.float64(), pa.float32(), *whole, pa.int64(), decimal, *whole, pa.int64(), decimal, *whole, pa.bool_(), texts, binary,
        pa.map_(pa.int32(), pa.timestamp("us", "UTC")), date, pa.struct({"type_url": texts, "value": binary}), pa.large_list(texts),
    ]  # fmt: skip


def test_indexes_of_many_messages_are_found_wherever_they_are() -> None:
    rnd = random.Random(5)
    lists = [(0,)] + [tuple(rnd.choice([0, 1, 63, 64, 300]) for _ in range(rnd.randrange(1, 4))) for _ in range(200)]
    chosen = [rnd.choice(lists[: rnd.choice([2, 200])]) for _ in range(2000)]
    values = [b"12345" + encoded(each) + b"\0" * rnd.randrange(3) for each in chosen]
    faults: list[Fault] = []
    found = by_message(pa.array([b"", *values], pa.binary())[1:], 5, faults)
    assert faults == []
    by_row = {int(row): (indexes, start) for (indexes, start), at in found.items() for row in at}
    assert [by_row[row] for row in range(2000)] == [(each, 5 + len(encoded(each))) for each in chosen]
    assert all(np.all(np.diff(at) > 0) for at in found.values())


def encoded(indexes: tuple[int, ...]) -> bytes:
    if indexes == (0,):
        return b"\0"
    return b"".join(varint(2 * each) for each in (len(indexes), *indexes))


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)
