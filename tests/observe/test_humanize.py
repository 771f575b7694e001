from __future__ import annotations

from datetime import timedelta

import pytest

from calve.observe.humanize import ago, amount, duration, listed, many, size
from calve.observe.report import now


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (950, "950"), (9_999, "9,999"), (12_345, "12.3k"), (4.5e6, "4.5M"), (7e9, "7.0G")]
)
def test_amounts_are_short(count: float, text: str) -> None:
    assert amount(count) == text


@pytest.mark.parametrize(("count", "text"), [(812, "812 B"), (3565158, "3.4 MiB"), (1 << 50, "1024.0 TiB")])
def test_sizes_are_short(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0 s"), (4.2, "4 s"), (119, "119 s"), (720, "12 min"), (10_800, "3 h"), (432_000, "5 d")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_nouns_follow_their_number() -> None:
    assert (many(1, "row"), many(12_000, "row"), many(2, "batch", "batches")) == ("1 row", "12,000 rows", "2 batches")


def test_many_names_are_cut() -> None:
    assert (listed([], 2), listed(["a", "b"], 2), listed(["a", "b", "c"], 2)) == ("", "a, b", "a, b and 1 more")


def test_a_moment_is_told_by_its_distance() -> None:
    assert ago(now() - timedelta(minutes=5)) == "5 min ago"
