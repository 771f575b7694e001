"""Fields that a sink does not write (`include_keys`, `exclude_keys`)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from calve.columns.core_spec import table_spec
from calve.columns.fields import Fields
from calve.columns.infer import infer
from calve.compiled import events as core
from calve.convert.converter import ConvertedEvents, Converter, ConvertOptions
from calve.table.arrow_schema import arrow_schema
from calve.table.definition import schema_from_columns
from kit.compiled_core import needs_core
from kit.tables import plain_rows, table_of


def only(*names: str) -> Fields:
    return Fields(include=frozenset(names))


def all_but(*names: str) -> Fields:
    return Fields(exclude=frozenset(names))


def rows_of(*events: object) -> pa.Table:
    return pa.table({"event": pa.array([json.dumps(event).encode() for event in events], pa.binary())})


def converted(columns: str, events: list[object], **options) -> ConvertedEvents:
    """Convert for columns given as `id: int!, b: string` (`!`: required)."""
    pairs = [column.split(": ", 1) for column in columns.split("; ")]
    made = [{"name": name, "type": kind.rstrip("!"), "required": kind.endswith("!")} for name, kind in pairs]
    return Converter(table_of(schema_from_columns(made)), ConvertOptions(**options)).convert(rows_of(*events))


@pytest.mark.parametrize("fields", [only("a"), only("a", "no such field"), all_but("b"), all_but("b", "x")])
def test_only_the_fields_that_are_left_are_written(fields):
    found = converted("a: int; b: int", [{"a": 1, "b": 2}, {"b": 2, "a": 3, "x": [1]}], fields=fields)
    assert plain_rows(found.rows) == [{"a": 1, "b": None}, {"a": 3, "b": None}]


@pytest.mark.parametrize("mismatch", ["null", "dlq"])
def test_a_field_that_is_not_written_never_nulls_or_rejects(mismatch):
    found = converted("a: int; b: int", [{"a": 1, "b": "x"}], fields=all_but("b"), on_type_mismatch=mismatch)
    assert (plain_rows(found.rows), len(found.rejects), found.nulled) == ([{"a": 1, "b": None}], 0, {})


def test_a_required_column_misses_the_field_that_is_not_written():
    found = converted("a: int; b: int!", [{"a": 1, "b": 2}], fields=all_but("b"))
    assert [(each["code"], each["field"]) for each in found.rejects.to_pylist()] == [("REQUIRED_MISSING", "b")]


@pytest.mark.parametrize("fields", [only("c"), all_but("a", "b")])
def test_an_event_of_which_no_column_is_left_matches_nothing(fields):
    found = converted("a: int; b: int", [{"a": 1, "b": 2}, {"c": 3}], fields=fields)
    assert found.rejects["code"].to_pylist() == ["NO_MATCHING_FIELDS", "NO_MATCHING_FIELDS"]


@pytest.mark.parametrize(
    ("fields", "row"),
    [(all_but("id"), {"id": 1}), (all_but("ID"), {"id": 2}), (only("ID"), {"id": 1})],
)
def test_the_spelling_of_the_event_counts_even_when_case_does_not(fields, row):
    found = converted("id: int", [{"ID": 1, "id": 2}], fields=fields, case_insensitive=True)
    assert plain_rows(found.rows) == [row]


def test_a_field_that_is_not_written_never_becomes_a_column():
    events = [{"a": 1, "new": 1, "secret": 2}]
    found = converted("a: int", events, fields=all_but("secret"), look_for_unknown=True)
    assert list(found.unknown.root.fields) == ["new"]
    assert converted("a: int", events, fields=only("a"), look_for_unknown=True).unknown is None
    assert list(infer(rows_of(*events * 3000), all_but("secret")).root.fields) == ["a", "new"]


def test_a_field_beyond_the_column_limit_rejects_no_event_that_does_not_write_it():
    found = converted("a: int", [{"a": 1, "more": 2}], fields=only("a"), column_limit=1, look_for_unknown=True)
    assert (plain_rows(found.rows), found.unknown) == ([{"a": 1}], None)


@needs_core
def test_the_core_takes_events_with_fields_that_are_not_written():
    schema = schema_from_columns([{"name": name, "type": "long"} for name in "abc"])
    converter = core.converter(table_spec(schema, ConvertOptions(fields=all_but("b"))), arrow_schema(schema))
    taken = converter.convert(rows_of({"a": 1, "b": [2], "c": 3})["event"].chunk(0))
    assert (taken.rows.tolist(), taken.unknown_rows.tolist()) == ([0], [])
