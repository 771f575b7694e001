"""Rules of a sink: what the settings refuse, and what becomes of rows in new, evolving and keyed tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.errors import ConvertError, UnsupportedError
from calve.pipeline.plugins import PLUGINS
from calve.record.written import FailedRules
from calve.reduce.full_rows import COPIES
from calve.settings import SettingsErrors, parse_text
from calve.sinks.iceberg.check_table import check_table
from calve.sinks.iceberg.metadata_columns import MetadataColumns
from calve.sinks.iceberg.settings import IcebergSettings
from kit.lake import Lake
from kit.tables import table_of

COLUMNS = {"columns": [{"name": "id", "type": "long", "required": True}, {"name": "s", "type": "string"}]}
PLAIN = {"table_identifier": "ns.t", "auto_create": True}


def parsed(*rules: dict[str, Any], **more: Any) -> IcebergSettings:
    sink = {**PLAIN, "expect": list(rules), **more}
    text = json.dumps({"p": {"source": {"file": {"path": "x.ndjson"}}, "sink": [{"iceberg": sink}]}})
    settings: IcebergSettings = parse_text(text, PLUGINS).pipelines[0].sinks[0].value
    return settings


@pytest.mark.parametrize(
    ("rule", "more", "said"),
    [
        ({"column": "s"}, {}, "expect[0]: checks nothing"),
        ({"not_null": True}, {}, "expect[0].column: is missing: not_null are for a column"),
        ({"column": "gone", "not_null": True}, {"schema": COLUMNS}, "schema.columns has no column gone"),
        ({"condition": "/gone > 1"}, {"schema": COLUMNS}, "schema.columns has no column gone"),
        ({"column": "s", "min": 1}, {"schema": COLUMNS}, "min is for numbers, dates and times, and s is a string"),
        ({"column": "s", "max": "a"}, {"column_types": {"s*": "int"}}, "a is no int"),
        ({"column": "id", "max": 1, "on_failure": "null"}, {"schema": COLUMNS}, "id cannot be NULL"),
        ({"column": "s", "matches": "("}, {}, "not a valid regular expression"),
        ({"column": "s", "matches": "(?=a)"}, {}, "Lookaround"),
        ({"condition": "/a >"}, {}, "at character"),
        ({"condition": "/a + 1"}, {}, "a condition must be true or false"),
        ({"condition": 'getMetadata("x") == 1'}, {}, "reads metadata"),
        ({"condition": "/a > 1", "on_failure": "null"}, {}, "null needs a column"),
        ({"column": "s", "not_null": True, "on_failure": "null"}, {}, "null does not go with not_null"),
        ({"column": "a.s", "in": ["a"], "on_failure": "null"}, {}, "null is for whole columns"),
        ({"column": "s", "min_length": 2, "max_length": 1}, {}, "is larger than max_length"),
        ({"column": "s", "in": []}, {}, "expect[0].in"),
        ({"column": "s", "not_null": True, "on_failure": "drop"}, {}, "on_failure"),
        ({"column": "s", "unique": True}, {}, "unique"),
        ({"column": "s", "unique": ["s"]}, {}, "unique: is a rule of its own"),
        ({"unique": ["s", "s"]}, {}, "unique: has a column twice"),
        ({"unique": ["s", "id"], "on_failure": "null"}, {}, "null is for one column"),
        ({"unique": ["s.a"], "on_failure": "null"}, {}, "null is for whole columns"),
        ({"unique": ["s", "gone"]}, {"schema": COLUMNS}, "schema.columns has no column gone"),
        ({"unique": ["s"]}, {"column_types": {"s": "double"}}, "unique is for texts, whole numbers"),
        ({"unique": ["s"]}, {"upsert": True, "identifier_columns": ["id"]}, "only get new rows"),
        (
            {"column": "s", "not_null": True},
            {"partial_updates": "keep", "upsert": True, "identifier_columns": ["id"]},
            "an UPDATE may lack columns",
        ),
        (
            {"column": "id", "max": 9, "on_failure": "null"},
            {"upsert": True, "identifier_columns": ["id"]},
            "id cannot be NULL",
        ),
        (
            {"column": "why", "in": ["a"], "on_failure": "null"},
            {"metadata_columns": {"why": "batch"}},
            "null is for columns of events",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_refused_at_its_place(rule: dict[str, Any], more: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsErrors) as caught:
        parsed(rule, **more)
    problems = "\n".join(map(str, caught.value.problems))
    assert said in problems
    assert "iceberg.expect[0]" in problems


def test_names_are_unique_and_tables_have_rules_of_their_own() -> None:
    rule = {"column": "s", "in": [1, True, "x"]}
    with pytest.raises(SettingsErrors, match="two rules have the name s_in"):
        parsed(rule, rule)
    own = {"name": "ns.a", "expect": [{"name": "one", "column": "b", "not_null": True}]}
    settings = parsed(rule, table_identifier="ns.${/t}", tables=[own])
    assert settings.rules[0].among == ("1", "true", "x")
    assert [(of.name, of.is_of_many) for of in settings.of("ns.a").rules] == [("one", True)]
    with pytest.raises(SettingsErrors, match=r"tables\[0\].expect"):
        parsed(table_identifier="ns.${/t}", tables=[{"name": "ns.a", "expect": [{"column": "b"}]}])


def test_failed_rules_are_metadata_only_of_a_sink_with_rules() -> None:
    columns = {"why": "failed_rules"}
    assert parsed({"column": "s", "not_null": True}, metadata_columns=columns).metadata_columns == columns
    with pytest.raises(SettingsErrors, match="failed_rules"):
        parsed(metadata_columns=columns)


def test_rows_that_are_compared_are_those_of_all_of_a_batch_in_their_order(tmp_path: Path) -> None:
    rules = [{"unique": ["id"]}, {"column": "n", "max": 9}]
    lake = Lake(tmp_path, {**PLAIN, "expect": rules})
    receipts = lake.write(
        ['{"id": 1, "n": 10}', '{"id": 1, "n": 1}', '{"id": 2}'], ['{"id": 1, "n": 2}', '{"id": 2}', "{}"]
    )
    assert {receipt.task for receipt in receipts} == {0}, "one task has all rows"
    assert [(row.get("id"), row.get("n")) for row in lake.rows["ns.t"]] == [(1, 1), (2, None)]
    lake.write(['{"id": 2}', '{"id": 2}'])
    assert [row["id"] for row in lake.rows["ns.t"]] == [1, 2, 2]


def test_an_existing_table_that_a_rule_does_not_fit_is_refused() -> None:
    schema = Schema(iceberg.NestedField(1, "id", iceberg.LongType(), required=True))
    for rule, said in (
        ({"column": "gone", "not_null": True}, "the table has no column gone"),
        ({"column": "id", "matches": "1"}, "matches is for texts"),
        ({"column": "id", "max": 1, "on_failure": "null"}, "id cannot be NULL"),
    ):
        with pytest.raises(UnsupportedError, match=said):
            check_table(table_of(schema), parsed(rule), MetadataColumns())
    check_table(
        table_of(schema), parsed({"column": "gone", "not_null": True}, schema_evolution=True), MetadataColumns()
    )


def test_rejected_rows_decide_no_column_of_a_new_table_nor_of_one_that_evolves(tmp_path: Path) -> None:
    rules = [{"column": "id", "not_null": True}, {"column": "n", "max": 9}]
    lake = Lake(tmp_path, {**PLAIN, "schema_evolution": True, "expect": rules})
    lake.write(['{"a": 1}'])
    assert lake.schema() is None
    lake.write(['{"id": 1}', '{"id": 2, "n": 10, "bad": 1}', '{"bad": 2}'])
    assert lake.schema() == {"id": "long"}
    [receipt, *_] = lake.write(['{"id": 3, "more": "x"}', '{"id": 4, "n": 11, "bad": 1}', '{"more": "y"}'])
    assert lake.schema() == {"id": "long", "more": "string"}
    [receipt] = lake.write(['{"id": 5, "n": 12}'])
    assert lake.schema() == {"id": "long", "more": "string"}
    assert receipt.failed_rules == [FailedRules("ns.t", {"id_not_null": 0, "n_max": 1})]
    assert [row["id"] for row in lake.rows["ns.t"]] == [1, 3]
    assert lake.codes() == ["EXPECTATION_FAILED"] * 6


def test_a_rule_that_fails_ends_the_pipeline_and_writes_nothing(tmp_path: Path) -> None:
    rule = {"name": "known", "column": "s", "in": ["a", "b"], "on_failure": "fail"}
    for options in (PLAIN, {**PLAIN, "schema": COLUMNS}):
        lake = Lake(tmp_path, {**options, "expect": [rule]})
        with pytest.raises(
            ConvertError, match=r"1 event of a batch for ns.t broke a rule: rule known: s must be one of"
        ):
            lake.write(['{"id": 1, "s": "a"}', '{"id": 2, "s": "secret"}'] if "schema" in options else ['{"s": "x"}'])
        assert lake.rows == {}


def test_deletes_are_not_checked_and_an_update_that_is_leaves_the_older_row(tmp_path: Path) -> None:
    rules = [{"column": "s", "in": ["a"], "when": "/id > 1"}, {"column": "n", "max": 9, "on_failure": "null"}]
    options = {"operation": "${/op}", "identifier_columns": ["id"], "exclude_keys": ["op"], "expect": rules}
    lake = Lake(tmp_path, {**PLAIN, **options})
    lake.write(
        [
            '{"op": "c", "id": 1, "s": "z", "n": 10}',
            '{"op": "c", "id": 2, "s": "a", "n": 1}',
            '{"op": "u", "id": 2, "s": "b", "n": 2}',
            '{"op": "c", "id": 3, "s": "a", "n": 1}',
            '{"op": "d", "id": 3, "s": "b", "n": 10}',
        ]
    )
    assert lake.rows["ns.t"] == [{"id": 1, "s": "z", "n": None}, {"id": 2, "s": "a", "n": 1}]
    assert lake.codes() == ["EXPECTATION_FAILED"]


def test_a_deleted_row_without_a_key_has_the_nulls_with_which_it_was_written(tmp_path: Path) -> None:
    rules = [{"column": "n", "max": 9, "on_failure": "null"}, {"column": "s", "in": ["a"]}]
    options = {"operation": "${/op}", "identifier_columns": "full_row", "exclude_keys": ["op"], "expect": rules}
    lake = Lake(tmp_path, {**PLAIN, **options})
    receipts = lake.write(['{"op": "c", "n": 10, "s": "a"}', '{"op": "d", "n": 10, "s": "a"}'])
    assert lake.rows["ns.t"] == [{"n": None, "s": "a"}]
    deletes = [file for receipt in receipts for of in receipt.tables for file in of.files if not file.is_data]
    assert [pq.read_table(file.file_path).to_pylist() for file in deletes] == [[{"n": None, "s": "a", COPIES: 1}]]
