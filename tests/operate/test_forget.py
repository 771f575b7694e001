"""Staged files of a dropped table leave the state, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from calve.cli.main import calve
from calve.ledger.ledger import Ledger
from calve.record.staged import StagedBatch
from calve.record.written import StagedFiles
from calve.sources.source import Planned, Split
from kit.content_files import data_file
from kit.documents import runnable, without_numbers


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state with two staged batches, of two tables each, and a begun one."""
    ledger = Ledger.open(tmp_path / "orders" / "ledger")
    for batch in (1, 2, 3):
        ledger.begin(batch, Planned([Split({"from": batch})], {"0": batch}))
        if batch < 3:
            tables = [
                StagedFiles("c", name, "", [data_file(f"{name}-{batch}")], rows=5, bytes=1, branch=branch)
                for name, branch in (("shop.kept", "main"), ("shop.gone", "main"), ("shop.gone", "audit"))
            ]
            ledger.stage(batch, StagedBatch(batch, {"0": batch}, tables, events=15, bytes=1, unrouted=0))
    ledger.close()
    return tmp_path


def tables_of(state: Path) -> list[list[str]]:
    ledger = Ledger.open(state / "orders" / "ledger")
    try:
        return [[entry.table for entry in one.staged.tables] if one.staged else [] for one in ledger.pending()]
    finally:
        ledger.close()


def call(state: Path, *arguments: str, answer: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(calve, ["state", "forget", *arguments, "--state", str(state)], input=answer)
    return result.exit_code, result.output


def test_all_staged_files_of_the_table_are_forgotten_and_those_of_other_tables_stay(state: Path) -> None:
    code, told = call(state, "shop.gone", "--yes")
    assert code == 0
    assert "orders: forgot 20 rows in 2 staged batches of shop.gone" in told
    assert "shop.gone-1" in told
    assert tables_of(state) == [["shop.kept"], ["shop.kept"], []]
    assert "orders: no staged files of shop.gone" in call(state, "shop.gone")[1]


def test_nothing_is_forgotten_before_the_user_agrees(state: Path) -> None:
    assert call(state, "shop.gone", answer="n\n")[0] == 1
    assert tables_of(state)[0] == ["shop.kept", "shop.gone", "shop.gone"]
    assert call(state, "shop.gone", answer="y\n")[0] == 0
    assert tables_of(state)[0] == ["shop.kept"]


def test_the_page_shows_what_is_asked_and_told(state: Path) -> None:
    asked, told, file = runnable("docs/lost-state.md")[2].splitlines()[1:]
    _, printed = call(state, "shop.gone", answer="y\n")
    lines = without_numbers(printed).replace("shop.gone", "shop.orders").splitlines()
    assert lines[:2] == without_numbers(f"{asked}\n{told}").splitlines()
    assert [line[:2] for line in lines[2:]] == [file[:2]] * 4


def test_a_running_pipeline_keeps_its_staged_files(state: Path) -> None:
    running = Ledger.open(state / "orders" / "ledger")
    code, told = call(state, "shop.gone", "--yes")
    running.close()
    assert (code, "Another driver runs this pipeline" in told) == (1, True)
    assert tables_of(state)[0] == ["shop.kept", "shop.gone", "shop.gone"]


def test_an_unknown_pipeline_is_named_with_those_that_exist(state: Path) -> None:
    code, told = call(state, "shop.gone", "--pipeline", "clicks")
    assert (code, "has no pipeline clicks. It has: orders" in told) == (1, True)
