"""The option `publish`: what the settings refuse, and which branch, rules and metrics each table gets."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from calve.cli.publish import _gate
from calve.errors import UnsupportedError
from calve.pipeline.plugins import PLUGINS
from calve.settings import SettingsErrors, parse_text
from calve.sinks.iceberg.check_table import check_table
from calve.sinks.iceberg.metadata_columns import MetadataColumns
from calve.sinks.iceberg.settings import IcebergSettings
from kit.tables import table_of

COLUMNS = {"columns": [{"name": "id", "type": "long"}, {"name": "tags", "type": "list<string>"}]}
RULES = {"when": {"min_rows": 5}}


def parsed(publish: Any, **more: Any) -> IcebergSettings:
    sink = {"table_identifier": "ns.t", "auto_create": True, "publish": publish, **more}
    text = json.dumps({"p": {"source": {"file": {"path": "x.ndjson"}}, "sink": [{"iceberg": sink}]}})
    settings: IcebergSettings = parse_text(text, PLUGINS).pipelines[0].sinks[0].value
    return settings


@pytest.mark.parametrize(
    ("publish", "more", "said"),
    [
        ({}, {}, "publish.when: is required but missing"),
        ({"when": {}}, {}, "publish.when: has no rule: set min_rows, max_null_share or freshness"),
        ({"when": {"min_rows": 0}}, {}, "publish.when.min_rows"),
        ({"when": {"max_null_share": {"a": 1.5}}}, {}, "the share of a must be between 0 and 1"),
        ({"when": {"max_null_share": {"a": ".nan"}}}, {}, "publish.when.max_null_share"),
        ({"when": {"freshness": {"column": "a"}}}, {}, "publish.when.freshness.max_age: is required but missing"),
        ({"when": {"freshness": {"column": "a", "max_age": "0s"}}}, {}, "publish.when.freshness.max_age"),
        ({"branch": "main", **RULES}, {}, "publish.branch: is the branch that readers see"),
        ({"branch": "1", **RULES}, {}, "is not a branch name"),
        (RULES, {"branch": "other"}, "branch: does not go with publish, which has its own branch"),
        (
            RULES,
            {"partial_updates": "keep", "upsert": True, "identifier_columns": ["id"]},
            "publish: does not go with partial_updates: keep",
        ),
        (
            RULES,
            {"write_mode": "copy-on-write", "upsert": True, "identifier_columns": ["id"]},
            "publish: does not go with write_mode: copy-on-write",
        ),
        ({"when": {"max_null_share": {"gone": 0.1}}}, {"schema": COLUMNS}, "schema.columns has no column gone"),
        ({"when": {"max_null_share": {"tags": 0.1}}}, {"schema": COLUMNS}, "tags is list<string>, whose NULLs"),
        (
            {"when": {"freshness": {"column": "id", "max_age": "1h"}}},
            {"schema": COLUMNS},
            "id is long, and not a date or a timestamp",
        ),
    ],
)
def test_what_can_never_be_judged_is_refused_with_the_reason(publish: Any, more: Any, said: str) -> None:
    with pytest.raises(SettingsErrors) as error:
        parsed(publish, **more)
    assert said in str(error.value)


def test_each_table_has_the_branch_and_the_rules_of_its_own_entry() -> None:
    own = {"branch": "check", "when": {"freshness": {"column": "at", "max_age": "2h"}}}
    tables = [{"name": "ns.plain", "branch": "main"}, {"name": "ns.own", "publish": own}]
    settings = parsed(RULES, table_identifier="ns.${/kind}", tables=tables)
    branches = {name: settings.of(f"ns.{name}").target_branch for name in ("plain", "own", "other")}
    assert branches == {"plain": "main", "own": "check", "other": "audit"}
    assert settings.of("ns.plain").publish is None
    publish = settings.of("ns.own").publish
    assert publish is not None
    assert (publish.gate.min_rows, publish.gate.time_column, publish.gate.max_age) == (0, "at", timedelta(hours=2))
    assert settings.limits is not None
    assert settings.limits.keeps_waiting


def test_calve_publish_takes_the_rules_of_the_sink_that_names_the_table() -> None:
    dynamic = parsed({"branch": "check", "when": {"min_rows": 9}}, table_identifier="ns.${/kind}")
    branch, gate = _gate("ns.t", [dynamic, parsed(RULES)], {"branch": None, "pipelines": "x.yaml"})
    assert (branch, gate.min_rows) == ("audit", 5)


def test_a_table_without_the_column_of_a_rule_is_refused_at_the_start() -> None:
    table = table_of(Schema(NestedField(1, "a", StringType(), required=False)))
    check_table(table, parsed({"when": {"max_null_share": {"a": 0.1}}}), MetadataColumns({}, {}))
    with pytest.raises(UnsupportedError, match=r"max_null_share\.gone: the table has no column gone"):
        check_table(table, parsed({"when": {"max_null_share": {"gone": 0.1}}}), MetadataColumns({}, {}))
    evolving = parsed({"when": {"max_null_share": {"gone": 0.1}}}, schema_evolution=True)
    check_table(table, evolving, MetadataColumns({}, {}))
