from __future__ import annotations

from dataclasses import replace

import pytest

from calve.changes.snapshot import REPLACE, History, Snapshot, joined, steps
from calve.errors import NoTargetError, PositionLostError, SettingsError


def line(*ids: int, first_parent: int | None = None) -> list[Snapshot]:
    parents = [first_parent, *ids]
    return [
        Snapshot(each, parent, number, 1_700_000_000_000, "append")
        for number, (each, parent) in enumerate(zip(ids, parents))
    ]


def history(*ids: int, first_parent: int | None = None, others: dict[int, int | None] | None = None) -> History:
    beside = {each: Snapshot(each, parent, 0, 0, "append") for each, parent in (others or {}).items()}
    return History("db.t", "u", "main", line(*ids, first_parent=first_parent), beside)


def test_small_commits_in_a_row_are_told_as_one_and_compaction_is_not_among_them() -> None:
    found = history(1, 2, 3, 4, 5, 6)
    after = steps(found, 1)
    assert [(one.snapshot.snapshot_id, one.base) for one in joined(found, after, 4, 100)] == [(6, 1)]
    assert joined(found, after, 6, 100) == after
    sized = [replace(one, snapshot=replace(one.snapshot, size_bytes=40)) for one in after]
    pairs = joined(found, sized, 2, 80)
    assert [(one.snapshot.snapshot_id, one.base) for one in pairs] == [(3, 1), (5, 3), (6, None)]
    compacted = [*after[:2], replace(after[2], snapshot=replace(after[2].snapshot, operation=REPLACE)), *after[3:]]
    kept = joined(found, compacted, 2, 100)
    assert [(one.snapshot.snapshot_id, one.base) for one in kept] == [(3, 1), (4, None), (6, 4)]


def test_what_a_tag_keeps_is_compared_with_the_oldest_that_is_left() -> None:
    found = steps(history(7, 8, first_parent=6, others={3: 2}), 3)
    assert [(one.snapshot.snapshot_id, one.base) for one in found] == [(7, 3), (8, None)]


def told(found: History, after: int | None = None, until: int | None = None) -> list[tuple[int, bool]]:
    return [(step.snapshot.snapshot_id, step.is_full) for step in steps(found, after, until)]


def test_without_bounds_the_oldest_retained_snapshot_is_told_whole_and_the_rest_by_what_they_changed() -> None:
    assert told(history(3, 4, 5, first_parent=2)) == [(3, True), (4, False), (5, False)]


def test_the_start_is_left_out_and_the_end_is_not() -> None:
    assert told(history(1, 2, 3, 4), after=1, until=3) == [(2, False), (3, False)]


def test_an_end_alone_begins_at_the_beginning() -> None:
    assert told(history(1, 2, 3), until=2) == [(1, True), (2, False)]


def test_after_the_newest_snapshot_there_is_nothing() -> None:
    assert told(history(1, 2), after=2) == []
    assert told(history(1, 2, 3), after=2, until=2) == []


def test_a_table_without_snapshots_has_nothing_to_tell() -> None:
    assert told(history()) == []


def test_a_start_that_expired_is_as_good_while_its_child_is_retained() -> None:
    assert told(history(3, 4, first_parent=2), after=2) == [(3, False), (4, False)]


def test_a_start_that_is_gone_is_an_error_that_names_the_table_and_the_way_out() -> None:
    with pytest.raises(PositionLostError, match=r"db\.t has no snapshot 1: it has expired.*retained.*snapshot is 3"):
        told(history(3, 4, first_parent=2), after=1)


def test_a_start_that_was_rolled_back_names_the_last_snapshot_that_still_counts() -> None:
    with pytest.raises(PositionLostError, match=r"4 of db\.t is not on the branch main.*start at 2"):
        told(history(1, 2, 5, others={3: 2, 4: 3}), after=4)


def test_a_start_on_a_line_with_nothing_in_common_is_an_error_without_a_snapshot_to_start_at() -> None:
    with pytest.raises(PositionLostError) as found:
        told(history(1, 2, others={8: None, 9: 8}), after=9)
    assert "start at" not in found.value.hint


@pytest.mark.parametrize(
    ("line_now", "others", "reason"),
    [
        ((1, 2), {4: 2}, "rolled back to the snapshot 2"),
        ((1, 2, 5), {4: 2}, "rolled back to the snapshot 2 and written again"),
        ((7, 8), {4: 2, 2: None}, "replaced (CREATE OR REPLACE TABLE)"),
        ((7, 8), {4: 2}, "replaced or rolled back, or the snapshot belongs to another branch"),
    ],
)
def test_the_reason_of_a_lost_start_is_what_the_retained_snapshots_prove(
    line_now: tuple[int, ...], others: dict[int, int | None], reason: str
) -> None:
    with pytest.raises(PositionLostError) as lost:
        told(history(*line_now, others=others), after=4)
    assert reason in lost.value.message


def test_an_end_before_the_start_is_a_mistake() -> None:
    with pytest.raises(SettingsError, match=r"2 of db\.t comes before 3"):
        told(history(1, 2, 3), after=3, until=2)


@pytest.mark.parametrize(
    ("others", "why"), [({7: 1}, "not on the branch main"), ({}, "does not exist, or has expired")]
)
def test_an_end_that_is_not_there_is_an_error(others: dict[int, int | None], why: str) -> None:
    with pytest.raises(NoTargetError, match=why):
        told(history(1, 2, others=others), until=7)


def test_a_commit_is_told_in_utc_with_milliseconds() -> None:
    assert Snapshot(1, None, 1, 1_700_000_000_001, "append").committed_at == "2023-11-14T22:13:20.001Z"
