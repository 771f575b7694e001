from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from calve.sources.log import segment
from calve.sources.log.index import SegmentIndex
from calve.sources.log.record import SEGMENT_HEAD_BYTES
from calve.sources.log.segment import Segment
from calve.sources.source import Position

UNIT = segment.MARK_BYTES
ENTRIES = st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.integers(1, 8)), max_size=30)
"""Entries: the size in sixths of the distance of marks, whether a batch may end after it, and 8: begins a segment."""
Border = tuple[int, int]


def grown(entries: list[tuple[int, bool, int]]) -> tuple[SegmentIndex, list[Border], list[Border]]:
    """Return an index with entries, all borders in order, and those at which a batch may end."""
    index = SegmentIndex(Path(), lambda key: key == b"end")
    index.add(Segment(1, 0))
    borders, ends = [], []
    for size, is_end, more in entries:
        if more == 8:
            index.add(Segment(index.segments[-1].number + 1, index.segments[-1].end))
        index.grow([(size * UNIT // 6, 1, b"end" if is_end else b"open")], 0)
        borders.append((index.segments[-1].number, index.segments[-1].end))
        ends += borders[-1:] if is_end else []
    return index, borders, ends


@given(ENTRIES, st.integers(1, 5 * UNIT))
def test_batches_end_where_they_may_and_together_have_each_entry_up_to_the_last_end_once(
    entries: list[tuple[int, bool, int]], max_bytes: int
) -> None:
    index, borders, ends = grown(entries)
    position: Position | None = None
    before = rows = 0
    while planned := index.plan(position, max_bytes):
        here = planned.position["segment"], planned.position["offset"]
        assert here in ends
        count = borders.index(here) + 1
        assert sum(split.body["rows"] for split in planned.splits) == count - before
        assert all(split.size_bytes == split.body["end"] - split.body["start"] > 0 for split in planned.splits)
        size = sum(split.size_bytes for split in planned.splits)
        between = [end for end in ends if before < borders.index(end) + 1 < count]
        assert size <= max_bytes or not between or size < UNIT, "it is larger only if it has to be"
        assert index.backlog(position).rows == (borders.index(ends[-1]) + 1) - before
        position, before, rows = planned.position, count, rows + count - before
    assert rows == (borders.index(ends[-1]) + 1 if ends else 0)
    assert not index.backlog(position)
    open_sizes = [entries[number][0] * UNIT // 6 for number in range(rows, len(entries))]
    assert index.open_bytes() == sum(open_sizes)


def test_what_has_no_end_is_not_planned_until_its_end_comes_however_large_it_is() -> None:
    index, _, _ = grown([(6, True, 1), *[(12, False, 1)] * 20])
    first = index.plan(None, UNIT * 4)
    assert first is not None
    assert first.position == {"segment": 1, "offset": SEGMENT_HEAD_BYTES + UNIT}
    assert index.plan(first.position, UNIT * 4) is None
    assert not index.backlog(first.position)
    index.grow([(10, 0, b"end")], 0)
    whole = index.plan(first.position, UNIT * 4)
    assert whole is not None
    assert sum(split.size_bytes for split in whole.splits) == 40 * UNIT + 10
    assert max(split.size_bytes for split in whole.splits) <= 8 << 20
    assert index.plan(whole.position, UNIT * 4) is None
