"""Positions: what waits, what is shared out, what is gone."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.sources.kafka.cluster import OffsetRange, Topic
from calve.sources.kafka.consumer import Range
from calve.sources.kafka.position import advance, cut, gone, offsets, share, waiting


def topic(*held: tuple[int, int], id: str = "A") -> Topic:
    return Topic(id, {partition: OffsetRange(*each) for partition, each in enumerate(held)})


def test_without_a_position_everything_waits():
    assert waiting(None, {"t": topic((0, 10), (5, 5), (3, 7))}, {}) == [Range("t", 0, 0, 10), Range("t", 2, 3, 7)]


def test_a_new_partition_begins_at_its_oldest_record_even_with_latest():
    begin = {"t": {0: 8}}
    assert waiting(None, {"t": topic((0, 10), (0, 4))}, begin) == [Range("t", 0, 8, 10), Range("t", 1, 0, 4)]


def test_a_position_keeps_partitions_and_topics_that_a_batch_did_not_touch():
    before = {"old": {"0": 3}, "t": {"0": 1, "1": 2}, "@ids": {"old": "O", "t": "A"}}
    after = advance(before, {"t": topic((0, 9), (0, 9))}, [Range("t", 1, 2, 9)])
    assert after == {"old": {"0": 3}, "t": {"0": 1, "1": 9}, "@ids": {"old": "O", "t": "A"}}
    assert offsets(after) == {"old": {0: 3}, "t": {0: 1, 1: 9}}


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (topic((0, 4)), "ends at offset 4"),
        (topic((8, 9)), "3 were deleted before they were read"),
        (topic((0, 9), id="B"), "deleted and recreated"),
        (Topic("A", {}), "no longer exists"),
    ],
)
def test_records_that_are_gone_are_named(now: Topic, told: str):
    ((_, error),) = gone({"t": {"0": 5}, "@ids": {"t": "A"}}, {"t": now})
    assert told in error.message
    assert "topic t" in error.message
    assert "on_lost_position" in error.hint


def test_a_position_that_is_all_there_is_no_error():
    assert list(gone({"t": {"0": 5}, "@ids": {"t": "A"}}, {"t": topic((5, 5))})) == []
    assert list(gone({"t": {"0": 5}}, {"t": topic((0, 5), id="")})) == []


def test_a_topic_made_again_is_read_from_its_oldest_record_once_that_is_allowed():
    assert waiting({"t": {"0": 5}, "@ids": {"t": "A"}}, {"t": topic((0, 9), id="B")}, {}) == [Range("t", 0, 0, 9)]


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=8), st.integers(1, 3_000_000))
def test_shares_are_a_prefix_of_every_partition_and_about_the_bytes_asked_for(lengths: list[int], max_bytes: int):
    ranges = [Range("t", partition, 7, 7 + length) for partition, length in enumerate(lengths)]
    taken = share(ranges, {"t": 100}, max_bytes)
    assert all(a.start == b.start and a.start < b.end <= a.end for a, b in zip(ranges, taken, strict=True))
    assert sum(each.end - each.start for each in taken) * 100 <= max_bytes + 100 * len(lengths)


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(5_000, 10**5))
def test_pieces_of_a_range_are_the_range_and_none_is_small(start: int, length: int, rows: int):
    pieces = cut(Range("t", 0, start, start + length), rows)
    assert [pieces[0].start, pieces[-1].end] == [start, start + length]
    assert all(a.end == b.start for a, b in itertools.pairwise(pieces))
    assert all(rows <= each.end - each.start < 2 * rows for each in pieces) or len(pieces) == 1
