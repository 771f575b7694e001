from __future__ import annotations

import itertools
import time

import pytest

from calve.pipeline.batch_trigger import BatchTrigger
from calve.sources.source import Backlog, Planned

HOUR, FULL = 3600.0, 1000


class Clock:
    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now


def waiting(size_bytes: int) -> Backlog:
    return Backlog(-1, size_bytes)


def caught_up(clock: Clock) -> BatchTrigger:
    due = BatchTrigger(HOUR, clock)
    assert due.is_due(waiting(1), FULL)
    assert due.record(Planned([]), waiting(1), FULL)
    due.since = None
    return due


def test_what_waits_at_the_start_is_read_batch_after_batch_until_one_takes_the_rest() -> None:
    due = BatchTrigger(HOUR, Clock())
    for left in (2500, 1500):
        assert due.is_due(waiting(left), FULL)
        assert not due.record(Planned([]), waiting(left), FULL)
    assert due.is_due(waiting(500), FULL)
    assert due.record(Planned([]), waiting(500), FULL)
    assert not due.is_due(waiting(400), FULL)


def test_a_source_that_says_that_more_waits_is_still_behind() -> None:
    due = BatchTrigger(HOUR, Clock())
    assert due.is_due(waiting(500), FULL)
    assert not due.record(Planned([], {}, ("topic/0",)), waiting(500), FULL)
    assert due.is_due(waiting(10), FULL)


def test_the_first_events_of_a_run_are_read_at_once_however_late_they_come() -> None:
    clock = Clock()
    due = BatchTrigger(HOUR, clock)
    assert not due.is_due(Backlog(), FULL)
    clock.now += HOUR / 2
    assert due.is_due(waiting(1), FULL)


def test_what_trickles_in_is_read_when_it_has_waited_long_enough() -> None:
    clock = Clock()
    due = caught_up(clock)
    assert not due.is_due(waiting(1), FULL)
    clock.now += HOUR - 1
    assert not due.is_due(waiting(2), FULL)
    clock.now += 1
    assert due.is_due(waiting(3), FULL)
    assert not due.record(Planned([]), waiting(3), FULL)
    due.since = None
    assert not due.is_due(waiting(1), FULL)


@pytest.mark.parametrize("jump", [-24 * HOUR, 24 * HOUR])
def test_a_clock_that_jumps_makes_events_wait_neither_longer_nor_shorter(
    jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    due = caught_up(clock)
    assert not due.is_due(waiting(1), FULL)
    jumps = itertools.count(1)
    monkeypatch.setattr(time, "time", lambda: next(jumps) * jump)
    for _ in range(3):
        clock.now += HOUR / 4
        assert not due.is_due(waiting(1), FULL)
    clock.now += HOUR / 4
    assert due.is_due(waiting(2), FULL)


def test_a_steady_flow_is_read_in_full_batches() -> None:
    due = caught_up(Clock())
    assert due.is_due(waiting(1100), FULL)
    assert not due.record(Planned([], {}, ("topic/0",)), waiting(1100), FULL)
    assert not due.is_due(waiting(100), FULL)


def test_several_full_batches_that_come_at_once_are_a_backlog() -> None:
    due = caught_up(Clock())
    assert due.is_due(waiting(2100), FULL)
    assert not due.record(Planned([]), waiting(2100), FULL)
    assert due.is_due(waiting(100), FULL)
    assert due.record(Planned([]), waiting(100), FULL)


def test_events_that_something_waits_for_are_read_at_once() -> None:
    due = caught_up(Clock())
    assert not due.is_due(waiting(1), FULL)
    assert due.is_due(Backlog(-1, 1, is_urgent=True), FULL)


def test_events_wait_as_long_as_commits_take_but_not_for_a_commit_that_waits_itself() -> None:
    clock = Clock()
    due = BatchTrigger(0.1, clock)
    due.behind = False
    assert not due.is_due(waiting(1), FULL, 0.5)
    clock.now += 0.4
    assert not due.is_due(waiting(1), FULL, 0.5)
    assert due.is_due(waiting(1), FULL, 0.3)
    assert due.is_due(waiting(FULL), FULL, 0.5), "there are enough for a batch"
    clock.now += 1.6
    assert due.is_due(waiting(1), FULL, 60.0)
