"""Columns that Calve creates have the defaults of `column_types` and `schema.columns`."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from calve.columns.declared_types import ColumnTypes
from calve.errors import SettingsError
from calve.table.type_text import declared
from kit.lake import Lake

V3 = {"table_identifier": "ns.t", "auto_create": True, "table_properties": {"format-version": "3"}}
TYPES = {"total": "decimal(12,2) default 0.00", "in.day": "date default 2024-02-03", "*_flag": "boolean default true"}


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("decimal(12,2) default 7", Decimal("7.00")),
        ("decimal(12,2) DEFAULT -7.25", Decimal("-7.25")),
        ("string default 'it is'", "it is"),
        ("string default default", "default"),
        ("long", None),
        ("struct<default: int>", None),
    ],
)
def test_a_default_follows_its_type(text: str, default: Any) -> None:
    assert declared(text)[1] == default


@pytest.mark.parametrize("text", ["int default x", "decimal(4,2) default 0.001", "list<int> default 1", "int default"])
def test_a_default_that_is_no_value_of_its_type_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        declared(text)


def test_an_event_that_lacks_a_field_has_the_default_of_its_new_column(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {**V3, "schema_evolution": True, "column_types": TYPES})
    lake.write(
        ['{"id":1,"total":1.5,"in":{"day":"2020-01-01","n":1}}', '{"id":2,"in":{"n":2}}', '{"id":3,"total":null}']
    )
    lake.write(['{"id":4,"new_flag":false}', '{"id":5}'])
    rows = {row["id"]: row for row in lake.rows["ns.t"]}
    assert [rows[number]["total"] for number in range(1, 6)] == [Decimal("1.50"), 0, None, 0, 0]
    assert rows[2]["in"] == {"day": date(2024, 2, 3), "n": 2}
    assert [rows[number]["new_flag"] for number in (4, 5)] == [False, True]
    fields = {field["name"]: field for field in json.loads(lake.catalog.load("ns.t").schema_json)["fields"]}
    assert fields["new_flag"]["initial-default"] is fields["new_flag"]["write-default"] is True


def test_columns_of_a_schema_have_defaults(tmp_path: Path) -> None:
    columns = [{"name": "id", "type": "long"}, {"name": "n", "type": "int default 7", "required": True}]
    lake = Lake(tmp_path, {**V3, "schema": {"columns": columns}})
    lake.write(['{"id":1}', '{"id":2,"n":3}', '{"id":3,"n":null}'])
    assert [(row["id"], row["n"]) for row in lake.rows["ns.t"]] == [(1, 7), (2, 3)]
    assert lake.codes() == ["REQUIRED_MISSING"]


def test_a_table_of_version_2_gets_new_columns_without_defaults(tmp_path: Path) -> None:
    lake = Lake(
        tmp_path,
        {
            "table_identifier": "ns.t",
            "auto_create": True,
            "schema_evolution": True,
            "column_types": {"n": "int default 7"},
        },
    )
    lake.write(['{"id":1}'])
    lake.write(['{"id":2,"n":1}', '{"id":3}'])
    assert [row.get("n") for row in lake.rows["ns.t"]] == [None, 1, None]


def test_types_without_defaults_have_none() -> None:
    assert not ColumnTypes({"a": "int"}).has_defaults
    assert ColumnTypes({"a": "int default 1"}).has_defaults
