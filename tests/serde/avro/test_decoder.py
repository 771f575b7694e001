"""Avro values become the rows that fastavro reads, with the core and without; hostile bytes are faults of their own."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.serde.avro.format import FORMAT, AvroPlan
from calve.serde.format import DecodedValues, UnsupportedSchemaError, WriterSchema
from serde.avro import values as made


def plans(schema: WriterSchema, reader: WriterSchema | None = None) -> tuple[AvroPlan, AvroPlan]:
    """A plan with the core, and one without."""
    with_core, without = (FORMAT.plan(schema, reader, list) for _ in range(2))
    without._core = None
    return with_core, without


def rows(decoded: DecodedValues) -> list[Any]:
    return [row for part in decoded.parts for row in part.rows.to_pylist()]


def decode(schema: Any, *values: bytes, reader: Any = None) -> DecodedValues:
    """Decode with the core and without, which is the same."""
    one, other = plans(made.writer(schema), None if reader is None else made.writer(reader))
    array = pa.array(values, pa.binary())
    found, expected = one.decode(array, 0), other.decode(array, 0)
    assert found.faults == expected.faults
    assert [(part.at.tolist(), part.rows) for part in found.parts] == [
        (part.at.tolist(), part.rows) for part in expected.parts
    ]
    return found


def record(*kinds: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": one} for n, one in enumerate(kinds)]}


@given(made.written())
def test_values_of_any_schema_are_those_that_fastavro_wrote(case: tuple[Any, list[Any], list[bytes]]) -> None:
    schema, expected, values = case
    found = decode(schema, *values)
    assert not found.faults
    assert [made.plain(schema, row) for row in rows(found)] == expected


@given(made.written(), st.randoms(use_true_random=False))
def test_the_core_takes_damaged_bytes_as_the_reference_does(case: Any, chance: random.Random) -> None:
    schema, _, values = case
    damaged = []
    for value in values:
        data = bytearray(value)
        for _ in range(chance.randint(0, 3)):
            at = chance.randrange(len(data) + 1)
            data[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
        damaged.append(bytes(data))
    found = decode(schema, *damaged)
    positions = [row for part in found.parts for row in part.at.tolist()] + [one.row for one in found.faults]
    assert sorted(positions) == list(range(len(values)))


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("long", b"", "the value ends early"),
        ("long", b"\x02\x02", "1 bytes more"),
        ("int", b"\x80\x80\x80\x80\x10", "more than 32 bits"),
        ("long", b"\xff" * 10 + b"\x01", "more than 64 bits"),
        ("string", b"\x02", "the value ends early"),
        ("string", b"\x01", "the value ends early"),
        ("string", b"\x04\xff\xfe", "not UTF-8"),
        ("boolean", b"\x02", "a boolean is 2"),
        (["null", "int"], b"\x04", "no branch 2"),
        (["null", "int"], b"\x01", "no branch -1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "no symbol 1"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "without bytes"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "the value ends early"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x04\x03\xe8", "more than 2"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x00", "no digits"),
        ({"type": "string", "logicalType": "uuid"}, b"\x02a", "no UUID"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x80\xf0\xb2R", "not within a day"),
    ],
)
def test_a_value_that_does_not_follow_its_schema_is_a_fault_with_the_reason(
    kind: Any, value: bytes, reason: str
) -> None:
    good = [made.encoded(record("long"), {"f0": 1})] if kind == "long" else []
    found = decode(record(kind), *good, value)
    assert [reason in one.reason for one in found.faults] == [True], found.faults
    assert len(rows(found)) == len(good)


def test_blocks_with_their_size_are_read() -> None:
    kind = record({"type": "array", "items": "int"}, {"type": "map", "values": "int"})
    found = decode(kind, b"\x03\x04\x02\x04\x02\x06\x00" + b"\x01\x06\x02a\x08\x00")
    assert rows(found) == [{"f0": [1, 2, 3], "f1": [("a", 4)]}]


@given(made.written())
def test_values_that_follow_each_other_are_those_that_fastavro_wrote(case: Any) -> None:
    schema, expected, values = case
    for plan in plans(made.writer(schema)):
        found, reason = plan.block(b"".join(values), len(values))
        assert ([made.plain(schema, row) for row in found.to_pylist()], reason) == (expected, "")
        _, reason = plan.block(b"".join(values) + b"x", len(values))
        assert reason == "a block has 1 bytes more than its rows"


def test_a_list_of_nulls_has_its_length() -> None:
    for plan in plans(made.writer(record({"type": "array", "items": "null"}))):
        found, _ = plan.block(b"\4\0", 1)
        assert found.to_pylist() == [{"f0": [None, None]}]
    inner = record({"type": "array", "items": "null"}, {"type": "string", "logicalType": "uuid"}, name="Inner")
    for plan in plans(made.writer(record({"type": "map", "values": {"type": "array", "items": inner}}))):
        found, reason = plan.block(b"\2\2a\2\4\0" + b"\x48e3e70682-c209-4cac-629f-6fbed82c07cd" + b"\0\0", 1)
        value = [("a", [{"f0": [None, None], "f1": UUID("e3e70682-c209-4cac-629f-6fbed82c07cd")}])]
        assert (found.to_pylist(), reason) == ([{"f0": value}], "")


def test_values_that_follow_each_other_end_at_the_first_that_is_no_value() -> None:
    for plan in plans(made.writer(record("boolean"))):
        found, reason = plan.block(b"\0\1\2\0", 4)
        assert ([row["f0"] for row in found.to_pylist()], reason) == ([False, True], "a boolean is 2")
    for plan in plans(made.writer(record("null"))):
        assert plan.block(b"", 1 << 40)[1] == "it has too many rows without bytes"


def test_logical_types_have_their_units_and_zones() -> None:
    units = {"millis": "ms", "micros": "us", "nanos": "ns"}
    kinds = [{"type": "long", "logicalType": f"{at}timestamp-{unit}"} for at in ("", "local-") for unit in units]
    plan = FORMAT.plan(made.writer(record(*kinds, {"type": "long", "logicalType": "unknown"})), None, list)
    expected = [pa.timestamp(unit, zone) for zone in ("UTC", None) for unit in units.values()]
    assert [field.type for field in plan.kind] == [*expected, pa.int64()]


def test_a_decimal_of_more_than_38_digits_is_exact_too() -> None:
    kind = record({"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 1})
    found = decode(kind, b"\x28" + (10**45).to_bytes(20, "big"))
    assert str(rows(found)[0]["f0"]) == f"1{'0' * 44}.0"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "not JSON"),
        ('"string"', "not records"),
        ('["null", {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}]', "not records"),
        ('{"type": "record", "name": "R", "fields": []}', "not records"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}', "R contains itself"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "S"}]}', "S is not defined"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', "lacks `type`"),
        ('{"type": "record", "name": "R", "fields": 5}', "not a list"),
        ('{"type": "record", "name": 5, "fields": []}', "not a name"),
        ('{"type": "enum", "name": "R"}', "no symbols"),
        ('{"type": "fixed", "name": "R", "size": -1}', "no size"),
        ('{"type": "array"}', "lacks `items`"),
        ('{"type": ["int", "int"]}', "twice"),
        ('{"type": {"a": 1}}', "no type"),
        ("[]", "empty"),
        ("5", "not a type"),
        (f"{'[' * 100_000}", "not JSON"),
        ('{"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}', "duration"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 77}', "more than 76 digits"),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(schema: str, reason: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=reason):
        FORMAT.plan(WriterSchema(schema), None, list)


def test_a_schema_that_unfolds_without_end_is_refused() -> None:
    inner = '{"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}'
    for level in range(1, 40):
        fields = f'[{{"name": "a", "type": {inner}}}, {{"name": "b", "type": "R{level - 1}"}}]'
        inner = f'{{"type": "record", "name": "R{level}", "fields": {fields}}}'
    with pytest.raises(UnsupportedSchemaError, match="more than"):
        FORMAT.plan(WriterSchema(inner), None, list)


def test_a_type_of_another_schema_is_found_by_its_name() -> None:
    place = WriterSchema('{"type": "record", "name": "a.Place", "fields": [{"name": "zip", "type": "int"}]}')
    text = '{"type": "record", "name": "b.R", "fields": [{"name": "at", "type": "a.Place"}]}'
    plan = FORMAT.plan(WriterSchema(text, references=(("a.Place", place),)), None, list)
    assert rows(plan.decode(pa.array([b"\x0a"], pa.binary()), 0)) == [{"at": {"zip": 5}}]
