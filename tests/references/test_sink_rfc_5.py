"""Section 5 of the RFC of the iceberg sink: the architecture, as far as it can be seen from outside."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from kit.lake import Lake
from kit.statements import missing

STATEMENTS = {
    "every node writes files by itself, one committer makes them visible": "commit/test_fence.py::test_staged_batches_land_in_one_snapshot_that_says_whose_they_are",
    "append-only batches are one newAppend": "commit/test_fence.py::test_staged_batches_land_in_one_snapshot_that_says_whose_they_are",
    "batches with deletes keep their order": "commit/test_fence.py::test_of_several_snapshots_of_a_commit_the_last_one_tells_how_far_all_of_them_come",
    "each resolved table is committed by itself": "whole/test_rfc_errors.py::test_a_commit_that_fails_for_good_holds_its_table_for_the_operator",
    "the leader fails and another one goes on": "crash/test_standby.py::test_nothing_is_lost_or_duplicated_when_drivers_are_killed_paused_and_cut_off",
    "a new leader finds in the snapshots what is committed": """commit/test_fence.py::test_a_batch_committed_twice_appears_once
        commit/test_fence.py::test_the_mark_outlives_its_snapshot""",
    "sub-commits are resumed at the next one": "commit/test_fence.py::test_batches_behind_the_mark_are_skipped_and_the_rest_is_committed",
    "a table has a location for its creators side by side": "catalog/test_catalog.py::test_creators_side_by_side_get_one_table",
    "several nodes, leases of 3 minutes": "docs/from-data-prepper.md: one driver with a lease of 8 s in the state",
    "changes need workers: 1": "docs/from-data-prepper.md: order is kept by key with any number of cores",
    "changes write an equality delete each": "docs/from-data-prepper.md: the net change of each key, in the table's [`write_mode`]",
}
CHANGES = {
    "inserted and deleted": (["insert", "delete"], None),
    "inserted, updated and deleted": (["insert", "update", "delete"], None),
    "deleted and inserted": (["delete", "insert"], 2),
    "inserted and updated twice": (["insert", "update", "update"], 3),
}


def test_each_statement_has_its_test_or_its_page() -> None:
    assert missing(STATEMENTS) == {}


@pytest.mark.parametrize("row", CHANGES)
@pytest.mark.parametrize("tasks", [1, 3])
def test_changes_of_a_key_in_one_batch_leave_its_last_row_alone(tmp_path: Path, row: str, tasks: int) -> None:
    operations, last = CHANGES[row]
    options = {"identifier_columns": ["id"], "operation": "${/op}", "write_mode": "equality-delete"}
    lake = Lake(tmp_path, {"table_identifier": "ns.t", "auto_create": True, **options})
    events = [json.dumps({"id": 7, "n": n, "op": op}) for n, op in enumerate(operations, 1)]
    receipts = lake.write(*([events] if tasks == 1 else [[event] for event in events]))
    rows = [(written["id"], written["n"]) for written in lake.rows.get("ns.t", [])]
    assert rows == ([] if last is None else [(7, last)])
    files = list(itertools.chain.from_iterable(table.files for receipt in receipts for table in receipt.tables))
    deletes = [file for file in files if not file.is_data]
    assert len(deletes) == (operations[0] == "delete"), "only a key that may be in the table has a delete, and one"
    assert lake.codes() == []
