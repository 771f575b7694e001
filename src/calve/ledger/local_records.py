"""Keeps a ledger's records in a local folder, which a file lock gives to one driver.

    ledger/
    ├── identity.json             format, state id, pipeline, kind of source
    ├── lock                      held by the one driver
    ├── 000000000012.begun.json   the splits of batch 12 and the position after them, before it runs
    ├── 000000000012.staged.json  its receipts: from here on it can only be committed, never written anew
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

from calve import durable
from calve.errors import InvariantError
from calve.ledger.lock import DriverLock
from calve.ledger.records import Committed, Identity, Kept, check_identity, plan_of
from calve.record.staged import StagedBatch
from calve.stop_point import reach

__all__ = ["LocalRecords"]

_RECORD = re.compile(r"(\d{12})\.(begun|staged)(?:-(\d+))?\.json")
_IDENTITY = "identity.json"
_COMMITTED = "committed.json"


class LocalRecords:
    """The records of a local ledger, open for its only driver.

    Args:
        folder: The ledger's folder; created when missing.
        pipeline: The pipeline's name.

    Raises:
        SettingsError: It may not be opened.
        OvertakenError: Another driver holds it.
        WriteError: The folder cannot be written.
    """

    def __init__(self, folder: Path, pipeline: str) -> None:
        self._folder = folder
        durable.make_folder(folder)
        self._lock = DriverLock(folder / "lock")
        try:
            self.identity = self._identify(pipeline)
        except BaseException:
            self._lock.release()
            raise

    @staticmethod
    def install(folder: Path, identity: Identity, committed: Committed, kept: Mapping[int, Kept]) -> None:
        """Write the first records of a ledger that continues another one.

        Raises:
            WriteError: The folder cannot be written.
        """
        durable.make_folder(folder)
        durable.replace(folder / _IDENTITY, identity)
        durable.replace(folder / _COMMITTED, committed)
        for batch, one in kept.items():
            durable.replace(folder / f"{batch:012}.begun.json", asdict(one.planned))
            if one.staged:
                durable.replace(folder / f"{batch:012}.staged.json", one.staged)

    def committed(self) -> Committed:
        """Return the last committed progress."""
        return durable.read_as(self._folder / _COMMITTED, Committed) or Committed()

    def recover(self) -> dict[int, Kept]:
        """Read the records after the last committed batch; older and unpublished ones were left by a crash and go."""
        for unpublished in self._folder.glob(".*"):
            durable.remove(unpublished)
        done = self.committed().batch
        batches = {int(found.group(1)) for file in self._folder.iterdir() if (found := _RECORD.fullmatch(file.name))}
        for old in [batch for batch in batches if batch <= done]:
            self._remove(old)
            batches.remove(old)
        if sorted(batches) != list(range(done + 1, done + len(batches) + 1)):
            raise InvariantError(
                f"{self._folder} has batches {sorted(batches)} after batch {done}: one is missing",
                step="ledger",
                target=str(self._folder),
                hint="Bring the missing files back from a backup",
            )
        return {batch: self._read(batch) for batch in batches}

    def begin(self, batch: int, plan: dict[str, Any]) -> None:
        """Keep the plan of a new batch."""
        self._publish(batch, "begun", plan)

    def stage(self, batch: int, record: StagedBatch, replaces: bool) -> None:
        """Keep a batch's staged record."""
        self._publish(batch, f"staged-{self._versions(batch) + 1}" if replaces else "staged", record)

    def set_committed(self, committed: Committed, dropped: Sequence[int]) -> None:
        """Replace the committed progress, and drop the records of the batches that it covers."""
        durable.replace(self._folder / _COMMITTED, committed)
        reach("ledger.after-committed")
        for batch in dropped:
            self._remove(batch)

    def set_moved(self, location: str) -> None:
        """Record that a copy replaces this ledger."""
        durable.replace(self._folder / _IDENTITY, replace(self.identity, moved=location))

    def set_source(self, source: str) -> None:
        """Record the kind of source that later positions are of."""
        self.identity = replace(self.identity, source=source)
        durable.replace(self._folder / _IDENTITY, self.identity)

    def check(self) -> None:
        """Do nothing: the file lock cannot be lost."""

    def confirm(self, since: float) -> None:
        """Do nothing: the file lock cannot be lost."""

    def close(self) -> None:
        """Release the lock for the next driver. May be called twice."""
        self._lock.release()

    def _identify(self, pipeline: str) -> Identity:
        """Read who this ledger belongs to; the first time, decide it."""
        file = self._folder / _IDENTITY
        durable.publish(file, Identity.of(str(uuid.uuid4()), pipeline))
        identity = durable.read_as(file, Identity)
        assert identity is not None
        check_identity(identity, pipeline, str(self._folder))
        return identity

    def _publish(self, batch: int, kind: str, value: object) -> None:
        file = self._file(batch, kind)
        if not durable.publish(file, value):
            raise InvariantError(f"Batch {batch} is already {kind}", step="ledger", target=str(file))

    def _file(self, batch: int, kind: str) -> Path:
        return self._folder / f"{batch:012}.{kind}.json"

    def _remove(self, batch: int) -> None:
        """Only for batches that `committed.json` covers; what a crash leaves of them goes at the next start."""
        durable.remove(self._file(batch, "begun"))
        durable.remove(self._file(batch, "staged"))
        for version in range(1, self._versions(batch) + 1):
            durable.remove(self._file(batch, f"staged-{version}"))

    def _versions(self, batch: int) -> int:
        """Return how often a batch was staged again."""
        found = (_RECORD.fullmatch(file.name) for file in self._folder.glob(f"{batch:012}.staged-*.json"))
        return max((int(one.group(3)) for one in found if one), default=0)

    def _read(self, batch: int) -> Kept:
        plan = durable.read(self._file(batch, "begun"))
        if plan is None:
            raise InvariantError(f"{self._file(batch, 'begun')} is missing", step="ledger", target=str(self._folder))
        version = self._versions(batch)
        staged = self._file(batch, f"staged-{version}" if version else "staged")
        return Kept(plan_of(plan), durable.read_as(staged, StagedBatch))
