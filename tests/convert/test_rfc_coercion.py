"""The two tables of the RFC's section 6.3, a row each: what a value may be made of, and what becomes of a mismatch."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from calve.convert.converter import ConvertedEvents, Converter
from calve.table.definition import schema_from_columns
from kit.tables import plain_rows, table_of


def converted(columns: list[dict], *events: object) -> ConvertedEvents:
    rows = pa.table({"event": pa.array([json.dumps(event).encode() for event in events], pa.binary())})
    return Converter(table_of(schema_from_columns(columns))).convert(rows)


MOMENT = 1_772_366_400_000_000
COERCIONS = {
    "int from a number": ("int", 7, 7),
    "int from text": ("int", "7", 7),
    "long from a number": ("long", 2**53 + 1, 2**53 + 1),
    "long from text": ("long", "9007199254740993", 2**53 + 1),
    "float from a number": ("float", 1.5, 1.5),
    "float from text": ("float", "1.5", 1.5),
    "double from a number": ("double", 0.1, 0.1),
    "double from text": ("double", "0.1", 0.1),
    "decimal from a number": ("decimal(9,2)", 1.1, 110),
    "decimal from text": ("decimal(9,2)", "1.10", 110),
    "boolean from a boolean": ("boolean", True, True),
    "boolean from text": ("boolean", "False", False),
    "string from text": ("string", "x", "x"),
    "string from a number": ("string", 1.5, "1.5"),
    "string from a boolean": ("string", True, "true"),
    "timestamp from ISO text": ("timestamp", "2026-03-01T12:00:00", MOMENT),
    "timestamp from milliseconds": ("timestamp", 1_772_366_400_000, MOMENT),
    "timestamptz from ISO text": ("timestamptz", "2026-03-01T13:00:00+01:00", MOMENT),
    "timestamptz from milliseconds": ("timestamptz", 1_772_366_400_000, MOMENT),
    "date from ISO text": ("date", "1970-01-11", 10),
    "date from days": ("date", 10, 10),
    "time from ISO text": ("time", "00:00:01", 1_000_000),
    "time from milliseconds": ("time", 1000, 1_000_000),
    "binary from Base64": ("binary", "YWJj", b"abc"),
    "uuid from text": ("uuid", "00000000-0000-0000-0000-00000000000a", bytes(15) + b"\n"),
    "struct from an object": (
        "struct<a: int, s: struct<b: long>>",
        {"a": "1", "s": {"b": "2"}},
        {"a": 1, "s": {"b": 2}},
    ),
    "list from an array": ("list<int>", ["1", 2, None], [1, 2, None]),
    "map from an object": ("map<string, int>", {"k": "1"}, [("k", 1)]),
}


@pytest.mark.parametrize("row", COERCIONS)
def test_a_column_is_made_of(row: str) -> None:
    kind, given, expected = COERCIONS[row]
    found = converted([{"name": "v", "type": kind}], {"v": given})
    assert repr(plain_rows(found.rows)) == repr([{"v": expected}])
    assert (found.nulled, len(found.rejects)) == ({}, 0)


COLUMNS = [{"name": "id", "type": "long", "required": True}, {"name": "n", "type": "int"}]
MISMATCHES = {
    "everything fits": ({"id": 1, "n": 2}, {"id": 1, "n": 2}),
    "a field more than the table has": ({"id": 1, "n": 2, "more": [3]}, {"id": 1, "n": 2}),
    "an optional field is missing": ({"id": 1}, {"id": 1, "n": None}),
    "a required field is missing": ({"n": 2}, "REQUIRED_MISSING"),
    "another type that can be coerced": ({"id": "1", "n": "2"}, {"id": 1, "n": 2}),
    "another type, not coercible, optional": ({"id": 1, "n": "two"}, {"id": 1, "n": None}),
    "another type, not coercible, required": ({"id": "one", "n": 2}, "NOT_COERCIBLE"),
    "no field is a column": ({"more": 3}, "NO_MATCHING_FIELDS"),
}


@pytest.mark.parametrize("row", MISMATCHES)
def test_a_mismatch_concerns_its_event_alone(row: str) -> None:
    event, expected = MISMATCHES[row]
    before, after = {"id": 8, "n": 8}, {"id": 9, "n": 9}
    found = converted(COLUMNS, before, event, after)
    rejected = [expected] if isinstance(expected, str) else []
    written = [] if rejected else [expected]
    assert plain_rows(found.rows) == [before, *written, after]
    assert found.rejects["code"].to_pylist() == rejected
