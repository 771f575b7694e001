"""Groups of what a load reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calve.sources.database.pieces import grouped


@given(st.lists(st.integers(1, 3 << 20), max_size=60))
def test_groups_have_all_pieces_in_order_and_grow_up_to_some_megabytes(sizes: list[int]) -> None:
    groups = list(grouped(sizes, lambda size: size))
    assert [size for group in groups for size in group] == sizes
    assert all(sum(group[:-1]) < 8 << 20 for group in groups)
    for number, group in enumerate(groups[:-1]):
        least = min((1 << 18) << number, 8 << 20)
        assert sum(group) >= least > sum(group[:-1])
