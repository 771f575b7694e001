from __future__ import annotations

import pytest

from calve.route.by_table import ByTable, TablePattern


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (TablePattern("a.b"), "a.b", True),
        (TablePattern("a.b"), "aab", False),
        (TablePattern("a.*"), "a.b.c", True),
        (TablePattern("a.?"), "a.bb", False),
        (TablePattern("A.b"), "a.b", False),
        (TablePattern(r"a\.\d+", is_regex=True), "a.12", True),
        (TablePattern(r"a\.\d", is_regex=True), "a.12", False),
    ],
)
def test_a_pattern_matches_the_whole_name(pattern: TablePattern, name: str, matches: bool) -> None:
    assert pattern.matches(name) is matches


def test_the_first_match_wins_and_without_one_the_default() -> None:
    values = ByTable(0, ((TablePattern("a.*"), 1), (TablePattern("a.b"), 2), (TablePattern("b.*"), 3)))
    assert [values.of(name) for name in ("a.b", "b.b", "c.b")] == [1, 3, 0]
    assert values.map(str).values() == ["0", "1", "2", "3"]
