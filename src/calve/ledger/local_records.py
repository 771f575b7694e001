"""Keeps a ledger's records in a local folder, which a file lock gives to one driver.

    ledger/
    ├── identity.json             format, state id, pipeline, kind of source
    ├── lock                      held by the one driver
    ├── 000000000012.begun.json   the splits of batch 12 and the position after them, before it runs
    ├── 000000000012.staged.json  its receipts: from here on it can only be committed, never written again
    ├── 000000000012.staged-1.json  replaces it after a commit failed because of some events, which are left out
    └── committed.json            the last committed batch, its position, the totals

Records are written atomically, forced to disk before the call returns, and never change. The records of committed
batches are removed.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from calve.errors import InvariantError, OvertakenError
from calve.ledger.lease import WaitPolicy
from calve.ledger.lock import DriverLock
from calve.ledger.records import (
    Committed,
    Kept,
    LedgerIdentity,
    check_complete,
    check_identity,
    read_plan,
    read_record,
)
from calve.record.staged import StagedBatch
from calve.state import durable
from calve.state.folder import StateFolder
from calve.state.values import encoded, read_as
from calve.stop_point import stop_at

__all__ = ["LocalRecords"]

_RECORD = re.compile(r"(\d{12})\.(begun|staged)(?:-(\d+))?\.json")
_IDENTITY = "identity.json"
_COMMITTED = "committed.json"
_POLL_SECONDS = 0.2


class LocalRecords:
    """The records of a local ledger, open for its only driver.

    Every write is durable when it returns. It raises WriteError if nothing was recorded and it may be repeated.

    Args:
        folder: The ledger's folder; created when missing.
        pipeline: The pipeline's name.

    Raises:
        SettingsError: It may not be opened.
        OvertakenError: Another driver holds it.
        WriteError: The folder cannot be written.
    """

    def __init__(self, folder: StateFolder, pipeline: str) -> None:
        self._folder = folder
        path = Path(folder.location)
        durable.make_folder(path)
        self._lock = DriverLock(path / "lock")
        try:
            folder.create(_IDENTITY, encoded(LedgerIdentity.of(str(uuid.uuid4()), pipeline)))
            self.identity = read_record(folder, _IDENTITY, LedgerIdentity)
            check_identity(self.identity, pipeline, str(folder))
        except BaseException:
            self._lock.release()
            raise

    @staticmethod
    def open(folder: StateFolder, pipeline: str, waiting: WaitPolicy | None = None) -> LocalRecords:
        """Open the records of a ledger; a standby waits until the lock is free."""
        is_waiting = False
        while True:
            try:
                return LocalRecords(folder, pipeline)
            except OvertakenError as error:
                if waiting is None or not waiting.standby or waiting.stop.is_set():
                    raise
                if not is_waiting:
                    waiting.log_wait(error.message.partition("pipeline")[2])
                is_waiting = True
                waiting.stop.wait(_POLL_SECONDS)

    @staticmethod
    def install(folder: StateFolder, identity: LedgerIdentity, committed: Committed, kept: Mapping[int, Kept]) -> None:
        """Write a ledger that continues another one; it appears at once.

        Raises:
            WriteError: The folder cannot be written.
        """
        new = folder.parent / f"{folder.name}.new"
        new.clear()
        new.put(_IDENTITY, encoded(identity))
        new.put(_COMMITTED, encoded(committed))
        for batch, records in kept.items():
            new.put(_name(batch, "begun"), encoded(asdict(records.planned)))
            if records.staged:
                new.put(_name(batch, "staged"), encoded(records.staged))
        path = Path(folder.location)
        Path(new.location).rename(path)
        durable.sync(path.parent)

    def committed(self) -> Committed:
        """Return the last committed progress."""
        return read_as(self._folder, _COMMITTED, Committed) or Committed()

    def recover(self) -> dict[int, Kept]:
        """Read the records after the last committed batch; older and unpublished ones were left by a crash and go."""
        for unpublished in Path(self._folder.location).glob(".*"):
            durable.remove(unpublished)
        done = self.committed().batch
        names = map(_RECORD.fullmatch, self._folder.names())
        batches = {int(match[1]) for match in names if match}
        for old in [batch for batch in batches if batch <= done]:
            self._remove(old)
            batches.remove(old)
        check_complete(batches, done, self._folder)
        return {batch: self._read(batch) for batch in batches}

    def begin(self, batch: int, plan: dict[str, Any]) -> None:
        """Keep the plan of a new batch."""
        self._create(batch, "begun", plan)

    def stage(self, batch: int, record: StagedBatch, replaces: bool) -> None:
        """Keep a batch's staged record; `replaces`: instead of an older one."""
        self._create(batch, f"staged-{self._versions(batch) + 1}" if replaces else "staged", record)

    def set_committed(self, committed: Committed, dropped: Sequence[int]) -> None:
        """Replace the committed progress, and drop the records of the batches that it covers."""
        self._folder.put(_COMMITTED, encoded(committed))
        stop_at("ledger.after-committed")
        for batch in dropped:
            self._remove(batch)

    def set_moved(self, location: str) -> None:
        """Record that a copy replaces this ledger."""
        self._folder.put(_IDENTITY, encoded(replace(self.identity, moved=location)))

    def set_source(self, source: str) -> None:
        """Record the kind of source that later positions are of."""
        self.identity = replace(self.identity, source=source)
        self._folder.put(_IDENTITY, encoded(self.identity))

    def check(self) -> None:
        """Do nothing: the file lock cannot be lost."""

    def confirm(self, since: float) -> None:
        """Do nothing: the file lock cannot be lost."""

    def close(self) -> None:
        """Release the lock for the next driver. May be called twice."""
        self._lock.release()

    def _create(self, batch: int, kind: str, value: object) -> None:
        name = _name(batch, kind)
        if self._folder.create(name, encoded(value)) is None:
            raise InvariantError(f"Batch {batch} is already {kind}", step="ledger", target=f"{self._folder}/{name}")

    def _remove(self, batch: int) -> None:
        """Only for batches that `committed.json` covers; what a crash leaves of them goes at the next start."""
        versions = (f"staged-{version}" for version in range(1, self._versions(batch) + 1))
        self._folder.remove(_name(batch, kind) for kind in ("begun", "staged", *versions))

    def _versions(self, batch: int) -> int:
        """Return how often a batch was staged again."""
        prefix = f"{batch:012}.staged-"
        names = (_RECORD.fullmatch(name) for name in self._folder.names() if name.startswith(prefix))
        return max((int(match[3]) for match in names if match), default=0)

    def _read(self, batch: int) -> Kept:
        version = self._versions(batch)
        staged = _name(batch, f"staged-{version}" if version else "staged")
        return Kept(read_plan(self._folder, _name(batch, "begun")), read_as(self._folder, staged, StagedBatch))


def _name(batch: int, kind: str) -> str:
    return f"{batch:012}.{kind}.json"
