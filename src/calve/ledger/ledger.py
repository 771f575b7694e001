"""The only memory of a pipeline's progress: what was begun, staged and committed.

    ledger/
    ├── identity.json             format, state id, pipeline; written once
    ├── lock                      held by the one driver
    ├── 000000000012.begun.json   the splits of batch 12 and the position after them, before it runs
    ├── 000000000012.staged.json  its receipts: from here on it can only be committed, never written anew
    ├── 000000000012.staged-1.json  replaces it after a commit failed because of some events, which are left out
    └── committed.json            the last committed batch, its position, the totals

Records are written atomically, forced to disk before the call returns, and never change. Batches count from 1 without
gaps and are committed in order; the records of committed batches are removed.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from calve import durable
from calve.errors import InvariantError, SettingsError
from calve.ledger.lock import DriverLock
from calve.observe.totals import Totals
from calve.record.staged import StagedBatch
from calve.sources.source import Planned, Position, Split
from calve.stop_point import reach

__all__ = ["FORMAT", "Committed", "Ledger", "Pending"]

FORMAT = 1
"""The version of the files; Calve refuses a ledger of a later version."""

_RECORD = re.compile(r"(\d{12})\.(begun|staged)(?:-(\d+))?\.json")


class Committed(msgspec.Struct, frozen=True):
    """The progress that all tables of the pipeline have reached.

    Attributes:
        batch: The last committed batch, 0 for none.
        position: The source's position after it.
        totals: The pipeline's counts since its first start.
        moment: The batch's `Planned.moment`.
    """

    batch: int = 0
    position: Position | None = None
    totals: Totals = msgspec.field(default_factory=Totals)
    moment: int = 0


class _Identity(msgspec.Struct, frozen=True):
    """Whose ledger it is, as the file says that is written first."""

    format: int
    state: str
    pipeline: str
    created: str = ""

    @staticmethod
    def of(state_id: str, pipeline: str) -> _Identity:
        return _Identity(FORMAT, state_id, pipeline, datetime.now(UTC).isoformat(timespec="seconds"))


@dataclass(frozen=True)
class Pending:
    """A batch that was begun and is not committed; `staged` is None while it may still be rewritten."""

    batch: int
    planned: Planned
    staged: StagedBatch | None


class Ledger:
    """The open ledger of one pipeline; for the pipeline's thread and its committer's.

    Attributes:
        folder: Its folder.
        pipeline: The pipeline's name.
        state_id: The identity of this state, for the fence.
    """

    def __init__(self, folder: Path, pipeline: str, state_id: str, lock: DriverLock) -> None:
        self.folder = folder
        self.pipeline = pipeline
        self.state_id = state_id
        self._lock = lock
        self._mutex = threading.Lock()
        self._committed = _read_committed(folder)
        self._pending = self._recover()

    @classmethod
    def open(cls, folder: Path | str, pipeline: str = "") -> Ledger:
        """Open or create a ledger, as its only driver.

        Args:
            folder: The ledger's folder; created when missing.
            pipeline: The pipeline's name; by default the name of the folder above.

        Raises:
            SettingsError: The folder is not local, or belongs to another pipeline or a later version.
            OvertakenError: Another driver holds it.
            WriteError: The folder cannot be written.
        """
        if "://" in str(folder):
            raise SettingsError(
                f"The state cannot live at {folder}: this version keeps it in a local folder only",
                step="start",
                target=str(folder),
                hint="Give `--state` a path on a local or mounted disk",
            )
        folder = Path(folder).absolute()
        durable.make_folder(folder)
        lock = DriverLock(folder / "lock")
        try:
            identity = _identity(folder, pipeline or folder.parent.name)
            return cls(folder, identity.pipeline, identity.state, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def create(cls, folder: Path, pipeline: str, state_id: str, committed: Committed) -> Ledger:
        """Create a ledger that continues after a batch, to replace a lost one.

        Args:
            folder: Its folder, which does not exist yet.
            pipeline: The pipeline's name.
            state_id: The identity in the marks of the pipeline's tables.
            committed: The last batch that all tables contain.

        Raises:
            WriteError: The folder cannot be written.
        """
        durable.make_folder(folder)
        durable.replace(folder / "identity.json", _Identity.of(state_id, pipeline))
        durable.replace(folder / "committed.json", committed)
        return cls.open(folder, pipeline)

    def close(self) -> None:
        """Release the lock for the next driver. May be called twice."""
        self._lock.release()

    @property
    def committed(self) -> Committed:
        """The last committed batch."""
        return self._committed

    @property
    def last_batch(self) -> int:
        """The last batch that was begun."""
        with self._mutex:
            return max(self._pending, default=self._committed.batch)

    @property
    def last_staged(self) -> int:
        """The last batch that a table may have."""
        with self._mutex:
            staged = [batch for batch, pending in self._pending.items() if pending.staged is not None]
            return max(staged, default=self._committed.batch)

    @property
    def position(self) -> Position | None:
        """The position after the last batch that was begun; None if there was none."""
        with self._mutex:
            last = max(self._pending, default=None)
            return self._committed.position if last is None else self._pending[last].planned.position

    def pending(self) -> list[Pending]:
        """Return the batches that were begun and are not committed, in order."""
        with self._mutex:
            return [self._pending[batch] for batch in sorted(self._pending)]

    def begun(self, batch: int) -> Planned | None:
        """Return the plan of an uncommitted batch, or None if it was never begun."""
        with self._mutex:
            found = self._pending.get(batch)
            return found.planned if found else None

    def staged(self, batch: int) -> StagedBatch | None:
        """Return the staged record of an uncommitted batch, or None."""
        with self._mutex:
            found = self._pending.get(batch)
            return found.staged if found else None

    def begin(self, batch: int, planned: Planned) -> None:
        """Record the splits and the time of a batch before it runs: a replay reads exactly the same events.

        Raises:
            InvariantError: It is not the next batch.
            WriteError: The disk refused; nothing was recorded, and the call may be repeated.
        """
        if batch != self.last_batch + 1:
            raise InvariantError(f"Batch {batch} cannot follow batch {self.last_batch}", step="ledger")
        reach("ledger.before-begin")
        planned = replace(planned, moment=self._next_moment())
        self._publish(batch, "begun", asdict(planned))
        reach("ledger.after-begin")
        with self._mutex:
            self._pending[batch] = Pending(batch, planned, None)

    def stage(self, batch: int, record: StagedBatch) -> None:
        """Record the receipts of a begun batch, which makes it durable.

        Raises:
            InvariantError: It was not begun, or it is staged already.
            WriteError: The disk refused; nothing was recorded, and the call may be repeated.
        """
        planned = self.begun(batch)
        if planned is None:
            raise InvariantError(f"Batch {batch} was never begun", step="ledger")
        reach("ledger.before-stage")
        self._publish(batch, "staged", record)
        reach("ledger.after-stage")
        with self._mutex:
            self._pending[batch] = Pending(batch, planned, record)

    def stage_again(self, batch: int, record: StagedBatch) -> None:
        """Replace the receipts of a staged batch whose files were rewritten without the events that failed the commit.

        Files that a table already has must be in the new record unchanged.

        Raises:
            InvariantError: The batch is not staged.
            WriteError: The disk refused; the old record stays valid, and the call may be repeated.
        """
        with self._mutex:
            found = self._pending.get(batch)
            if found is None or found.staged is None:
                raise InvariantError(f"Batch {batch} is not staged", step="ledger")
            self._publish(batch, f"staged-{self._versions(batch) + 1}", record)
            reach("ledger.after-stage-again")
            self._pending[batch] = Pending(batch, found.planned, record)

    def set_committed(self, batch: int, totals: Totals) -> None:
        """Record that every table has all batches up to this one, and remove the records of these batches.

        Raises:
            InvariantError: The batch is not staged.
            WriteError: The disk refused; the batch is still pending, and the call may be repeated.
        """
        with self._mutex:
            found = self._pending.get(batch)
            if found is None or found.staged is None:
                raise InvariantError(f"Batch {batch} is not staged", step="ledger")
            committed = Committed(batch, found.planned.position, totals, found.planned.moment)
            reach("ledger.before-committed")
            durable.replace(self.folder / "committed.json", committed)
            reach("ledger.after-committed")
            self._committed = committed
            for old in [old for old in self._pending if old <= batch]:
                del self._pending[old]
                self._remove_records(old)

    def _next_moment(self) -> int:
        """Return the time, but at least a tenth of a second after the last batch: clocks may go backwards."""
        with self._mutex:
            moments = [self._committed.moment, *(one.planned.moment for one in self._pending.values())]
        return max(int(time.time() * 10), max(moments) + 1)

    def _publish(self, batch: int, kind: str, value: object) -> None:
        file = self._file(batch, kind)
        if not durable.publish(file, value):
            raise InvariantError(f"Batch {batch} is already {kind}", step="ledger", target=str(file))

    def _file(self, batch: int, kind: str) -> Path:
        return self.folder / f"{batch:012}.{kind}.json"

    def _remove_records(self, batch: int) -> None:
        """Only for batches that `committed.json` covers; what a crash leaves of them goes at the next start."""
        durable.remove(self._file(batch, "begun"))
        durable.remove(self._file(batch, "staged"))
        for version in range(1, self._versions(batch) + 1):
            durable.remove(self._file(batch, f"staged-{version}"))

    def _versions(self, batch: int) -> int:
        """Return how often a batch was staged again."""
        found = (_RECORD.fullmatch(file.name) for file in self.folder.glob(f"{batch:012}.staged-*.json"))
        return max((int(one.group(3)) for one in found if one), default=0)

    def _recover(self) -> dict[int, Pending]:
        """Read the records behind the last committed batch; older and unpublished ones were left by a crash and go."""
        for unpublished in self.folder.glob(".*"):
            durable.remove(unpublished)
        batches = {int(found.group(1)) for file in self.folder.iterdir() if (found := _RECORD.fullmatch(file.name))}
        for old in [batch for batch in batches if batch <= self._committed.batch]:
            self._remove_records(old)
            batches.remove(old)
        if sorted(batches) != list(range(self._committed.batch + 1, self._committed.batch + len(batches) + 1)):
            raise InvariantError(
                f"{self.folder} has batches {sorted(batches)} after batch {self._committed.batch}: one is missing",
                step="ledger",
                target=str(self.folder),
                hint="Bring the missing files back from a backup",
            )
        return {batch: self._read_pending(batch) for batch in batches}

    def _read_pending(self, batch: int) -> Pending:
        plan = durable.read(self._file(batch, "begun"))
        if plan is None:
            raise InvariantError(f"{self._file(batch, 'begun')} is missing", step="ledger", target=str(self.folder))
        splits = [Split(**split) for split in plan["splits"]]
        planned = Planned(splits, plan["position"], tuple(plan.get("waiting", ())), plan.get("moment", 0))
        version = self._versions(batch)
        staged = self._file(batch, f"staged-{version}" if version else "staged")
        return Pending(batch, planned, durable.read_as(staged, StagedBatch))


def _read_committed(folder: Path) -> Committed:
    return durable.read_as(folder / "committed.json", Committed) or Committed()


def _identity(folder: Path, pipeline: str) -> _Identity:
    """Read who this ledger belongs to; the first time, decide it."""
    file = folder / "identity.json"
    durable.publish(file, _Identity.of(str(uuid.uuid4()), pipeline))
    identity = durable.read_as(file, _Identity)
    assert identity is not None
    if identity.format > FORMAT:
        raise SettingsError(
            f"{folder} was written by a later version of Calve (format {identity.format}, this one knows {FORMAT})",
            step="start",
            target=str(folder),
            hint="Upgrade Calve",
        )
    if identity.pipeline != pipeline:
        raise SettingsError(
            f"{folder} is the state of the pipeline {identity.pipeline!r}, not of {pipeline!r}",
            step="start",
            target=str(folder),
            hint="Give this pipeline another `--state`, or its old name back",
        )
    return identity
