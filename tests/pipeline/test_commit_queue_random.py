"""No sequence of calls of a commit queue loses, repeats or reorders what waits."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from calve.errors import CalveError
from calve.pipeline.commit_queue import CommitQueue
from calve.record.target import BranchRef
from calve.record.written import StagedFiles
from calve.sinks.sink import CommitSettings
from kit.examples import examples
from pipeline.queues import AWAY, HELD, HOUR, LONGEST, SIZE, A, B, C, entry


class QueueMachine(RuleBasedStateMachine):
    """Compares a queue with plain lists: what was staged for each table, and what became of it."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.batch, self.began = 0.0, 0, 0.0
        self.queue = CommitQueue(CommitSettings(HOUR, SIZE), 0.0)
        self.waits: dict[BranchRef, list[tuple[int, StagedFiles]]] = {A: [], B: [], C: []}
        self.taken: dict[BranchRef, dict[int, list[StagedFiles]]] = {}
        self.failures: dict[BranchRef, tuple[int, float]] = {}
        self.urgent, self.held = {A, B, C}, set[BranchRef]()
        self.open: list[int] = []
        self.takes_all = self.soon = False

    @rule(tables=st.lists(st.sampled_from([A, B, C]), max_size=4), size=st.sampled_from([1, SIZE // 3]))
    def add(self, tables: list[BranchRef], size: int) -> None:
        self.batch += 1
        entries = [entry(table, size, rows) for rows, table in enumerate(tables)]
        self.queue.add(self.batch, entries)
        self.open.append(self.batch)
        for one in entries:
            self.waits[one.ref].append((self.batch, one))

    @rule(seconds=st.sampled_from([0.1, 1.0, LONGEST, HOUR / 2]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def hurry(self) -> None:
        self.queue.commit_soon()
        self.soon = True

    @rule()
    def take(self) -> None:
        sizes = {table: sum(one.bytes for _, one in waiting) for table, waiting in self.waits.items() if waiting}
        free = [size for table, size in sizes.items() if table not in self.taken and table not in self.held]
        is_large = sum(free) >= SIZE
        large = {table for table, size in sizes.items() if is_large and size * len(free) >= sum(free)}
        is_all = self.soon or self.now - self.began >= HOUR
        found = self.queue.pop_due(self.now)
        assert found is not None or not is_all
        left = {table for table in self.waits if self.waits[table] and table not in self.taken}
        surely = {table for table in left if self.now >= self.again(table)[1]}
        maybe = {table for table in left if self.now >= self.again(table)[0]}
        due = {table for table in (A, B, C) if is_all or table in self.urgent | large or table in self.failures}
        assert surely & due <= set(found or ()) <= maybe & due
        self.takes_all = is_all
        if is_all:
            self.began, self.soon = self.now, False
        self.taken |= {table: self.queue.load(table) for table in found or ()}

    def again(self, table: BranchRef) -> tuple[float, float]:
        """When a table is tried again, at the earliest and at the latest."""
        if table not in self.failures:
            return 0.0, 0.0
        failures, at = self.failures[table]
        longest = min(0.5 * 2 ** (failures - 1), LONGEST)
        return at + longest / 2, at + longest

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), late=st.booleans())
    def commit(self, data: st.DataObject, late: bool) -> None:
        table, loaded = self.one_taken(data)
        loaded = self.queue.load(table) if late else loaded
        assert list(loaded) == sorted(loaded)
        self.queue.committed(table, loaded, self.now)
        self.waits[table] = [each for each in self.waits[table] if each[0] not in loaded]
        self.urgent.discard(table)
        self.failures.pop(table, None)
        self.held.discard(table)

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), error=st.sampled_from([AWAY, HELD]))
    def fail(self, data: st.DataObject, error: CalveError) -> None:
        table, _ = self.one_taken(data)
        self.queue.failed(table, error, self.now)
        self.failures[table] = self.failures.get(table, (0, 0.0))[0] + 1, self.now
        self.held = self.held | {table} if error is HELD else self.held - {table}

    @precondition(lambda self: self.taken)
    @rule(data=st.data(), is_left=st.booleans())
    def rewrite(self, data: st.DataObject, is_left: bool) -> None:
        table, loaded = self.one_taken(data)
        batch = data.draw(st.sampled_from(sorted(loaded)))
        new = [entry(table, rows=99)] if is_left else []
        self.queue.rewritten(table, {batch: new}, self.now)
        others = [each for each in self.waits[table] if each[0] != batch]
        self.waits[table] = sorted([*others, *((batch, one) for one in new)], key=lambda each: each[0])
        self.urgent.add(table)

    def one_taken(self, data: st.DataObject) -> tuple[BranchRef, dict[int, list[StagedFiles]]]:
        table = data.draw(st.sampled_from(sorted(self.taken)))
        self.began = self.now if self.takes_all else self.began
        return table, self.taken.pop(table)

    @precondition(lambda self: self.open)
    @rule()
    def acknowledge(self) -> None:
        waiting = {batch for found in self.waits.values() for batch, _ in found}
        for batch in self.queue.finished():
            assert batch == self.open.pop(0)
            assert all(each > batch for each in waiting)
            self.queue.acknowledged(batch)
        assert not self.open or self.open[0] in waiting

    @invariant()
    def nothing_is_lost_or_reordered(self) -> None:
        for table, expected in self.waits.items():
            if expected:
                found = [(batch, one) for batch, entries in self.queue.load(table).items() for one in entries]
                assert found == expected
        assert self.queue.is_empty() == (not self.open)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=examples(30), stateful_step_count=40, deadline=None)
