"""There is one way to wait longer after each failure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import calve
from calve.network.backoff import delay


@pytest.mark.parametrize(("failures", "most"), [(0, 0.5), (1, 1.0), (4, 8.0), (5, 15.0), (5000, 15.0)])
def test_each_failure_doubles_the_wait_up_to_the_longest_and_chance_halves_it_at_most(failures: int, most: float):
    waits = [delay(failures, 0.5, 15.0) for _ in range(1000)]
    assert most / 2 <= min(waits) < max(waits) <= most
    assert max(waits) - min(waits) > most / 4


def test_nothing_else_has_a_wait_by_chance():
    folder = Path(calve.__file__).parent
    found = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r"^\s*(import|from) random\b", path.read_text(), re.MULTILINE)
    }
    assert found == {
        "network/backoff.py",
        "cli/demo_events.py",
        "sources/mysql/position/begin.py",
    }  # made-up events, the number of a server
