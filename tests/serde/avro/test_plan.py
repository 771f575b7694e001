"""A version that is chosen decides the columns: promoted, renamed, filled with defaults, or refused; as fastavro reads."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from calve.serde.avro.format import FORMAT
from calve.serde.format import UnsupportedSchemaError
from serde.avro import values as made
from serde.avro.test_decoder import decode, record, rows

_ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
_NARROW = {"type": "enum", "name": "E", "symbols": ["C", "A"], "default": "A"}
_INNER = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}]}
_OTHER = {
    "type": "record",
    "name": "In",
    "fields": [{"name": "z", "type": "long", "default": 7}, {"name": "b", "type": "double", "aliases": ["x"]}],
}


@pytest.mark.parametrize(
    ("writer", "reader", "value"),
    [
        ("int", "long", 5),
        ("int", "float", 5),
        ("int", "double", 5),
        ("long", "double", 1 << 50),
        ("float", "double", 0.5),
        ("string", "bytes", "é"),
        ("bytes", "string", b"ab"),
        ("int", ["null", "long"], 5),
        (["null", "int"], ["null", "long"], None),
        (["null", "int"], "long", 5),
        (["int", "string"], "string", "a"),
        (_ENUM, _NARROW, "B"),
        (_ENUM, _NARROW, "C"),
        (_INNER, _OTHER, {"x": 5, "y": "skipped"}),
        ({"type": "array", "items": _INNER}, {"type": "array", "items": _OTHER}, [{"x": 1, "y": ""}]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, {"k": 1}),
    ],
)
def test_a_value_is_read_as_the_chosen_version(writer: Any, reader: Any, value: Any) -> None:
    one, other = record(writer), record(reader)
    data = made.encoded(one, {"f0": value})
    schemas = [fastavro.parse_schema(json.loads(json.dumps(each))) for each in (one, other)]
    expected = fastavro.schemaless_reader(io.BytesIO(data), *schemas)
    assert [made.plain(other, row) for row in rows(decode(one, data, reader=other))] == [expected]


@pytest.mark.parametrize(
    ("writer", "reader", "value"), [("int", "float", (1 << 24) + 1), ("long", "double", (1 << 53) + 1)]
)
def test_a_number_that_a_chosen_version_cannot_hold_is_undecodable(writer: str, reader: str, value: int) -> None:
    for number, faults in ((value, 1), (value - 1, 0)):
        decoded = decode(record(writer), made.encoded(record(writer), {"f0": number}), reader=record(reader))
        assert len(decoded.faults) == faults
        assert [row["f0"] for row in rows(decoded)] == ([] if faults else [number])


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", 5),
        ("string", "é"),
        ("bytes", "\u00ff"),
        (["null", "int"], None),
        (["int", "null"], 5),
        ({"type": "array", "items": "int"}, [1, 2]),
        ({"type": "map", "values": "double"}, {"a": 0.5}),
        (_ENUM, "B"),
        (_OTHER, {"b": 0.25}),
        ({"type": "fixed", "name": "F", "size": 2}, "ab"),
        ("boolean", True),
        ("float", 1.5),
    ],
)
def test_a_field_that_a_value_lacks_has_its_default(kind: Any, default: Any) -> None:
    field = {"name": "new", "type": kind, "default": default}
    reader = {"type": "record", "name": "R", "fields": [*record("int")["fields"], field]}
    found = decode(record("int"), b"\x02", reader=reader)
    expected = {"b": 0.25, "z": 7} if kind is _OTHER else default.encode("latin-1") if _is_bytes(kind) else default
    assert [made.plain(reader, row) for row in rows(found)] == [{"f0": 1, "new": expected}]


def _is_bytes(kind: Any) -> bool:
    return kind == "bytes" or (isinstance(kind, dict) and kind["type"] == "fixed")


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        (record("int"), record("int", "int"), "the field f1 has no default"),
        (record("string"), record("int"), "f0: string is not int"),
        (record("string"), record(["null", "int"]), "string is no branch"),
        (record(["null", "string"]), record("int"), "f0: null is not int"),
        (
            record({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}),
            record({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 1}),
            "digits of a decimal",
        ),
        (
            record({"type": "long", "logicalType": "timestamp-millis"}),
            record({"type": "long", "logicalType": "timestamp-micros"}),
            "timestamp-millis is not timestamp-micros",
        ),
        (record("int"), {**record("int"), "fields": [{"name": "g", "type": "int", "default": "x"}]}, "the default x"),
    ],
)
def test_versions_that_do_not_fit_are_refused_by_name(writer: Any, reader: Any, reason: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=reason):
        FORMAT.plan(made.writer(writer), made.writer(reader), list)


def test_a_branch_that_the_chosen_version_lacks_is_a_fault_of_its_values_alone() -> None:
    found = decode(record(["null", "int"]), b"\x00", b"\x02\x0a", reader=record("int"))
    assert (rows(found), [one.row for one in found.faults]) == ([{"f0": 5}], [0])


def test_a_union_of_several_types_is_a_struct_with_a_field_for_each() -> None:
    kinds = ["null", "string", "long", {"type": "record", "name": "a.In", "fields": [{"name": "x", "type": "int"}]}]
    found = decode(record(kinds), b"\x00", b"\x02\x02a", b"\x04\x0a", b"\x06\x0c")
    empty = {"string": None, "long": None, "In": None}
    assert [row["f0"] for row in rows(found)] == [
        None,
        {**empty, "string": "a"},
        {**empty, "long": 5},
        {**empty, "In": {"x": 6}},
    ]


def test_branches_of_the_same_short_name_have_their_full_names() -> None:
    kinds = [{"type": "fixed", "name": f"{place}.F", "size": 1} for place in "ab"]
    plan = FORMAT.plan(made.writer(record(kinds)), None, list)
    assert [field.name for field in plan.kind["f0"].type] == ["a.F", "b.F"]


def test_a_renamed_field_keeps_its_first_name_through_all_versions() -> None:
    versions = [
        record("int"),
        {**record("int"), "fields": [{"name": "b", "type": "long", "aliases": ["f0"]}]},
        {**record("int"), "fields": [{"name": "c", "type": "long", "aliases": ["b"]}, {"name": "d", "type": "int"}]},
    ]
    for number, expected in enumerate((["f0"], ["f0"], ["f0", "d"])):
        earlier = [made.writer(one) for one in versions[:number]]
        plan = FORMAT.plan(made.writer(versions[number]), None, lambda earlier=earlier: earlier)
        assert [field.name for field in plan.kind] == expected


def test_a_renamed_field_of_a_nested_record_keeps_its_first_name_and_a_new_one_beside_it_its_own() -> None:
    def nested(*fields: dict[str, Any]) -> dict[str, Any]:
        return record({"type": "array", "items": {"type": "record", "name": "In", "fields": list(fields)}})

    old = nested({"name": "a", "type": "int"})
    new = nested({"name": "b", "type": "int", "aliases": ["a"]}, {"name": "c", "type": "int"})
    both = nested({"name": "b", "type": "int", "aliases": ["a"]}, {"name": "a", "type": "int"})
    for schema, expected in ((new, ["a", "c"]), (both, ["b", "a"])):
        plan = FORMAT.plan(made.writer(schema), None, lambda: [made.writer(old)])
        assert [field.name for field in plan.kind["f0"].type.value_type] == expected


def test_the_rows_of_a_plan_have_a_declaration_with_their_types() -> None:
    plan = FORMAT.plan(made.writer(record("int")), None, list)
    part = plan.decode(pa.array([b"\x02"], pa.binary()), 0).parts[0]
    assert '"kind":"int32"' in part.declaration
