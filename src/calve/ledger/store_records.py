"""Keeps a ledger's records on an object store, which a lease gives to one driver.

    ledger/
    ├── head.json                          identity, lease, and the names of the valid records; changed by swaps only
    ├── 000000000012.begun.3-7.json        the plan of batch 12, the 7th record of epoch 3
    ├── 000000000012.staged.3-8.json       its receipts
    └── committed.3-9.json                 the last committed batch, its position, the totals

A record is written once, under a name of its own, before the head names it. One that no head names does not count.
"""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from msgspec.structs import replace

from calve.errors import InvariantError, SettingsError, WriteError
from calve.ledger.lease import HEAD, Lease, LedgerHead, WaitPolicy, head_of
from calve.ledger.records import Committed, Kept, LedgerIdentity, check_complete, read_plan, read_record
from calve.record.staged import StagedBatch
from calve.state.folder import StateFolder
from calve.state.values import encoded
from calve.stop_point import stop_at

__all__ = ["StoreRecords"]


class StoreRecords:
    """The records of a ledger on an object store, open for its only driver.

    Args:
        folder: The ledger's folder.
        pipeline: The pipeline's name.
        waiting: How to wait for a lease of another driver.

    Raises:
        SettingsError: It may not be opened.
        OvertakenError: Another driver holds it.
        WriteError: The store does not answer.
    """

    def __init__(self, folder: StateFolder, pipeline: str, waiting: WaitPolicy | None = None) -> None:
        self._folder = folder
        self._lease = Lease.acquire(folder, pipeline, waiting)
        self._numbers = itertools.count(1)

    @property
    def identity(self) -> LedgerIdentity:
        """Whose ledger it is."""
        return self._lease.head.identity

    @staticmethod
    def install(folder: StateFolder, identity: LedgerIdentity, committed: Committed, kept: Mapping[int, Kept]) -> None:
        """Write a ledger that continues another one; it appears at once.

        Raises:
            SettingsError: There is a ledger.
            WriteError: The store does not answer; repeat the call.
        """
        folder.check_conditions()
        run = uuid.uuid4().hex[:8]
        names: dict[int, tuple[str, str]] = {}
        for batch, records in kept.items():
            begun, staged = f"{batch:012}.begun.{run}.json", f"{batch:012}.staged.{run}.json" if records.staged else ""
            names[batch] = (begun, staged)
            folder.put(begun, encoded(asdict(records.planned)))
            if records.staged:
                folder.put(staged, encoded(records.staged))
        folder.put(f"committed.{run}.json", encoded(committed))
        head = LedgerHead(identity, epoch=0, committed=f"committed.{run}.json", records=names)
        if folder.create(HEAD, encoded(head)) is None:
            raise SettingsError(
                f"{folder} exists: there is a state of the pipeline {identity.pipeline}",
                step="start",
                target=str(folder),
                hint="Choose another location, or remove that state first",
            )

    @staticmethod
    def open(folder: StateFolder, pipeline: str, waiting: WaitPolicy | None = None) -> StoreRecords:
        """Open the records of a ledger, as soon as its lease is free."""
        return StoreRecords(folder, pipeline, waiting)

    @staticmethod
    def last_batch(folder: StateFolder) -> int:
        """Return the last batch that a ledger has, 0 for none; takes no lease.

        Raises:
            WriteError: The store does not answer.
        """
        _, head = head_of(folder)
        if head is None:
            return 0
        return max(head.records) if head.records else _committed(folder, head).batch

    def committed(self) -> Committed:
        """Return the last committed progress."""
        return _committed(self._folder, self._lease.head)

    def recover(self) -> dict[int, Kept]:
        """Return the batches that the head names, and remove the records that it does not name."""
        head, done = self._lease.head, self.committed().batch
        check_complete(head.records, done, self._folder)
        valid = {HEAD, head.committed, *itertools.chain.from_iterable(head.records.values())}
        self._folder.remove(name for name in self._folder.names() if name not in valid)
        return {
            batch: Kept(
                read_plan(self._folder, begun), read_record(self._folder, staged, StagedBatch) if staged else None
            )
            for batch, (begun, staged) in head.records.items()
        }

    def begin(self, batch: int, plan: dict[str, Any]) -> None:
        """Keep the plan of a new batch."""
        name = self._put(f"{batch:012}.begun", plan)
        self._change({batch: (name, "")})

    def stage(self, batch: int, record: StagedBatch, replaces: bool) -> None:
        """Keep a batch's staged record."""
        begun, old = self._lease.head.records[batch]
        if old and not replaces:
            raise InvariantError(f"Batch {batch} is already staged", step="ledger", target=str(self._folder))
        self._change({batch: (begun, self._put(f"{batch:012}.staged", record))})
        self._remove([old])

    def set_committed(self, committed: Committed, dropped: Sequence[int]) -> None:
        """Replace the committed progress, and drop the records of the batches that it covers."""
        head = self._lease.head
        old = [head.committed, *itertools.chain.from_iterable(head.records.get(batch, ()) for batch in dropped)]
        name = self._put("committed", committed)
        self._lease.update(
            lambda head: replace(
                head,
                committed=name,
                records={batch: names for batch, names in head.records.items() if batch not in dropped},
            )
        )
        stop_at("ledger.after-committed")
        self._remove(old)

    def set_moved(self, location: str) -> None:
        """Record that a copy replaces this ledger."""
        self._lease.update(lambda head: replace(head, identity=replace(head.identity, moved=location)))

    def set_source(self, source: str) -> None:
        """Record the kind of source that later positions are of."""
        self._lease.update(lambda head: replace(head, identity=replace(head.identity, source=source)))

    def check(self) -> None:
        """Raise OvertakenError if it is known that another driver has the lease."""
        self._lease.check()

    def confirm(self, since: float) -> None:
        """Raise OvertakenError unless it is certain that this driver had the lease at `since`."""
        self._lease.confirm(since)

    def close(self) -> None:
        """Release the lease. May be called twice."""
        self._lease.release()

    def _change(self, names: dict[int, tuple[str, str]]) -> None:
        self._lease.update(lambda head: replace(head, records={**head.records, **names}))

    def _put(self, prefix: str, value: Any) -> str:
        """Write a record, which counts as soon as the head names it; return its name, which no other record has."""
        self._lease.check()
        name, content = f"{prefix}.{self._lease.head.epoch}-{next(self._numbers)}.json", encoded(value)
        if self._folder.create(name, content) is None:
            stored = self._folder.get(name)
            if stored is None or stored.content != content:  # else the answer to the first attempt was lost
                problem = f"{self._folder}/{name} exists with another content"
                hint = "Bring the missing objects back from a backup"
                raise InvariantError(problem, step="ledger", target=str(self._folder), hint=hint)
        return name

    def _remove(self, names: Iterable[str]) -> None:
        """Remove records that no head names; what a crash leaves of them goes at the next start."""
        with contextlib.suppress(WriteError):
            self._folder.remove(name for name in names if name)


def _committed(folder: StateFolder, head: LedgerHead) -> Committed:
    return read_record(folder, head.committed, Committed) if head.committed else Committed()
