"""Section 6.1 of the RFC of the iceberg sink: without `operation` every event is a new row."""

from __future__ import annotations

import json
from pathlib import Path

from kit.lake import Lake
from kit.statements import missing

STATEMENTS = {
    "a row goes to the partition that the table's spec says": "commit/test_specs.py::test_staged_batches_hold_for_rows_of_every_spec_that_the_table_has_by_then",
    "many small parts of a batch become few files": "whole/test_distribution.py::test_small_parts_that_several_tasks_have_become_one_file_for_each_partition",
    "events are acknowledged after their commit": """crash/test_stop_points.py::test_every_row_and_every_reject_is_there_once_and_sent_again_once_wherever_the_process_died
        docs/from-data-prepper.md: always: progress follows the commits""",
}


def test_each_statement_has_its_test_or_its_page() -> None:
    assert missing(STATEMENTS) == {}


def test_without_an_operation_all_events_are_rows_whatever_they_say_and_however_often_they_come(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"table_identifier": "ns.t", "auto_create": True})
    events = [{"id": 1, "op": "delete"}, {"id": 1, "op": "delete"}, {"id": 1, "op": "update"}, {"id": 2, "op": "??"}]
    lake.write([json.dumps(event) for event in events])
    assert lake.rows["ns.t"] == events
    assert lake.codes() == []


def test_a_row_is_in_a_file_of_its_partition(tmp_path: Path) -> None:
    lake = Lake(
        tmp_path,
        {
            "table_identifier": "ns.t",
            "auto_create": True,
            "partition_by": ["day(at)", "bucket(4, id)"],
            "column_types": {"at": "timestamptz"},
        },
    )
    events = [{"id": 1, "at": f"2026-04-{day}T10:00:00Z"} for day in (21, 22, 22)]
    receipts = lake.write([json.dumps(event) for event in events])
    [table] = [table for receipt in receipts for table in receipt.tables]
    assert sorted(file.record_count for file in table.files) == [1, 2]
    assert sorted(file.partition[0] for file in table.files) == ["2026-04-21", "2026-04-22"]
