"""Tables as YAML defines them."""

from __future__ import annotations

import pytest
from pyiceberg import types as t

from calve.errors import SettingsError
from calve.table.definition import partition_spec_fields, schema_from_columns
from calve.table.type_text import parse_type


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("struct<a: int, b: string>", "struct<1: a: optional int, 2: b: optional string>"),
        ("LIST< int >", "list<int>"), ("map<string, decimal(9,2)>", "map<string, decimal(9, 2)>"), ("fixed[16]", "fixed[16]"),
        ("decimal(5)", "decimal(5, 0)"), ("struct<`a b`: uuid required>", "struct<1: a b: required uuid>"),
        *[(each, each) for each in ("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz",
                                    "timestamp_ns", "timestamptz_ns", "string", "uuid", "binary")],
    ],
)  # fmt: skip
def test_every_type_can_be_written(text, shown):
    assert str(parse_type(text)) == shown


@pytest.mark.parametrize(
    "text", ["strng", "", "decimal(39,2)", "decimal(3,4)", "list<int", "struct<>", "struct<a: int, a: int>", "int x", "fixed(2)", "map<int>"]
)  # fmt: skip
def test_a_type_that_cannot_be_read_says_what_is_allowed(text):
    with pytest.raises(SettingsError, match=r"Allowed: boolean, int, .*map<type, type>"):
        parse_type(text)


def test_columns_become_a_schema_with_ids_of_their_own():
    schema = schema_from_columns(
        [{"name": "id", "type": "long", "required": True}, {"name": "s", "type": "struct<a: list<int>>"}]
    )
    assert schema.find_field("id").required
    assert isinstance(schema.find_type("s.a"), t.ListType)
    assert len(schema.field_ids) == 4


@pytest.mark.parametrize("columns", [[{"type": "int"}], [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]])
def test_a_column_without_a_name_or_with_one_that_is_there_twice_is_an_error(columns):
    with pytest.raises(SettingsError, match=r"schema\.columns"):
        schema_from_columns(columns)


SCHEMA = schema_from_columns(
    [{"name": "id", "type": "long"}, {"name": "ts", "type": "timestamptz"}, {"name": "s", "type": "struct<n: string>"}]
)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"column": "ts", "transform": "day"}, ("ts", "day")), ({"column": "id"}, ("id", "identity")), ("id", ("id", "identity")),
        ("day(ts)", ("ts", "day")), ("hours( ts )", ("ts", "hour")), ("bucket(16, id)", ("id", "bucket[16]")),
        ("truncate(s.n, 4)", ("s.n", "truncate[4]")), ({"column": "id", "transform": "bucket[8]"}, ("id", "bucket[8]")),
        ({"column": "id", "transform": "truncate(10)"}, ("id", "truncate[10]")), ("void(id)", ("id", "void")),
        ("years(ts)", ("ts", "year")), ("month(ts)", ("ts", "month")),
    ],
)  # fmt: skip
def test_both_forms_of_every_transform_are_read(entry, expected):
    assert partition_spec_fields([entry], SCHEMA) == [expected]


@pytest.mark.parametrize(
    "entry", ["dya(ts)", "day(id)", "day(nothing)", "bucket(id)", "bucket(0, id)", "day(ts", "", {"transform": "day"}, "identity(s)"]
)  # fmt: skip
def test_a_transform_that_cannot_be_used_says_what_is_allowed(entry):
    with pytest.raises(SettingsError, match=r"Allowed: identity, year"):
        partition_spec_fields([entry], SCHEMA)


def test_a_fixed_column_is_no_identity_partition_as_only_java_reads_its_manifests():
    schema = schema_from_columns([{"name": "four", "type": "fixed[4]"}, {"name": "raw", "type": "binary"}])
    for entry in ("four", {"column": "four"}, "identity(four)"):
        with pytest.raises(
            SettingsError, match=r"four is a fixed\[4\]: PyIceberg, iceberg-rust and DuckDB cannot read"
        ):
            partition_spec_fields([entry], schema)
    allowed = ["bucket(4, four)", "void(four)", "raw"]
    assert [column for column, _ in partition_spec_fields(allowed, schema)] == ["four", "four", "raw"]
