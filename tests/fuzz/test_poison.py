"""A share of `make fuzz FUZZ="--poison 1000000"`."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve.event.reject import Code
from fuzz.poison import CODES, ELSEWHERE, Poison

pytestmark = [pytest.mark.spark, pytest.mark.crash]

COUNT = 8_000


def test_every_poison_event_is_one_dead_letter_with_its_code_and_bytes_and_every_good_one_a_row(tmp_path: Path) -> None:
    poison = Poison(tmp_path / "poison", COUNT)
    poison.play()
    assert poison.wrong == []
    assert (poison.rows, poison.codes.total()) == (COUNT, COUNT)
    assert set(poison.codes) == CODES == set(Code) - ELSEWHERE
