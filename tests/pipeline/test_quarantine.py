"""Any events may make a batch fail: those and no others are left out, at a bounded cost."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.errors import SinkUnavailableError, UnprocessableError, WorkerLostError
from calve.pipeline.quarantine import PROBES, Quarantine
from calve.task.isolation import Isolation, position

TABLES = (None, "a", "b")


class Batch:
    """A batch of `sizes` events by split, of which some cannot be processed: `bad` names, by event, sink and table."""

    def __init__(self, sizes, bad, lost=frozenset()):
        self.sizes, self.bad, self.lost = sizes, bad, lost
        self.events = [position(split, row) for split, size in enumerate(sizes) for row in range(size)]
        self.tries = 0

    def attempt(self, isolation: Isolation) -> set[int]:
        """Return the events that sink 0 gets in its table `a`, which all of them go to, as they do to sink 1's `b`."""
        self.tries += 1
        read = [at for at in self.events if isolation.window is None or isolation.window[0] <= at < isolation.window[1]]
        for at in read:
            if at in self.lost and not self.excluded(isolation, at, None, ""):
                raise WorkerLostError("gone", step="write")
            for sink, table in self.bad.get(at, ()):
                if not self.excluded(isolation, at, sink, table):
                    raise UnprocessableError("no", step="convert", sink=sink, target=table)
        return {at for at in read if not self.excluded(isolation, at, 0, "a")}

    @staticmethod
    def excluded(isolation, at, sink, table):
        return any(
            one.window[0] <= at < one.window[1] and one.sink in (None, sink) and one.table in ("", table)
            for one in isolation.excluded
        )

    def run(self):
        quarantine = Quarantine(self.attempt, lambda: self.sizes)
        return quarantine.run(UnprocessableError("no", step="convert")), quarantine


@st.composite
def batches(draw):
    sizes = draw(st.lists(st.integers(0, 40), min_size=1, max_size=5).filter(any))
    events = [position(split, row) for split, size in enumerate(sizes) for row in range(size)]
    sinks = st.lists(st.sampled_from([(0, "a"), (1, "b"), (None, "")]), min_size=1, max_size=2, unique=True)
    bad = draw(st.dictionaries(st.sampled_from(events), sinks, max_size=5))
    lost = draw(st.frozensets(st.sampled_from(events), max_size=2))
    return Batch(sizes, bad, lost)


@given(batches())
def test_the_events_that_fail_are_left_out_and_no_others(batch):
    written, quarantine = batch.run()
    kept_from_a = {at for at, sinks in batch.bad.items() if any(sink != 1 for sink, _ in sinks)} | batch.lost
    assert written == set(batch.events) - kept_from_a
    assert all(one.window[1] - one.window[0] == 1 for one, _ in quarantine.found)


def test_an_event_that_only_one_sink_cannot_take_is_left_out_of_that_sink_alone():
    batch = Batch([10], {3: [(1, "b")]})
    written, quarantine = batch.run()
    assert 3 in written
    assert [(one.window, one.sink, one.table) for one, _ in quarantine.found] == [((3, 4), 1, "b")]


def test_where_all_events_fail_the_cost_is_bounded_and_the_rest_of_the_table_is_left_out():
    batch = Batch([20_000], {})
    batch.bad = {at: [(0, "a")] for at in batch.events}
    written, _ = batch.run()
    assert not written
    assert batch.tries < PROBES + 60


def test_a_batch_that_fails_without_any_event_is_no_matter_of_events():
    def attempt(isolation):
        raise UnprocessableError("broken", step="write")

    first = UnprocessableError("no", step="write")
    with pytest.raises(UnprocessableError) as raised:
        Quarantine(attempt, lambda: [5]).run(first)
    assert raised.value is first


def test_a_server_that_goes_away_meanwhile_ends_the_search_and_nothing_is_left_out():
    def attempt(isolation):
        if isolation.window == (0, 0):
            return
        raise SinkUnavailableError("away", step="commit")

    quarantine = Quarantine(attempt, lambda: [5])
    with pytest.raises(SinkUnavailableError):
        quarantine.run(UnprocessableError("no", step="write"))
    assert not quarantine.found


def test_events_that_fail_only_together_leave_out_their_table_and_not_the_other_one():
    def attempt(isolation):
        read = 4 if isolation.window is None else isolation.window[1] - isolation.window[0]
        if read == 4 and not any(one.table == "a" for one in isolation.excluded):
            raise UnprocessableError("too many", step="write", sink=0, target="a")
        return "written"

    quarantine = Quarantine(attempt, lambda: [4])
    assert quarantine.run(UnprocessableError("no", step="write")) == "written"
    assert [(one.sink, one.table) for one, _ in quarantine.found] == [(0, "a")]


def test_a_worker_that_ends_only_when_all_events_come_at_once_blames_no_event():
    def attempt(isolation):
        if isolation.window is None:
            raise WorkerLostError("out of memory", step="write")

    quarantine = Quarantine(attempt, lambda: [4])
    with pytest.raises(WorkerLostError):
        quarantine.run(WorkerLostError("out of memory", step="write"))
    assert not quarantine.found


@pytest.mark.parametrize("kind", [UnprocessableError, WorkerLostError])
def test_an_engine_that_fails_for_a_while_condemns_no_other_event(kind):
    for start, length in itertools.product(range(2, 20), range(1, 8)):
        batch, tries = Batch([8], {5: [(0, "a")]}), itertools.count()

        def attempt(isolation, batch=batch, tries=tries, broken=range(start, start + length)):
            if next(tries) in broken:
                raise kind("broken", step="write")
            return batch.attempt(isolation)

        quarantine = Quarantine(attempt, lambda batch=batch: batch.sizes)
        with contextlib.suppress(UnprocessableError, WorkerLostError):  # the batch is tried again later
            assert quarantine.run(UnprocessableError("no", step="convert")) == set(batch.events) - {5}
            assert {one.window for one, _ in quarantine.found} == {(5, 6)}


def test_a_failure_that_does_not_repeat_condemns_no_event():
    batch = Batch([8], {5: [(0, "a")]})

    def attempt(isolation):
        if batch.tries == 8:  # the single event has failed once, and the engine was tried without events
            batch.bad.clear()
        return batch.attempt(isolation)

    quarantine = Quarantine(attempt, lambda: batch.sizes)
    assert quarantine.run(UnprocessableError("no", step="convert")) == set(batch.events)
    assert not quarantine.found


def test_workers_that_end_whatever_they_are_given_blame_no_event():
    batch = Batch([64], {}, lost=frozenset(range(64)))
    with pytest.raises(WorkerLostError):
        batch.run()
    assert batch.tries < 30
