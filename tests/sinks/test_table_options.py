from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from calve.pipeline.plugins import PLUGINS
from calve.record.target import EQUALITY_DELETE
from calve.settings import SettingsErrors, parse_text
from calve.sinks.iceberg.settings import IcebergSettings
from kit.lake import Lake

SHOP = {"table_identifier": "shop.${/t}", "auto_create": True}


def parsed(*tables: dict[str, Any], **more: Any) -> IcebergSettings:
    sink = {**SHOP, "tables": list(tables), **more}
    text = json.dumps({"p": {"source": {"file": {"path": "x.ndjson"}}, "sink": [{"iceberg": sink}]}})
    [pipeline] = parse_text(text, PLUGINS).pipelines
    settings: IcebergSettings = pipeline.sinks[0].value
    return settings


def test_the_first_entry_that_matches_a_name_replaces_the_settings_of_the_sink() -> None:
    settings = parsed(
        {"name": "shop.orders", "identifier_columns": ["id"], "upsert": True, "commit_interval": "10s"},
        {"regex": r"shop\.(audit|log)_\d+", "branch": "raw", "column_types": {"at": "date"}},
        {"name": "shop.o*", "write_mode": "copy-on-write", "on_type_mismatch": "dlq", "retention": "90d"},
        column_types={"at": "timestamptz", "n": "int"},
    )
    orders, other = settings.of("shop.orders"), settings.of("shop.others")
    assert (orders.upsert, orders.identifier_columns, orders.write_mode) == (True, ["id"], "merge-on-read")
    assert (other.upsert, other.write_mode, other.on_type_mismatch) == (False, "copy-on-write", "dlq")
    assert (orders.commit_interval, other.commit_interval) == (timedelta(seconds=10), timedelta(minutes=5))
    assert other.limits
    assert other.limits.retention == timedelta(days=90)
    assert orders.limits
    assert orders.limits.retention is None
    assert settings.of("shop.audit_12").column_types == {"at": "date", "n": "int"}
    assert settings.of("shop.audit_12x").branch is None, "a regular expression matches the whole name"
    assert settings.changes


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"upsert": True}, "either name or regex"),
        ({"name": "a.b", "regex": "a", "upsert": True}, "either name or regex"),
        ({"name": "shop.a"}, "sets nothing"),
        ({"regex": "shop.(", "upsert": True}, "not a regular expression"),
        ({"name": "shop.*", "table_location": "s3://b/t"}, "several tables cannot have one location"),
        ({"name": "shop.a", "upsert": True}, "would have no key"),
        ({"name": "shop.a", "partition_by": ["week(at)"]}, "tables[0].partition_by[0]"),
        ({"name": "shop.a", "sort_by": ["at up"]}, "asc or desc"),
        ({"name": "shop.a", "branch": "1"}, "not a branch name"),
        ({"name": "shop.a", "column_types": {"a": "texts"}}, "tables[0].column_types.a"),
        ({"name": "shop.a", "up_sert": True}, "upsert"),
        ({"name": "shop.a", "on_dropped_column": "keep"}, "tables[0].on_dropped_column: needs schema_evolution"),
        ({"name": "shop.a", "retention": "3m"}, "must be at least 1h"),
        ({"name": "shop.a", "retention": "90d", "maintenance": False}, "switched off"),
    ],
)
def test_what_an_entry_cannot_be_is_said_at_its_place(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsErrors) as caught:
        parsed(entry)
    assert said in "\n".join(map(str, caught.value.problems))


def test_columns_are_not_removed_for_events_whose_schemas_may_alternate() -> None:
    with pytest.raises(SettingsErrors, match=r"tables\[0\].on_dropped_column: drop is for copies of databases"):
        parsed({"name": "shop.a", "on_dropped_column": "drop"}, schema_evolution=True)
    assert parsed(schema_evolution=True, on_dropped_column="optional").on_dropped_column == "optional"


def test_an_entry_that_is_never_used_is_a_warning() -> None:
    every = {"upsert": True, "identifier_columns": ["id"]}
    never = parsed(
        {"name": "shop.*", **every}, {"name": "shop.a", **every}, {"name": "*", **every}, {"regex": ".", **every}
    )
    assert [key for key, _ in never.doubts()] == ["tables[1]", "tables[3]"]
    assert [key for key, _ in parsed({"name": "b.c", **every}, table_identifier="a.b").doubts()] == ["tables[0]"]


def test_tables_with_keys_branches_types_and_operations_of_their_own_are_written_in_one_pass(tmp_path: Path) -> None:
    lake = Lake(
        tmp_path,
        {
            **SHOP,
            "tables": [
                {
                    "name": "shop.orders",
                    "identifier_columns": ["id"],
                    "operation": "${/op}",
                    "write_mode": EQUALITY_DELETE,
                },
                {"name": "shop.lines", "identifier_columns": ["order", "line"], "upsert": True},
                {"name": "shop.*", "branch": "raw", "column_types": {"n": "string"}},
            ],
        },
    )
    receipts = lake.write(
        [
            '{"t":"orders","op":"c","id":1,"n":1}',
            '{"t":"orders","op":"u","id":1,"n":2}',
            '{"t":"orders","op":"what","id":3,"n":2}',
            '{"t":"lines","order":1,"line":1,"n":1,"op":"d"}',
            '{"t":"lines","order":1,"line":1,"n":5}',
            '{"t":"lines","order":1,"n":5}',
            '{"t":"log","n":1,"op":"what"}',
            '{"t":"log","n":1}',
        ]
    )
    assert lake.rows["shop.orders"] == [{"t": "orders", "op": "u", "id": 1, "n": 2}]
    assert [row["n"] for row in lake.rows["shop.lines"]] == [5]
    assert [row["n"] for row in lake.rows["shop.log"]] == ["1", "1"]
    assert lake.codes() == ["NO_KEY", "UNKNOWN_OPERATION"]
    written = {(entry.table, entry.branch, entry.write_mode) for receipt in receipts for entry in receipt.tables}
    assert {("shop.orders", "main", EQUALITY_DELETE), ("shop.log", "raw", "merge-on-read")} <= written
    keys = {name: lake.catalog.load(name).schema.identifier_field_names() for name in ("shop.orders", "shop.lines")}  # type: ignore[union-attr]
    assert keys == {"shop.orders": {"id"}, "shop.lines": {"order", "line"}}
