"""Section 6.4 of the RFC of the iceberg sink: how tables come into being, and change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calve.errors import SettingsError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from kit.lake import Lake
from kit.statements import missing

STATEMENTS = {
    "an existing table decides": "whole/test_existing_tables.py::test_options_that_an_existing_table_does_not_follow_and_a_table_that_is_gone_are_said",
    "two nodes create a table at once": "catalog/test_catalog.py::test_creators_side_by_side_get_one_table",
    "a definition in the YAML": "references/test_sink_rfc_3.py::test_each_example_writes_its_rows",
    "the first type of a new field wins; a later value follows the rules of mismatches": "convert/test_rfc_coercion.py::test_a_mismatch_concerns_its_event_alone",
    "a table that is missing stops a static pipeline, and rejects events of a dynamic one": "whole/test_rfc_errors.py::test_a_start_without_the_table_and_without_auto_create_fails",
    "columns from the first batch of each thread": "docs/from-data-prepper.md: columns from all events of the batch, `{}` and `[]` alone are text; evolution also widens them",
    "ISO texts in new tables are strings": "docs/from-data-prepper.md: `timestamptz`, without an offset `timestamp`; `infer_timestamps: false` keeps text",
}
AUTO = {"table_identifier": "ns.t", "auto_create": True}


def test_each_statement_has_its_test_or_its_page() -> None:
    assert missing(STATEMENTS) == {}


def test_a_table_has_the_types_of_its_events(tmp_path: Path) -> None:
    event = {
        "whole": 1,
        "real": 1.5,
        "yes": True,
        "text": "x",
        "in": {"a": 1, "b": {"c": "d"}},
        "list": ["x"],
        "numbers": [1, 2],
        "no_items": [],
        "no_fields": {},
        "day": "2026-04-22",
    }
    lake = Lake(tmp_path, {**AUTO, "infer_timestamps": False})
    lake.write([json.dumps(event)])
    schema = lake.schema()
    assert schema is not None
    inside = schema.pop("in")
    assert inside.startswith("struct<")
    assert "a: optional long" in inside
    assert schema == {
        "whole": "long",
        "real": "double",
        "yes": "boolean",
        "text": "string",
        "list": "list<string>",
        "numbers": "list<long>",
        "no_items": "string",
        "no_fields": "string",
        "day": "string",
    }


def test_a_new_field_adds_a_column_and_its_event_is_written_with_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {**AUTO, "schema_evolution": True})
    lake.write(['{"id":1,"in":{"a":1}}'])
    lake.write(['{"id":2,"in":{"a":2,"b":"x"},"more":true}', '{"id":3}'], ['{"id":4,"more":false,"other":[1.5]}'])
    schema = lake.schema()
    assert schema is not None
    assert (schema["more"], schema["other"]) == ("boolean", "list<double>")
    rows = {row["id"]: row for row in lake.rows["ns.t"]}
    assert (rows[2]["more"], rows[3]["more"], rows[4]["other"]) == (True, None, [1.5])
    assert rows[2]["in"] == {"a": 2, "b": "x"}
    assert lake.codes() == []


def test_without_evolution_a_new_field_is_ignored(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {**AUTO, "schema_evolution": False})
    lake.write(['{"id":1}'])
    lake.write(['{"id":2,"more":true}'])
    assert (lake.schema(), lake.codes(), len(lake.rows["ns.t"])) == ({"id": "long"}, [], 2)


def test_each_table_that_events_name_has_the_columns_of_its_own_events(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"table_identifier": "ns.${/kind}", "auto_create": True})
    lake.write(['{"kind":"a","n":1}', '{"kind":"b","t":"x"}'])
    assert (lake.schema("ns.a"), lake.schema("ns.b")) == (
        {"kind": "string", "n": "long"},
        {"kind": "string", "t": "string"},
    )


def test_a_name_of_events_without_its_table_is_a_dead_letter(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"table_identifier": "ns.${/kind}", "auto_create": False})
    lake.write(['{"kind":"a","n":1}'])
    assert (lake.codes(), lake.schema("ns.a")) == (["NO_SUCH_TABLE"], None)


def test_a_schema_beside_a_dynamic_name_is_refused() -> None:
    sink = {
        "table_identifier": "ns.${/kind}",
        "auto_create": True,
        "schema": {"columns": [{"name": "id", "type": "long"}]},
    }
    with pytest.raises(SettingsError, match="schema"):
        parse_text(json.dumps({"p": {"source": {"http": {}}, "sink": [{"iceberg": sink}]}}), PLUGINS)
