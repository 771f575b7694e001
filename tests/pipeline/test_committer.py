"""The committer with a catalog that is slow or does not answer, on a clock of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from calve.commit.fence import Outcome
from calve.commit.ledger import Ledger
from calve.errors import SinkUnavailableError
from calve.observe.status import PipelineStatus
from calve.pipeline import committer
from calve.pipeline.committer import CommitSettings, Committer
from calve.sources.source import Planned, Split

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


@pytest.fixture
def draining(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., bool]]:
    """Stage a batch of ten tables and drain it, with what a commit does."""
    ledger = Ledger.open(tmp_path / "p" / "ledger")
    made: list[Committer] = []

    def drain(clock: Clock, commit: Callable[[], Outcome]) -> bool:
        tables = [
            {"catalog": "c", "table": f"t{n}", "uuid": "", "files": [], "rows": 1, "bytes": 1} for n in range(TABLES)
        ]
        counts: dict[str, Any] = {"events": TABLES, "bytes": TABLES, "unrouted": 0, "rejects": [], "nulled": []}
        record = {"batch": 1, "position": {}, "since": 0.0, "tables": tables, "documents": [], **counts}
        ledger.begin(1, Planned([Split({}, 1)], {}, ()))
        ledger.stage(1, record)
        monkeypatch.setattr(committer, "time", SimpleNamespace(monotonic=clock.monotonic, time=time.time))
        hooks = (lambda *_: clock.done.release(), lambda _: None)
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
