"""Section 8 of the RFC of the iceberg sink: what becomes of errors."""

from __future__ import annotations

import json
from pathlib import Path

from kit.lake import Lake
from kit.statements import missing

ERRORS = "whole/test_rfc_errors.py::"
STATEMENTS = {
    "a required column: conversion fails, or the field is missing; no field matches; unknown operation": f"{ERRORS}test_an_event_is_a_dead_letter_and_the_others_are_written",
    "an optional column is NULL, and the event goes on": f"{ERRORS}test_an_optional_column_is_null_where_a_value_is_not_coercible",
    "a transient failure of the storage is tried again": f"{ERRORS}test_a_storage_that_fails_for_a_while_costs_another_try",
    "a permanent failure of the storage": f"""{ERRORS}test_a_storage_that_somebody_must_change_first_ends_the_pipeline
        {ERRORS}test_a_storage_that_fails_for_good_ends_the_tries_of_a_bounded_run""",
    "a conflict is tried again": f"{ERRORS}test_a_commit_that_another_writer_overtook_is_tried_again",
    "the table's commit.retry.* count": "catalog/test_retry.py::test_a_table_says_how_often_and_how_long",
    "tries that are used up come again in the next cycle": f"{ERRORS}test_a_commit_whose_tries_are_used_up_comes_again_in_the_next_cycle",
    "a commit that always fails": f"{ERRORS}test_a_commit_that_fails_for_good_holds_its_table_for_the_operator",
    "the table does not exist at the start": f"{ERRORS}test_a_start_without_the_table_and_without_auto_create_fails",
    "the catalog is unreachable at the start": f"{ERRORS}test_a_start_without_a_catalog_fails_or_waits_for_it",
    "orphans harm nothing, and are removed by maintenance": "maintenance/test_orphans.py::test_a_file_of_a_batch_that_the_table_has_not_yet_is_kept_however_old",
    "many partitions take no more memory than a batch": "whole/test_distribution.py::test_small_parts_that_several_tasks_have_become_one_file_for_each_partition",
}


def test_each_statement_has_its_test_or_its_page() -> None:
    assert missing(STATEMENTS) == {}


def test_a_dead_letter_has_the_event_as_it_was_and_the_reason(tmp_path: Path) -> None:
    schema = {"columns": [{"name": "id", "type": "long", "required": True}, {"name": "n", "type": "int"}]}
    lake = Lake(tmp_path, {"table_identifier": "ns.t", "auto_create": True, "schema": schema})
    event = '{"n": 1.0, "id" : "one", "größe": 1e400}'
    lake.write(['{"id":1}', event, '{"id":3,"n":"x"}'])
    assert [row["id"] for row in lake.rows["ns.t"]] == [1, 3]
    [letter] = lake.letters
    assert (letter["event"], letter["code"], letter["table"], letter["field"]) == (event, "NOT_COERCIBLE", "ns.t", "id")
    assert "one" in letter["reason"]
    assert json.loads(letter["event"].replace("1e400", "1"))
