"""Any sequence of calls and restarts leaves the ledger where a plain list says it should be."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from calve.errors import OvertakenError
from calve.ledger.ledger import Ledger
from calve.observe.totals import Totals
from calve.record.staged import StagedBatch
from calve.sources.source import Planned, Split
from calve.state.store_folder import StoreFolder
from kit.takeover import taken_over


def record(batch: int) -> StagedBatch:
    return StagedBatch(batch, {"at": batch}, [], events=batch, bytes=1, unrouted=0)


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = self.new_root()
        self.ledger = Ledger.open(self.root / "ledger", "shop")
        self.begun, self.staged, self.committed = 0, 0, 0

    @rule()
    def begin(self) -> None:
        self.begun += 1
        self.ledger.begin(self.begun, Planned([Split({"n": self.begun})], {"at": self.begun}))

    @precondition(lambda self: self.staged < self.begun)
    @rule()
    def stage(self) -> None:
        self.staged += 1
        self.ledger.stage(self.staged, record(self.staged))

    @precondition(lambda self: self.committed < self.staged)
    @rule()
    def commit(self) -> None:
        self.committed = self.staged
        self.ledger.set_committed(self.committed, Totals(events=self.committed))

    @rule()
    def restart(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.root / "ledger", "shop")

    @invariant()
    def it_is_where_the_list_says(self) -> None:
        assert self.ledger.committed.batch == self.ledger.committed.totals.events == self.committed
        assert self.ledger.position == ({"at": self.begun} if self.begun else None)
        assert (self.ledger.last_batch, self.ledger.last_staged) == (self.begun, self.staged)
        expected = [(n, record(n) if n <= self.staged else None) for n in range(self.committed + 1, self.begun + 1)]
        assert [(one.batch, one.staged) for one in self.ledger.pending()] == expected

    def new_root(self) -> Path | StoreFolder:
        return Path(tempfile.mkdtemp())

    def teardown(self) -> None:
        self.ledger.close()
        if isinstance(self.root, Path):
            shutil.rmtree(self.root)


class StoreLedgerMachine(LedgerMachine):
    """The same on an object store; besides, another driver takes over, and the former one writes late."""

    def new_root(self) -> StoreFolder:
        return StoreFolder(f"memory://random/{uuid.uuid4().hex}")

    @rule()
    def take_over(self) -> None:
        late, self.ledger = self.ledger, taken_over(self.ledger)
        if self.staged < self.begun:
            with pytest.raises(OvertakenError):
                late.stage(self.staged + 1, record(99))
        elif self.committed < self.staged:
            with pytest.raises(OvertakenError):
                late.set_committed(self.staged, Totals(events=99))
        else:
            with pytest.raises(OvertakenError):
                late.begin(self.begun + 1, Planned([], {"at": 99}))
        late.close()


for machine in (LedgerMachine, StoreLedgerMachine):
    machine.TestCase.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
TestLedger = LedgerMachine.TestCase
TestStoreLedger = StoreLedgerMachine.TestCase
