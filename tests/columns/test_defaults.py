"""Columns that Calve creates have the defaults of `column_types` and `schema.columns`."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from calve.columns.declared_types import ColumnTypes
from calve.columns.evolve import plan_evolution
from calve.columns.infer import Inferred
from calve.columns.node import Kind, Node
from calve.errors import SettingsError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.settings.problems import SettingsErrors
from calve.sinks.iceberg.draft_rules import DraftRules
from calve.table.loaded import Table
from calve.table.type_text import declared
from kit.lake import Lake

V3 = {"table_identifier": "ns.t", "auto_create": True, "table_properties": {"format-version": "3"}}
TYPES = {"total": "decimal(12,2) default 0.00", "in.day": "date default 2024-02-03", "*_flag": "boolean default true"}


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("decimal(12,2) default 7", Decimal("7.00")),
        (f"decimal(38,2) default {'9' * 36}.5", Decimal(f"{'9' * 36}.50")),
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


@pytest.mark.parametrize("version", [2, 3])
def test_only_version_3_gets_new_columns_with_defaults(version: int) -> None:
    table = Table("ns.t", "", "", '{"type":"struct","fields":[]}', '{"spec-id":0,"fields":[]}', format_version=version)
    inner = Node(Kind.STRUCT, {"b": Node(Kind.INT, default="7")})
    fields = Node(Kind.STRUCT, {"a": Node(Kind.STRING, default="x"), "s": inner})
    planned = json.dumps(plan_evolution(table, fields).add)
    assert ("write-default" in planned, '"x"' in planned) == (version > 2, version > 2)


@pytest.mark.parametrize("version", [2, 3])
def test_only_new_tables_of_version_3_have_defaults(version: int) -> None:
    kinds = {"int": Node(Kind.INT, default="7"), "bytes": Node(Kind.BINARY, default="AQ=="), "day": Node(Kind.DATE)}
    kinds |= {"price": Node(Kind.DECIMAL, digits=(8, 2), default="0.25"), "s": Node(Kind.STRUCT, dict(kinds))}
    kinds["list"] = Node(Kind.LIST, {"element": Node(Kind.STRUCT, dict(kinds))})
    rules = DraftRules(has_defaults=version > 2)
    text = rules.schema(Inferred(Node(Kind.STRUCT, dict(kinds)))).model_dump_json()
    assert text.count("initial-default") == text.count("write-default") == (10 if version > 2 else 0)


@pytest.mark.parametrize("place", ["column_types.n", "schema.columns[0].type", "schemas[0].columns[0].type"])
def test_a_default_of_a_new_table_of_version_2_is_refused(place: str) -> None:
    columns = [{"name": "n", "type": "int default 7"}]
    options: dict[str, dict[str, Any]] = {
        "column_types.n": {"column_types": {"n": "int default 7"}},
        "schema.columns[0].type": {"schema": {"columns": columns}},
        "schemas[0].columns[0].type": {
            "table_identifier": "ns.${/kind}",
            "schemas": [{"tables": "ns.*", "columns": columns}],
        },
    }
    sink = {"table_identifier": "ns.t", "auto_create": True, **options[place]}
    pipeline = {"source": {"http": {}}, "sink": [{"iceberg": sink}]}
    with pytest.raises(SettingsErrors, match="format-version: 3") as refused:
        parse_text(json.dumps({"p": pipeline}), PLUGINS)
    assert place in str(refused.value)
    sink["table_properties"] = {"format-version": "3"}
    parse_text(json.dumps({"p": pipeline}), PLUGINS)


@pytest.mark.parametrize(
    "text", ["int default 2147483648", "long default 1.5", "fixed[2] default AQ==", "double default 1e999"]
)
def test_a_default_is_never_cut(text: str) -> None:
    with pytest.raises(SettingsError):
        declared(text)


def test_types_without_defaults_have_none() -> None:
    assert not ColumnTypes({"a": "int"}).has_defaults
    assert ColumnTypes({"a": "int default 1"}).has_defaults
