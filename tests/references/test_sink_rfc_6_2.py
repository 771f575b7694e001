"""Section 6.2 of the RFC of the iceberg sink: the words of an operation, and the columns that identify a row."""

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
    "changes of the source rds by change_event_type": "references/test_sink_rfc_3.py::test_each_example_writes_its_rows",
    "a row that moves to another partition is there once": "commit/test_positions.py::test_each_commit_leaves_the_rows_of_the_model_whatever_neighbours_do",
    "an event without a value of its key": "whole/test_rfc_errors.py::test_an_event_is_a_dead_letter_and_the_others_are_written",
    "a key of the table's own, or of the settings": "sinks/test_iceberg_keys.py::test_a_target_may_have_a_key_that_the_settings_name_or_that_of_its_source",
    "an operation that is missing or empty is not recognized": "docs/updates-and-deletes.md: missing, empty, `index`, `insert`, `create`, `c`, `i`, `r`",
    "position deletes or vectors only for rows of the batch": "docs/updates-and-deletes.md: merge-on-read",
}
WORDS = {
    "INSERT": ("index", "insert", "create", "c", "i", "r"),
    "UPDATE": ("update", "u"),
    "DELETE": ("delete", "d"),
}
CASES = [(word, kind) for kind, words in WORDS.items() for word in words]


def test_each_statement_has_its_test_or_its_page() -> None:
    assert missing(STATEMENTS) == {}


@pytest.mark.parametrize("spelled", [str.lower, str.upper, str.title])
@pytest.mark.parametrize(("word", "kind"), CASES)
def test_a_word_in_any_case_is_its_operation(tmp_path: Path, word: str, kind: str, spelled: object) -> None:
    options = {"identifier_columns": ["id"], "operation": "${/op}", "write_mode": "equality-delete"}
    lake = Lake(tmp_path, {"table_identifier": "ns.t", "auto_create": True, "exclude_keys": ["op"], **options})
    lake.write([json.dumps({"id": 1, "n": 1, "op": "insert"})])
    lake.rows.clear()
    receipts = lake.write([json.dumps({"id": 2, "n": 3, "op": spelled(word)})])  # type: ignore[operator]
    deletes = [file for receipt in receipts for table in receipt.tables for file in table.files if not file.is_data]
    assert lake.rows.get("ns.t", []) == ([] if kind == "DELETE" else [{"id": 2, "n": 3}])
    assert len(deletes) == (kind != "INSERT")
    assert lake.codes() == []


@pytest.mark.parametrize("word", ["upsert", "truncate", "inserted", "t", 1])
def test_any_other_word_is_a_dead_letter_beside_rows(tmp_path: Path, word: object) -> None:
    options = {"identifier_columns": ["id"], "operation": "${/op}"}
    lake = Lake(tmp_path, {"table_identifier": "ns.t", "auto_create": True, **options})
    lake.write([json.dumps({"id": 1, "op": "insert"}), json.dumps({"id": 2, "op": word})])
    assert [row["id"] for row in lake.rows["ns.t"]] == [1]
    assert lake.codes() == ["UNKNOWN_OPERATION"]


@pytest.mark.parametrize("event", ['{"id":2}', '{"id":2,"op":null}', '{"id":2,"op":""}'])
def test_an_event_that_says_nothing_is_a_row(tmp_path: Path, event: str) -> None:
    lake = Lake(
        tmp_path, {"table_identifier": "ns.t", "auto_create": True, "identifier_columns": ["id"], "operation": "${/op}"}
    )
    lake.write([event])
    assert ([row["id"] for row in lake.rows["ns.t"]], lake.codes()) == ([2], [])


def test_an_operation_without_columns_that_identify_rows_is_refused() -> None:
    sink = {"table_identifier": "ns.t", "auto_create": True, "operation": "${/op}"}
    text = json.dumps({"p": {"source": {"http": {}}, "sink": [{"iceberg": sink}]}})
    with pytest.raises(SettingsError, match="identifier_columns"):
        parse_text(text, PLUGINS)
