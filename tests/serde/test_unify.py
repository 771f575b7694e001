"""Rows of several versions of a schema become rows of one type; no value changes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from calve.serde.unify import joined, unified

_OLD = pa.struct([("id", pa.int32()), ("gone", pa.large_string()), ("in", pa.struct([("a", pa.float32())]))])
_NEW = pa.struct([("in", pa.struct([("a", pa.float64()), ("b", pa.bool_())])), ("id", pa.int64()), ("x", pa.binary(2))])


def test_rows_of_two_versions_have_all_fields_and_the_wider_types() -> None:
    old = pa.array([{"id": 1, "gone": "x", "in": {"a": 0.5}}, {"id": None, "gone": None, "in": None}], _OLD)
    new = pa.array([{"id": 1 << 40, "in": {"a": 0.1, "b": True}, "x": b"ab"}], _NEW)
    found = joined([old, new])
    assert [field.name for field in found.type] == ["id", "gone", "in", "x"]
    assert found.to_pylist() == [
        {"id": 1, "gone": "x", "in": {"a": 0.5, "b": None}, "x": None},
        {"id": None, "gone": None, "in": None, "x": None},
        {"id": 1 << 40, "gone": None, "in": {"a": 0.1, "b": True}, "x": b"ab"},
    ]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.null(), pa.int32(), pa.int32()),
        (pa.int32(), pa.null(), pa.int32()),
        (pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(9, 2)),
        (pa.decimal128(5, 2), pa.decimal128(9, 3), None),
        (pa.int64(), pa.float64(), None),
        (pa.large_string(), pa.int32(), None),
        (pa.large_list(pa.int32()), pa.large_list(pa.int64()), pa.large_list(pa.int64())),
        (pa.map_(pa.large_string(), pa.int32()), pa.map_(pa.large_string(), pa.int64()), "map"),
        (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.large_string())]), None),
        (pa.large_list(pa.int32()), pa.large_list(pa.bool_()), None),
    ],
)
def test_a_type_holds_all_values_of_both_or_there_is_none(one: pa.DataType, other: pa.DataType, both: object) -> None:
    found = unified(one, other)
    assert found == (pa.map_(pa.large_string(), pa.int64()) if both == "map" else both)
