"""The committer with a catalog that is slow or does not answer, on a clock of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from calve.commit.fence import CommitTarget, Outcome
from calve.errors import SinkUnavailableError
from calve.ledger.ledger import Ledger
from calve.observe.status import PipelineStatus
from calve.pipeline import committer
from calve.pipeline.committer import Committer, Hooks
from calve.record.staged import StagedBatch
from calve.record.written import TableFiles
from calve.sinks.sink import CommitSettings
from calve.sources.source import Planned, Split
from running import until

TABLES = 10
STEP, LIMIT = 50.0, 120.0
"""Seconds that pass each time that `drain` looks at the clock, and how long it goes on without a commit."""


class Clock:
    """Time passes when the test's own thread looks.

    Args:
        commits: So many looks wait for a commit, and then time stands still; None: it passes, whatever is committed.
    """

    def __init__(self, commits: int | None) -> None:
        self.now, self.runs = 0.0, False
        self.commits = commits
        self.allowed, self.done = threading.Semaphore(0), threading.Semaphore(0)

    def monotonic(self) -> float:
        if self.runs and self.commits != 0 and threading.current_thread() is threading.main_thread():
            self.now += STEP
            if self.commits:
                self.commits -= 1
                self.allowed.release()
                assert self.done.acquire(timeout=60)
        return self.now


def stage(ledger: Ledger, batch: int, *tables: str) -> StagedBatch:
    """Begin and stage a batch with a row for each table."""
    entries = [TableFiles("c", name, "", [], rows=1, bytes=1) for name in tables]
    record = StagedBatch(batch, {}, entries, events=1, bytes=1, unrouted=0)
    ledger.begin(batch, Planned([Split({}, 1)], {}, ()))
    ledger.stage(batch, record)
    return record


@pytest.fixture
def draining(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., bool]]:
    """Stage a batch of ten tables and drain it, with what a commit does."""
    ledger = Ledger.open(tmp_path / "p" / "ledger")
    made: list[Committer] = []

    def drain(clock: Clock, commit: Callable[[], Outcome]) -> bool:
        record = stage(ledger, 1, *(f"t{n}" for n in range(TABLES)))
        monkeypatch.setattr(committer, "time", SimpleNamespace(monotonic=clock.monotonic, time=time.time))
        hooks = Hooks(lambda *_: clock.done.release(), lambda _: None, lambda *_: {})
        catalog: Any = SimpleNamespace(prepare=lambda: None)
        one = Committer(ledger, {"c": catalog}, CommitSettings(0, 1), PipelineStatus("p"), hooks)
        made.append(one)
        monkeypatch.setattr(committer, "append", lambda *_: commit())
        one.add(record)
        one.start()
        clock.runs = True
        return one.drain(LIMIT)

    yield drain
    for one in made:
        one.stop()
    ledger.close()


def test_draining_goes_on_for_as_long_as_tables_are_committed(draining: Callable[..., bool]) -> None:
    clock = Clock(TABLES)

    def commit() -> Outcome:
        assert clock.allowed.acquire(timeout=60)
        return Outcome((1,), 1)

    assert draining(clock, commit)
    assert clock.now > 3 * LIMIT


def test_draining_ends_when_no_table_can_be_committed_for_long(draining: Callable[..., bool]) -> None:
    def refuse() -> Outcome:
        raise SinkUnavailableError("no answer", step="commit")

    assert not draining(Clock(None), refuse)


@pytest.fixture
def hourly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Committer, Ledger, list[str]]]:
    """A committer whose interval is an hour, its ledger, and the tables that it commits to."""
    committed: list[str] = []

    def commit(catalog: Any, target: CommitTarget, *_: Any) -> Outcome:
        committed.append(target.identifier)
        return Outcome((1,), 1)

    monkeypatch.setattr(committer, "append", commit)
    ledger = Ledger.open(tmp_path / "p" / "ledger")
    catalog: Any = SimpleNamespace(prepare=lambda: None)
    hooks = Hooks(lambda *_: None, lambda _: None, lambda *_: {})
    one = Committer(ledger, {"c": catalog}, CommitSettings(3600, 1 << 30), PipelineStatus("p"), hooks)
    one.start()
    yield one, ledger, committed
    one.stop()
    ledger.close()


def test_the_first_files_of_a_table_are_committed_at_once(hourly: tuple[Committer, Ledger, list[str]]) -> None:
    one, ledger, committed = hourly
    one.add(stage(ledger, 1, "a"))
    until(lambda: ledger.committed.batch == 1, "the first batch is committed")
    one.add(stage(ledger, 2, "a"))
    one.add(stage(ledger, 3, "a", "b"))
    until(lambda: "b" in committed, "the new table is committed")
    one.stop()
    assert committed == ["a", "b"]
    assert ledger.committed.batch == 1


def test_the_end_of_a_backlog_is_committed_at_once(hourly: tuple[Committer, Ledger, list[str]]) -> None:
    one, ledger, committed = hourly
    one.add(stage(ledger, 1, "a"))
    until(lambda: ledger.committed.batch == 1, "the first batch is committed")
    one.add(stage(ledger, 2, "a"))
    one.commit_soon()
    until(lambda: ledger.committed.batch == 2, "the second batch is committed")
    assert committed == ["a", "a"]
