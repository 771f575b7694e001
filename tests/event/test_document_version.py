"""The version of an event puts it in the order of all events, however often and wherever it is read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calve.event.document_version import POSITION_BITS, versions

MOMENT = 17_900_000_000  # in 2026
moments = st.integers(MOMENT, MOMENT + (1 << 33))


@given(moments, st.integers(1, 5000), st.data())
def test_versions_are_in_the_order_of_batches_then_splits_then_rows(moment: int, splits: int, data: st.DataObject):
    places = st.tuples(st.integers(0, splits - 1), st.integers(0, 100_000))
    one, other = sorted(data.draw(st.lists(places, min_size=2, max_size=2, unique=True)))
    found = [versions(moment, (split, splits), row, 1)[0].as_py() for split, row in (one, other)]
    assert 0 < found[0] < found[1] < versions(moment + 1, (0, 1), 0, 1)[0].as_py() < 1 << 63


def test_rows_beyond_the_numbers_of_their_split_share_the_last_one():
    found = versions(MOMENT, (0, 2), (1 << (POSITION_BITS - 1)) - 2, 4).to_pylist()
    assert found[0] + 1 == found[1] == found[2] == found[3]
    assert found[3] < versions(MOMENT, (1, 2), 0, 1)[0].as_py()


def test_a_split_that_is_read_in_parts_gives_the_same_versions():
    whole = versions(MOMENT, (3, 7), 0, 100).to_pylist()
    assert versions(MOMENT, (3, 7), 0, 40).to_pylist() + versions(MOMENT, (3, 7), 40, 60).to_pylist() == whole
