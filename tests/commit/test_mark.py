"""What a mark in a table says of the driver that reads it."""

from __future__ import annotations

import pytest

from calve.commit.mark import CommitTarget, Mark
from calve.errors import OvertakenError

TARGET = CommitTarget("shop.orders")


def overtaken(since: float) -> None:
    raise OvertakenError("Another driver took over this pipeline", step="ledger")


def test_a_later_batch_is_that_of_a_copied_state_for_who_still_owns_its_state() -> None:
    later = Mark("p", "s", 5).text(5)
    with pytest.raises(OvertakenError, match="has batch 5 of 'p'; this state ends at 3") as raised:
        Mark("p", "s", 3).read(later, TARGET)
    assert "copy of this state folder" in raised.value.hint


def test_a_driver_that_was_replaced_is_told_so_when_it_finds_a_later_batch() -> None:
    later = Mark("p", "s", 5).text(5)
    with pytest.raises(OvertakenError, match="Another driver took over this pipeline"):
        Mark("p", "s", 3, overtaken).read(later, TARGET)
    assert Mark("p", "s", 5, overtaken).read(later, TARGET) == 5
