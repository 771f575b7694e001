from __future__ import annotations

from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.observe.pause import Pause, is_paused, pause, resume


def test_a_pause_lasts_until_it_is_resumed(tmp_path: Path) -> None:
    assert not is_paused(str(tmp_path), "orders")
    for _ in range(2):
        pause(str(tmp_path), "orders")
        assert is_paused(str(tmp_path), "orders")
        assert not is_paused(str(tmp_path), "clicks")
    for _ in range(2):
        resume(str(tmp_path), "orders")
        assert not is_paused(str(tmp_path), "orders")


def test_the_driver_looks_once_a_second(tmp_path: Path) -> None:
    clock = [0.0]
    asked = Pause(str(tmp_path / "orders"), lambda: clock[0])
    assert not asked.is_requested()
    pause(str(tmp_path), "orders")
    assert not asked.is_requested()
    clock[0] = 1.0
    assert asked.is_requested()
    resume(str(tmp_path), "orders")
    assert asked.is_requested()
    clock[0] = 2.0
    assert not asked.is_requested()


def test_a_state_that_cannot_be_written_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "orders").write_text("a file")
    with pytest.raises(SourceError, match="cannot be changed"):
        pause(str(tmp_path), "orders")
