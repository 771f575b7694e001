"""A table is looked at when its commits give a reason, and maintenance rests as its share wants it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from calve.maintenance.by_need import Round
from calve.maintenance.trigger import Trigger
from calve.table.limits import MaintenanceLimits

LIMITS = MaintenanceLimits(small_files=10, quiet=timedelta(minutes=10), share_of_cores=0.05)
NOTHING = Round((), 0.0, is_done=True)


def after_look(files: int, at: float = 1000.0) -> Trigger:
    """A trigger that has been looked at, and then got a commit."""
    trigger = Trigger(LIMITS)
    trigger.committed(1, 1, 0.0)
    trigger.ran(NOTHING, 2, at)
    trigger.committed(files, 500, at + 1)
    return trigger


def test_a_run_begins_without_maintenance_and_then_counts_what_earlier_runs_left() -> None:
    trigger = Trigger(LIMITS)
    trigger.committed(1, 10, 0.0)
    assert not trigger.is_due(59.0)
    assert trigger.has_reason(59.0)
    assert trigger.is_due(60.0)


def test_many_new_files_are_a_reason_and_few_are_not() -> None:
    assert after_look(10).is_due(1300.0)
    assert not after_look(9).is_due(1300.0)


def test_files_that_come_fast_gather_for_five_minutes_unless_they_are_very_many() -> None:
    assert not after_look(99).is_due(1299.0)
    assert after_look(99).has_reason(1002.0)
    assert after_look(100).is_due(1002.0)


def test_what_a_round_has_left_is_not_gathered() -> None:
    trigger = after_look(10)
    trigger.ran(replace(NOTHING, is_done=False), 2, 1002.0)
    trigger.committed(10, 520, 1003.0)
    assert trigger.is_due(1004.0)


def test_a_table_is_looked_at_once_when_it_has_become_quiet_and_then_left_alone() -> None:
    trigger = after_look(1)
    assert trigger.is_due(1601.0)
    trigger.ran(NOTHING, 2, 1601.0)
    assert not any(trigger.is_due(1601.0 + 60 * minute) for minute in range(1000))


def test_a_table_with_few_commits_is_looked_at_every_ten_minutes() -> None:
    trigger = after_look(1)
    trigger.committed(1, 501, 1599.0)
    assert trigger.is_due(1600.0)


@pytest.mark.parametrize(
    ("one_task", "cores", "rest"), [(True, 2, 45.0), (True, 16, 1.25), (False, 2, 95.0), (True, 64, 0.0)]
)
def test_the_rest_after_a_round_keeps_the_average_within_the_share_of_the_cores(one_task, cores, rest) -> None:
    trigger = after_look(0)
    trigger.ran(Round(("x",), 5.0, is_done=False, one_task=one_task), cores, 2000.0)
    assert trigger.not_before == pytest.approx(2000.0 + rest)
    assert trigger.is_due(2000.0 + rest + 0.01)
    used = 5.0 * (1 if one_task else cores)
    assert used <= LIMITS.share_of_cores * cores * (5.0 + rest) or rest == 0.0


def test_a_share_of_all_cores_never_rests() -> None:
    assert replace(LIMITS, share_of_cores=1.0).pause_seconds(5.0, 2, 2) == 0.0


def test_a_failure_is_tried_again_after_its_wait() -> None:
    trigger = after_look(0)
    trigger.failed(30.0, 1002.0)
    assert not trigger.is_due(1031.0)
    assert trigger.is_due(1032.0)


def test_a_quiet_table_with_retention_is_inspected_every_hour() -> None:
    for retention, is_due in ((None, False), (timedelta(days=90), True)):
        trigger = Trigger(replace(LIMITS, retention=retention))
        trigger.committed(1, 1, 0.0)
        trigger.ran(NOTHING, 2, 1000.0)
        assert not trigger.is_due(1000.0 + 3599)
        assert trigger.is_due(1000.0 + 3601) is is_due
