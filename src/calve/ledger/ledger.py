"""The only memory of a pipeline's progress: what was begun, staged and committed.

Its records are kept in a local folder (`local_records`) or on an object store (`store_records`). Each is written before
the call returns, and never changes. Batches count from 1 without gaps and are committed in order; the records of
committed batches are removed.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from calve.errors import CalveError, InvariantError, OvertakenError
from calve.ledger.lease import WaitPolicy
from calve.ledger.local_records import LocalRecords
from calve.ledger.records import FORMAT, Committed, Kept, LedgerIdentity, check_source
from calve.ledger.store_records import StoreRecords
from calve.observe.totals import Totals
from calve.record.key_file import KeyFile
from calve.record.staged import StagedBatch
from calve.sources.source import Planned, Position
from calve.state.folder import StateFolder
from calve.state.local_folder import LocalFolder
from calve.state.location import state_folder_at
from calve.stop_point import stop_at

__all__ = ["FORMAT", "Committed", "Ledger", "Pending", "WaitPolicy", "last_batch_of", "under_construction"]


@dataclass(frozen=True)
class Pending:
    """A batch that was begun and is not committed; `staged` is None while it may still be rewritten."""

    batch: int
    planned: Planned
    staged: StagedBatch | None


class Ledger:
    """The open ledger of one pipeline; for the pipeline's thread and its committer's.

    Args:
        folder: Its folder.
        records: Its records.

    Attributes:
        folder: Its folder.
        pipeline: The pipeline's name.
        state_id: The identity of this state, for the fence.
    """

    def __init__(self, folder: StateFolder, records: LocalRecords | StoreRecords) -> None:
        self.folder = folder
        self.pipeline = records.identity.pipeline
        self.state_id = records.identity.state
        self._records = records
        self._mutex = threading.Lock()
        self._committed = records.committed()
        self._pending = {batch: Pending(batch, kept.planned, kept.staged) for batch, kept in records.recover().items()}

    @classmethod
    def open(cls, folder: StateFolder | Path | str, pipeline: str = "", waiting: WaitPolicy | None = None) -> Ledger:
        """Open or create a ledger, as its only driver.

        Args:
            folder: The ledger's folder, local or on an object store; created when missing.
            pipeline: The pipeline's name; by default the name of the folder above.
            waiting: How to wait for another driver. By default a local ledger is refused at once, and one on an object
                store as soon as it is clear that the other driver still runs.

        Raises:
            SettingsError: The folder belongs to another pipeline or a later version.
            OvertakenError: Another driver holds it.
            WriteError: The folder cannot be written.
        """
        if isinstance(folder, str | Path):
            folder = state_folder_at(folder)
        folder = folder.absolute()
        records = _records_at(folder).open(folder, pipeline or folder.parent.name, waiting)
        try:
            return cls(folder, records)
        except BaseException:
            records.close()
            raise

    @staticmethod
    def create(folder: StateFolder, pipeline: str, state_id: str, committed: Committed) -> Ledger:
        """Create a ledger that continues after a batch, to replace a lost one.

        Args:
            folder: Its folder, which does not exist yet.
            pipeline: The pipeline's name.
            state_id: The identity in the marks of the pipeline's tables.
            committed: The last batch that all tables contain.

        Raises:
            WriteError: The folder cannot be written.
        """
        _records_at(folder).install(folder, LedgerIdentity.of(state_id, pipeline), committed, {})
        return Ledger.open(folder, pipeline)

    def copy_to(self, folder: StateFolder) -> None:
        """Copy everything to a new ledger, which appears at once.

        Raises:
            SettingsError: There is one.
            WriteError: It cannot be written; repeat the call.
        """
        identity = LedgerIdentity.of(self.state_id, self.pipeline)
        kept = {pending.batch: Kept(pending.planned, pending.staged) for pending in self.pending()}
        _records_at(folder).install(folder, identity, self._committed, kept)

    def set_moved(self, location: str) -> None:
        """Record that a copy replaces this ledger: no driver opens it again.

        Raises:
            WriteError: It cannot be written; repeat the call.
        """
        self._records.set_moved(location)

    def continue_with(self, source: str) -> None:
        """Check that a kind of source can go on from the position, and record that it does; may be repeated.

        Raises:
            SettingsError: Another kind of source has read or accepted events, whose position means nothing to this one.
            WriteError: It cannot be recorded; repeat the call.
        """
        before = self._records.identity.source
        if before == source:
            return
        if self.position is not None or (before and (self.folder.parent / before).exists()):
            check_source(self._records.identity, source, bool(self.pending()), str(self.folder.parent))
        self._records.set_source(source)

    def check(self) -> None:
        """Check that no other driver is known to own the ledger; costs nothing.

        Raises:
            OvertakenError: One does, so this one must stop.
        """
        self._records.check()

    def confirm(self, since: float) -> None:
        """Check that this driver still owned the ledger at a time; on an object store this may cost a write.

        Args:
            since: Monotonic seconds.

        Raises:
            OvertakenError: Another driver owns it, so this one must stop.
            WriteError: The store does not answer.
        """
        self._records.confirm(since)

    @contextlib.contextmanager
    def takeover_explains(self) -> Iterator[None]:
        """Ensure that a driver which was replaced ends with that reason: its successor removes what it still reads.

        Raises:
            OvertakenError: The block failed, and another driver owns the ledger.
        """
        try:
            yield
        except CalveError as error:
            try:
                self.confirm(time.monotonic())
            except OvertakenError as overtaken:
                raise overtaken from error
            except CalveError:  # the store does not answer: it is not known
                pass
            raise

    @property
    def is_owned(self) -> bool:
        """Whether no other driver is known to own it."""
        try:
            self.check()
        except OvertakenError:
            return False
        return True

    def close(self) -> None:
        """Let the next driver in. May be called twice."""
        self._records.close()

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
            pending = self._pending.get(batch)
            return pending.planned if pending else None

    def staged(self, batch: int) -> StagedBatch | None:
        """Return the staged record of an uncommitted batch, or None."""
        with self._mutex:
            pending = self._pending.get(batch)
            return pending.staged if pending else None

    def key_files_before(self, batch: int) -> list[KeyFile]:
        """Return the files with the keys that were seen before an uncommitted batch.

        Raises:
            InvariantError: The batch before it is not staged.
        """
        with self._mutex:
            if batch == self._committed.batch + 1:
                return self._committed.key_files
            pending = self._pending.get(batch - 1)
            if pending is None or pending.staged is None:
                raise InvariantError(f"Batch {batch} runs before batch {batch - 1} is staged", step="ledger")
            return pending.staged.key_files

    @property
    def key_files(self) -> list[KeyFile]:
        """All files with remembered keys that a record names."""
        with self._mutex:
            staged = [file for pending in self._pending.values() if pending.staged for file in pending.staged.key_files]
            return [*self._committed.key_files, *staged]

    def begin(self, batch: int, planned: Planned) -> None:
        """Record the splits and the time of a batch before it runs: a replay reads exactly the same events.

        Raises:
            InvariantError: It is not the next batch.
            WriteError: The disk refused; nothing was recorded, and the call may be repeated.
        """
        if batch != self.last_batch + 1:
            raise InvariantError(f"Batch {batch} cannot follow batch {self.last_batch}", step="ledger")
        stop_at("ledger.before-begin")
        planned = replace(planned, time_tenths=self._next_time())
        self._records.begin(batch, msgspec.to_builtins(planned))
        stop_at("ledger.after-begin")
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
        stop_at("ledger.before-stage")
        self._records.stage(batch, record, replaces=False)
        stop_at("ledger.after-stage")
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
            pending = self._pending.get(batch)
            if pending is None or pending.staged is None:
                raise InvariantError(f"Batch {batch} is not staged", step="ledger")
            self._records.stage(batch, record, replaces=True)
            stop_at("ledger.after-stage-again")
            self._pending[batch] = Pending(batch, pending.planned, record)

    def set_committed(self, batch: int, totals: Totals) -> None:
        """Record that every table has all batches up to this one, and remove the records of these batches.

        Raises:
            InvariantError: The batch is not staged.
            WriteError: The disk refused; the batch is still pending, and the call may be repeated.
        """
        with self._mutex:
            pending = self._pending.get(batch)
            if pending is None or pending.staged is None:
                raise InvariantError(f"Batch {batch} is not staged", step="ledger")
            planned, staged = pending.planned, pending.staged
            committed = Committed(batch, planned.position, totals, planned.time_tenths, staged.key_files)
            stop_at("ledger.before-committed")
            dropped = [old for old in self._pending if old <= batch]
            self._records.set_committed(committed, dropped)
            self._committed = committed
            for old in dropped:
                del self._pending[old]

    def _next_time(self) -> int:
        """Return the time, but at least a tenth of a second after the last batch: clocks may go backwards."""
        with self._mutex:
            moments = [self._committed.moment, *(pending.planned.time_tenths for pending in self._pending.values())]
        return max(int(time.time() * 10), max(moments) + 1)


@contextlib.contextmanager
def under_construction(folder: StateFolder) -> Iterator[StateFolder]:
    """Yield a folder for a new ledger, which appears at its place when the block ends.

    Raises:
        SettingsError: There is a ledger on the object store.
        WriteError: It cannot be written.
    """
    with tempfile.TemporaryDirectory() as temporary:
        new = LocalFolder(Path(temporary)) / folder.parent.name / folder.name
        yield new
        with contextlib.closing(Ledger.open(new)) as ledger:
            ledger.copy_to(folder)


def last_batch_of(folder: StateFolder, pipeline: str, source: str = "") -> int:
    """Return the last batch of a ledger, 0 for none. A local ledger is locked for a moment.

    Args:
        folder: The ledger's folder.
        pipeline: The pipeline's name.
        source: The kind of source that is to go on; a local ledger is checked for it.

    Raises:
        SettingsError: The state is of another source.
        OvertakenError: Another driver holds the local ledger.
        WriteError: It cannot be read.
    """
    if folder.is_shared:
        return StoreRecords.last_batch(folder)
    with contextlib.closing(Ledger.open(folder, pipeline)) as ledger:
        if source:
            ledger.continue_with(source)
        return ledger.last_batch


def _records_at(folder: StateFolder) -> type[LocalRecords] | type[StoreRecords]:
    """Return the form that records have in a folder."""
    return StoreRecords if folder.is_shared else LocalRecords
