"""The table of the RFC's section 10, a row each: a setting is read as it is meant, has its default, or is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from calve.pipeline.plugins import PLUGINS
from calve.settings import SettingsErrors, parse_text
from calve.sinks.iceberg.settings import IcebergSettings

COLUMNS = [{"name": "at", "type": "timestamptz", "required": True}, {"name": "n", "type": "decimal(9,2)"}]


def sink(options: str) -> IcebergSettings:
    text = f"p: {{source: {{file: {{path: x}}}}, sink: [{{iceberg: {{{options}}}}}]}}"
    return parse_text(text, PLUGINS, environment={}).pipelines[0].sinks[0].value


GIVEN: dict[str, tuple[str, str, Any]] = {
    "catalog": ("catalog: {type: rest, uri: 'http://x'}", "catalog", {"type": "rest", "uri": "http://x"}),
    "operation": ("operation: '${/op}'", "operation", "${/op}"),
    "identifier_columns": ("identifier_columns: [id, at.day]", "identifier_columns", ["id", "at.day"]),
    "table_identifier by event": ("table_identifier: 'db.${/kind}'", "dynamic", True),
    "auto_create": ("auto_create: true", "auto_create", True),
    "schema_evolution": ("schema_evolution: true", "schema_evolution", True),
    "schema.columns": (
        "schema: {columns: [{name: at, type: timestamptz, required: true}, {name: n, type: 'decimal(9,2)'}]}",
        "columns",
        [COLUMNS[0], {**COLUMNS[1], "required": False}],
    ),
    "schema.partition_spec": (
        "schema: {columns: [{name: at, type: date}], partition_spec: [{column: at, transform: day}]}",
        "partition_fields",
        [{"column": "at", "transform": "day"}],
    ),
    "table_properties": ("table_properties: {format-version: 2}", "table_properties", {"format-version": "2"}),
    "table_location": ("table_location: s3://b/t", "table_location", "s3://b/t"),
    "commit_interval": ("commit_interval: 30s", "commit_interval", timedelta(seconds=30)),
    "flush_interval": ("flush_interval: PT1M", "flush_interval", timedelta(minutes=1)),
    "ack_poll_interval": ("ack_poll_interval: 500ms", "ack_poll_interval", timedelta(milliseconds=500)),
    "dlq": ("dlq: {s3: {bucket: b, key_path_prefix: dead/}}", "dlq_prefix", "s3://b/dead"),
}


@pytest.mark.parametrize("row", GIVEN)
def test_a_setting_is_read(row: str) -> None:
    options, name, expected = GIVEN[row]
    needed = "" if "table_identifier" in options else "table_identifier: a.b, "
    assert getattr(sink(needed + options), name) == expected


DEFAULTS: dict[str, Any] = {
    "operation": None,
    "identifier_columns": [],
    "auto_create": False,
    "schema_evolution": False,
    "columns": [],
    "partition_fields": [],
    "table_properties": {},
    "table_location": None,
    "commit_interval": timedelta(minutes=5),
    "flush_interval": timedelta(minutes=5),
    "ack_poll_interval": timedelta(seconds=5),
    "dlq": None,
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_setting_that_is_not_given_has_its_default(name: str) -> None:
    assert getattr(sink("table_identifier: a.b"), name) == DEFAULTS[name]


def test_a_static_table_identifier_is_one_table() -> None:
    assert not sink("table_identifier: a.b").dynamic


def test_only_the_catalog_may_be_left_out_although_it_is_required_there() -> None:
    assert sink("table_identifier: a.b").catalog is None  # the embedded one
    with pytest.raises(SettingsErrors, match="table_identifier: is required but missing"):
        sink("catalog: {type: hive}")


def test_a_schema_is_for_one_table_only() -> None:
    with pytest.raises(SettingsErrors, match="created from their events"):
        sink("table_identifier: 'a.${/b}', auto_create: true, schema: {columns: [{name: x, type: int}]}")
