from __future__ import annotations

from calve.cli.table import columns


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_align_to_the_right() -> None:
    lines = list(columns(("name", ">rows", "note"), [("a", "1,000", ""), ("longer", "5", "x")]))
    assert lines == ["name     rows  note", "a       1,000", "longer      5  x"]
