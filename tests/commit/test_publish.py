"""`main` moves to the commits of a branch only when the rules of its gate hold, in the commit that adds them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from calve.commit.fence import append, clear, invalidate_open_attempts
from calve.commit.mark import CommitTarget, Mark
from calve.commit.outcome import Outcome
from calve.record.content_file import ContentFile, Counts
from calve.table.gate import CommitGate

pytestmark = pytest.mark.spark

GATE = CommitGate(min_rows=2, max_null_share={"note": 0.5})


def commit(lake: Any, batch: int, ids: list[int], nulls: int = 0, target: CommitTarget | None = None) -> Outcome:
    file = lake.file(f"f{batch}", ids)
    counted = structs.replace(file, null_value_counts=Counts(keys=[2], values=[nulls]))
    where = target or CommitTarget(lake.name, branch="audit", gate=GATE)
    return append(lake.catalog, where, Mark("shop", "state-1", batch), {batch: [counted]})


def test_a_new_table_has_no_rows_on_main_until_enough_wait_and_then_all_of_them(lake: Any) -> None:
    first = commit(lake, 1, [1]).publication
    assert first is not None
    assert (first.published, first.commits, first.rows, first.is_blocked) == (None, 1, 1, False)
    assert first.reason == (
        "min_rows: 1 of at least 2 rows; max_null_share.note: note is NULL in 0 of 1 row (0.000%), at most 50.000%"
    )
    assert (lake.ids(), lake.ids("audit"), lake.java.currentSnapshot()) == ([], [1], None)
    outcome = commit(lake, 2, [2, 3])
    assert outcome.publication is not None
    assert (outcome.publication.published, outcome.publication.commits) == (outcome.snapshot_id, 0)
    assert lake.ids() == lake.ids("audit") == [1, 2, 3]
    summary = lake.summary()
    assert json.loads(summary["calve.verdict"]) == {
        "min_rows": "holds: 3 of at least 2 rows",
        "max_null_share.note": "holds: note is NULL in 0 of 3 rows (0.000%), at most 50.000%",
    }
    assert json.loads(summary["calve.gate"])["rows"] == 2


def test_nothing_is_published_after_a_commit_that_fails_and_nothing_is_lost(lake: Any) -> None:
    commit(lake, 1, [1, 2])
    bad = commit(lake, 2, [3, 4], nulls=2)
    later = commit(lake, 3, [5, 6])
    assert lake.ids() == [1, 2]
    assert lake.ids("audit") == [1, 2, 3, 4, 5, 6]
    assert later.publication is not None
    assert (later.publication.commits, later.publication.rows, later.publication.is_blocked) == (2, 4, True)
    [verdict] = [verdict for verdict in later.publication.verdicts if verdict.blocks]
    assert (verdict.rule, verdict.figure, verdict.snapshot) == ("max_null_share.note", 1.0, bad.snapshot_id)


def test_the_branch_follows_main_as_long_as_nothing_waits(lake: Any) -> None:
    commit(lake, 1, [1, 2])
    append(lake.catalog, CommitTarget(lake.name), Mark("till", "state-2", 1), {1: [lake.file("other", [9])]})
    invalidate_open_attempts(
        lake.catalog, CommitTarget(lake.name, branch="audit", gate=GATE), Mark("shop", "state-1", 1)
    )
    commit(lake, 2, [3, 4])
    assert lake.ids() == lake.ids("audit") == [1, 2, 3, 4, 9]


def test_main_that_moved_while_commits_wait_is_left_alone(lake: Any) -> None:
    commit(lake, 1, [1, 2])
    commit(lake, 2, [3])
    append(lake.catalog, CommitTarget(lake.name), Mark("till", "state-2", 1), {1: [lake.file("other", [9])]})
    outcome = commit(lake, 3, [4, 5])
    assert outcome.publication is not None
    assert outcome.publication.reason == (
        "main was changed by somebody else while commits waited on audit, and cannot be moved forward to them"
    )
    assert (lake.ids(), lake.ids("audit")) == ([1, 2, 9], [1, 2, 3, 4, 5])


def test_main_that_was_set_back_stays_there(lake: Any) -> None:
    first = commit(lake, 1, [1, 2])
    commit(lake, 2, [3, 4])
    lake.java.manageSnapshots().rollbackTo(first.snapshot_id).commit()
    outcome = commit(lake, 3, [5, 6])
    assert outcome.publication is not None
    assert outcome.publication.reason == "main was set back to an earlier snapshot, and audit was not"
    assert (lake.ids(), lake.ids("audit")) == ([1, 2], [1, 2, 3, 4, 5, 6])


def test_rows_of_another_writer_on_the_branch_are_not_published_by_themselves(lake: Any) -> None:
    commit(lake, 1, [1, 2])
    append(lake.catalog, CommitTarget(lake.name, branch="audit"), Mark("till", "s", 1), {1: [lake.file("other", [9])]})
    outcome = commit(lake, 2, [3, 4])
    assert outcome.publication is not None
    assert outcome.publication.reason == "judged: 1 row of a commit that nobody has judged"
    assert lake.ids() == [1, 2]


def test_snapshots_that_waited_and_expired_are_not_published_by_themselves(lake: Any) -> None:
    commit(lake, 1, [1, 2])
    commit(lake, 2, [3], nulls=1)
    commit(lake, 3, [4], nulls=1)
    commit(lake, 4, [5])
    java = lake.java
    gone = java.snapshot(java.refs().get("audit").snapshotId()).parentId()
    java.expireSnapshots().expireSnapshotId(gone).commit()
    outcome = commit(lake, 5, [6, 7])
    assert outcome.publication is not None
    assert "snapshots that waited on audit have expired" in outcome.publication.reason
    assert (lake.ids(), lake.ids("audit")) == ([1, 2], [1, 2, 3, 4, 5, 6, 7])


def test_deletes_wait_with_the_rows_of_their_commit_and_each_snapshot_of_a_commit_is_judged(lake: Any) -> None:
    def deletes(name: str, ids: list[int]) -> ContentFile:
        return structs.replace(lake.file(name, ids), content="EQUALITY_DELETES", equality_ids=[1])

    gate = CommitGate(max_null_share={"note": 0.5})
    target = CommitTarget(lake.name, branch="audit", gate=gate)
    no_nulls, nulls = Counts(keys=[2], values=[0]), Counts(keys=[2], values=[1])
    commit(lake, 1, [1, 2], target=target)
    files = {
        2: [deletes("d2", [1]), structs.replace(lake.file("f2", [3]), null_value_counts=no_nulls)],
        3: [deletes("d3", [2]), structs.replace(lake.file("f3", [4]), null_value_counts=nulls)],
    }
    outcome = append(lake.catalog, target, Mark("shop", "state-1", 3), files)
    assert outcome.publication is not None
    assert (outcome.publication.commits, outcome.publication.rows) == (1, 1)
    audit = [dict(each.summary()).get("calve.verdict", "") for each in lake.java.snapshots()]
    assert ["fails" in verdict for verdict in audit] == [False, False, True]
    clear(lake.catalog, target, Mark("shop", "state-1", 3))
    assert lake.java.currentSnapshot().snapshotId() == outcome.publication.published
