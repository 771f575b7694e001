"""A decision to load all tables again outlasts crashes, and is made once."""

from __future__ import annotations

from pathlib import Path

from calve.errors import PositionLostError
from calve.observe.log import Log
from calve.sources.database import full_reload
from calve.sources.database.starting_over import StartingOver
from calve.sources.database.table import DatabaseTable
from calve.sources.source_files import files_in
from calve.state.local_folder import LocalFolder

TABLE = DatabaseTable("shop", 7, "public", "orders", ())


def phase(folder: Path) -> StartingOver:
    files = files_in(LocalFolder(folder))
    files.acquire()
    return StartingOver(files, Log("p"))


def test_a_decision_outlasts_a_crash_until_the_load_that_it_asks_for_has_begun(tmp_path: Path) -> None:
    phase(tmp_path).lose(PositionLostError("the log is gone"), 3, [TABLE])
    restarted = phase(tmp_path)
    for begun in (None, 3):
        restarted.resume(begun)
        assert restarted.decided is not None
        assert (restarted.decided.load, restarted.decided.tables) == (4, [TABLE])
    restarted.resume(4)
    assert restarted.decided is None
    assert restarted.tables == []


def test_a_request_is_for_the_load_that_it_names_and_is_decided_once(tmp_path: Path) -> None:
    over = phase(tmp_path)
    full_reload.request(LocalFolder(tmp_path), 2)
    over.decide_if_requested(3, [TABLE])
    assert over.decided is None
    over.decide_if_requested(2, [TABLE])
    first = over.decided
    assert first is not None
    over.decide_if_requested(2, [])
    assert over.decided is first
