"""The committer's thread, and how long a drain goes on, on a clock that passes only while the test sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from calve.errors import CalveError, CommitError, InvariantError, OvertakenError, SinkUnavailableError
from calve.pipeline.commit_queue import CommitQueue
from calve.pipeline.committer import Committer
from calve.record.target import BranchRef
from calve.record.written import StagedFiles
from calve.sinks.sink import CommitSettings

TABLES = [BranchRef("c", f"t{number}", "main") for number in range(10)]
STEP, LIMIT = 50.0, 120.0
"""Seconds that each sleep of a drain takes, and how long it goes on without a commit."""
PATIENCE = 60.0


class World:
    """A committer of one batch of ten tables, whose parts the test plays; it is also its `TableCommits`.

    Attributes:
        while_asleep: What happens each time that the committer sleeps.
        commit: What a commit does.
        acknowledged: How often batches were acknowledged.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.queue = CommitQueue(CommitSettings(3600, 1 << 30), self.seconds)
        self.queue.add(1, [StagedFiles("c", table.table, "", [], rows=1, bytes=1) for table in TABLES])
        self.while_asleep: Callable[[], None] = lambda: None
        self.commit: Callable[[BranchRef], None] = self.succeed
        self.acknowledged = 0
        self.is_over = threading.Event()
        self.prepare: Callable[[], object] = lambda: None
        ledger: Any = SimpleNamespace(pipeline="p", check=lambda: None)
        played: Any = self
        self.committer = Committer(played, ledger, LIMIT, lambda: self.seconds, self.sleep)

    def troubles(self) -> list[CalveError]:
        return self.queue.errors()

    def drains(self) -> bool:
        """Commit everything; return whether that succeeded."""
        try:
            self.committer.commit_all()
        except CalveError:
            return False
        return True

    def succeed(self, table: BranchRef) -> None:
        self.queue.committed(table, self.queue.load(table), self.seconds)

    def acknowledge(self) -> None:
        self.acknowledged += 1
        for batch in self.queue.finished():
            self.queue.acknowledged(batch)
        self.is_over.set()

    def sleep(self, _: float) -> None:
        self.seconds += STEP
        self.while_asleep()

    def die(self, error: Exception) -> None:
        """Run the thread until this ends it."""

        def prepare() -> None:
            raise error

        self.prepare = prepare
        self.committer.start()
        self.committer.stop()


@pytest.fixture
def world() -> Iterator[World]:
    one = World()
    yield one
    one.committer.stop()


def test_tables_are_committed_side_by_side_and_then_acknowledged(world: World) -> None:
    both = threading.Barrier(2)

    def commit(table: BranchRef) -> None:
        both.wait(PATIENCE)
        assert world.acknowledged == 0
        world.succeed(table)

    world.commit = commit
    world.committer.cycle()
    assert world.queue.is_empty()
    assert world.acknowledged == 1


def test_nothing_is_acknowledged_while_nothing_is_due(world: World) -> None:
    world.committer.cycle()
    world.queue.add(2, [StagedFiles("c", "t1", "", [], rows=1, bytes=1)])
    world.committer.cycle()
    assert world.acknowledged == 1


def test_the_thread_commits_after_what_is_prepared_and_until_the_stop(world: World) -> None:
    prepared: list[bool] = []
    world.prepare = lambda: prepared.append(world.queue.is_empty())
    world.committer.start()
    assert world.is_over.wait(PATIENCE)
    world.committer.stop()
    assert prepared == [False]
    assert world.queue.is_empty()
    assert world.committer.failed is None


def test_a_drain_goes_on_for_as_long_as_tables_are_committed(world: World) -> None:
    left = list(TABLES)

    def one_more() -> None:
        if left:
            world.succeed(left.pop())
        else:
            world.acknowledge()

    world.while_asleep = one_more
    assert world.drains()
    assert world.seconds > 3 * LIMIT


def test_a_drain_ends_when_no_table_can_be_committed_for_long(world: World) -> None:
    world.while_asleep = world.committer.cycle
    world.commit = lambda table: _fail(world, table, SinkUnavailableError("no answer", step="commit"))
    assert not world.drains()
    assert LIMIT < world.seconds <= LIMIT + STEP


def test_a_drain_ends_at_once_when_all_tables_that_are_left_are_held(world: World) -> None:
    world.while_asleep = world.committer.cycle
    world.commit = lambda table: _fail(world, table, CommitError("dropped", step="commit"))
    assert not world.drains()
    assert world.seconds == STEP


def test_a_drain_commits_what_waits_for_its_interval(world: World) -> None:
    world.committer.cycle()
    world.queue.add(2, [StagedFiles("c", "t1", "", [], rows=1, bytes=1)])
    world.while_asleep = world.committer.cycle
    assert world.drains()


def test_an_error_that_ends_the_pipeline_ends_the_thread_and_the_drain(world: World) -> None:
    error = OvertakenError("another driver runs this pipeline", step="commit")
    world.die(error)
    assert world.committer.failed is error
    assert not world.drains()
    assert world.seconds == STEP


def test_a_drain_with_nothing_left_tells_that_the_thread_has_failed(world: World) -> None:
    world.committer.cycle()
    world.die(KeyError("x"))
    assert not world.drains()


def test_a_batch_without_tables_is_acknowledged_in_its_turn(world: World) -> None:
    world.committer.cycle()
    world.queue.add(2, [])
    world.while_asleep = world.committer.cycle
    assert world.drains()


def test_an_error_that_nobody_foresaw_is_a_bug(world: World) -> None:
    world.die(KeyError("x"))
    assert isinstance(world.committer.failed, InvariantError)
    assert str(world.committer.failed) == "The committer failed: KeyError: 'x'"


def test_an_error_of_a_commit_ends_the_thread_before_anything_is_acknowledged(world: World) -> None:
    def refuse(table: BranchRef) -> None:
        raise OvertakenError(table.table, step="commit")

    world.commit = refuse
    with pytest.raises(OvertakenError, match="t0"):
        world.committer.cycle()
    assert world.acknowledged == 0


def _fail(world: World, table: BranchRef, error: SinkUnavailableError | CommitError) -> None:
    world.queue.failed(table, error, world.seconds)


def test_it_knows_how_long_the_last_commits_took(world: World) -> None:
    def commit(table: BranchRef) -> None:
        world.seconds = 3620
        world.succeed(table)

    world.commit = commit
    world.seconds = 3600
    world.committer.cycle()
    assert world.committer.took_seconds == 20
    world.committer.cycle()
    assert world.committer.took_seconds == 20, "there was nothing to commit"
