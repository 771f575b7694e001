"""How far a table is complete: the slowest origin decides, and what was said once is never taken back."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from calve.acknowledge.progress import StagedBatches
from calve.acknowledge.watermark import Origins, event_times, newest, summary, to_datetime
from calve.observe.totals import Totals
from calve.record.staged import StagedBatch
from calve.record.target import BranchRef
from calve.record.written import StagedFiles
from calve.table.completeness import Completeness

TARGET = BranchRef("lake", "db.t", "main")
LATE = 4_000_000_000.0


def entry(times: dict[str, int], branch: str = "main") -> StagedFiles:
    return StagedFiles("lake", "db.t", "", [], rows=1, bytes=1, branch=branch, event_times=times)


def record(batch: int, *entries: StagedFiles, **more: Any) -> StagedBatch:
    return StagedBatch(batch, {}, list(entries), 1, 1, 0, **{"staged_at": LATE, "seconds": 0.1, **more})


def test_the_slowest_partition_decides_and_each_counts_by_its_latest() -> None:
    one = record(1, entry({"t/0": 5, "t/1": 90}), entry({"t/0": 30, "t/1": 20}))
    assert event_times(one) == {TARGET: (90, 30)}


def test_a_partition_that_brings_nothing_holds_nothing_back() -> None:
    progress = StagedBatches(Totals(), "p")
    progress.add(record(1, entry({"t/0": 10, "t/1": 50})))
    progress.add(record(2, entry({"t/1": 60})))
    assert (progress.event_time(TARGET, 1), progress.event_time(TARGET, 2)) == ((50, 10), (60, 60))


def test_a_partition_of_which_more_waits_holds_back_the_tables_it_brought_nothing_for() -> None:
    progress = StagedBatches(Totals(), "p")
    progress.add(record(1, entry({"t/0": 10, "t/1": 50}), waiting=["t/1"]))
    progress.add(record(2, entry({"t/1": 60}), waiting=["t/0"]))
    assert (progress.event_time(TARGET, 1), progress.event_time(TARGET, 2)) == ((50, 10), (60, 10))
    unknown = StagedBatches(Totals(), "p")
    unknown.add(record(1, entry({"": 10}), waiting=["b.ndjson"]))
    assert unknown.event_time(TARGET, 1) == (10, None)
    assert unknown.summary(TARGET, 1)["calve.max-event-time"] == "1970-01-01T00:00:00.000010Z"
    assert "calve.valid-through" not in unknown.summary(TARGET, 1)


def test_a_commit_tells_the_last_batch_that_all_tables_have() -> None:
    progress = StagedBatches(Totals(), "p")
    for batch in (4, 5):
        progress.add(record(batch, entry({})))
    assert progress.summary(TARGET, 5)["calve.complete-batch"] == "3"
    progress.forget(record(4))
    assert progress.summary(TARGET, 5)["calve.complete-batch"] == "4"


def test_branches_of_a_table_are_told_apart_and_records_without_times_say_nothing() -> None:
    one = record(1, entry({"": 5}), entry({"": 9}, "audit"), entry({}, "empty"))
    assert event_times(one) == {TARGET: (5, 5), ("lake", "db.t", "audit"): (9, 9)}
    assert event_times(record(2, entry({}))) == {}
    progress = StagedBatches(Totals(), "p")
    progress.add(record(2, entry({})))
    assert "calve.valid-through" not in progress.summary(TARGET, 2)


def test_no_table_is_complete_beyond_the_moment_its_batch_was_staged() -> None:
    assert event_times(record(1, entry({"": 9_000_000}), staged_at=2.5)) == {TARGET: (9_000_000, 2_500_000)}


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 100)), min_size=1, max_size=8), st.data())
def test_it_never_goes_back_however_often_the_pipeline_dies(batches: list[dict[str, int]], data: Any) -> None:
    records = [record(number, entry(times)) for number, times in enumerate(batches, 1)]
    totals = Totals()
    counted = through = 0
    before = (0, 0)
    while counted < len(records):
        progress = StagedBatches(msgspec.json.decode(msgspec.json.encode(totals), type=Totals), "p")
        for each in records[counted:]:
            progress.add(each)
        through = data.draw(st.integers(max(through, counted + 1), len(records)))  # what was staged stays so
        reached = progress.event_time(TARGET, through) or before
        assert reached[0] >= before[0]
        assert reached[1] >= before[1]
        before = reached
        dies_after = data.draw(st.integers(counted + 1, through))  # one at least, so that the test ends
        for each in records[counted:dies_after]:
            totals = progress.count(each)
            assert (progress.event_time(TARGET, through) or before) == reached
            progress.forget(each)
        counted = dies_after
    expected = [(max(times.values()), min(times.values())) for times in batches if times]
    assert StagedBatches(totals, "p").event_time(TARGET, 0) == newest(expected)


def test_times_are_texts_that_compare_as_times_do() -> None:
    times = [-(2**62), -(10**12), 0, 999_999, 1_700_000_000_000_000, 2**62]
    texts = [summary((time, time))["calve.valid-through"] for time in times]
    assert texts == sorted(texts)
    assert texts[3] == "1970-01-01T00:00:00.999999Z"
    assert {len(text) for text in texts} == {27}
    assert to_datetime(2**62).year == 9999
    assert summary(None) == {}


def test_a_table_without_event_times_has_the_times_of_the_records_unless_it_should_have_some() -> None:
    one = record(1, entry({}), record_times={"t/0": 7, "t/1": 5})
    assert event_times(one) == {TARGET: (7, 5)}
    assert event_times(one, lambda _: Completeness(event_time="at")) == {}


def test_lateness_is_subtracted_and_a_quiet_origin_counts_until_it_is_idle() -> None:
    rule = Completeness(lateness_micros=1, idle_seconds=10)

    def through(origins: Origins, staged_at: float, times: dict[str, int], *waiting: str) -> int | None:
        one = record(1, entry(times), staged_at=staged_at, waiting=list(waiting))
        return event_times(one, lambda _: rule, origins)[TARGET][1]

    origins = Origins()
    assert through(origins, 100, {"a": 50, "b": 20}) == 19
    assert through(origins, 109, {"a": 60}) == 19
    assert through(Origins(origins.seen()), 109, {"a": 60}, "b") == 19
    assert through(origins, 111, {"a": 70}) == 69
    assert through(origins, 112, {"a": 71}, "b") is None
