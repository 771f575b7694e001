"""Commits what is staged for one table, and acknowledges the batches that all of their tables have."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from calve.acknowledge.progress import Progress
from calve.acknowledge.watermark import complete_through
from calve.catalog.catalog import Catalog
from calve.catalog.storage import for_executors
from calve.commit.fence import CommitTarget, Mark, Outcome, append
from calve.dead_letters.at_commit import Losses
from calve.errors import CalveError, CommitError, SinkUnavailableError, UnprocessableError, Verdict
from calve.ledger.ledger import Ledger
from calve.observe.log import Log
from calve.observe.status import PipelineStatus
from calve.pipeline.commit_queue import CommitQueue, Retry
from calve.pipeline.rewrite import Rewritten
from calve.record.staged import StagedBatch
from calve.record.target import EQUALITY_DELETE, BranchRef, WriteMode
from calve.record.written import Entries
from calve.stop_point import reach

__all__ = ["Hooks", "TableCommits"]


@dataclass(frozen=True)
class Hooks:
    """What is called.

    Attributes:
        committed: With a catalog's key, the table and the outcome of a commit.
        acknowledge: With a batch's number when all of it is committed, in order.
        rewrite: With what waits for a commit that fails, perhaps because of events: gives the batches of which files
            were written anew.
    """

    committed: Callable[[str, CommitTarget, Outcome], None]
    acknowledge: Callable[[int], None]
    rewrite: Callable[[Catalog, CommitTarget, Mark, Mapping[int, Entries], UnprocessableError], Mapping[int, Rewritten]]


class TableCommits:
    """What happens between a staged batch and its acknowledgement; the caller decides when.

    Args:
        ledger: Of the pipeline; its committed record moves here.
        catalogs: By the key that receipts carry.
        queue: What waits.
        status: Shows commits, and what keeps a table from them.
        hooks: What is called back.
        now: Monotonic seconds.
    """

    def __init__(
        self,
        ledger: Ledger,
        catalogs: Mapping[str, Catalog],
        queue: CommitQueue,
        status: PipelineStatus,
        hooks: Hooks,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._catalogs = catalogs
        self._queue = queue
        self._status = status
        self._hooks = hooks
        self._now = now
        self._log = Log(status.name)
        self._progress = Progress(ledger.committed.totals, status.name)
        self._lock = threading.Lock()
        self._acknowledging = Retry()

    def prepare(self) -> None:
        """Compile what the first commit needs."""
        for catalog in self._catalogs.values():
            catalog.prepare()

    def add(self, record: StagedBatch) -> None:
        """Take a staged batch; batches come in order.

        Raises:
            CommitError: A table of it lies in a catalog that the configuration no longer has.
        """
        for entry in record.tables:
            if entry.catalog not in self._catalogs:
                raise CommitError(
                    f"Staged files of {entry.table} are for a catalog that the configuration no longer has",
                    step="commit",
                    target=entry.table,
                    hint="Run once with the former `catalog:`, which commits them; then change it",
                )
        with self._lock:
            self._progress.add(record)  # first: from the queue it is committed at once
        self._queue.add(record.batch, record.tables)
        self._tell()

    def troubles(self) -> list[CalveError]:
        """Return what keeps batches from being committed and acknowledged."""
        error = self._acknowledging.error
        return self._queue.errors() + ([error] if error else [])

    def commit(self, table: BranchRef) -> None:
        """Commit all that waits for a table, or keep it staged for a later try; several tables may do so at once.

        Raises:
            CalveError: The pipeline ends.
        """
        entries = self._queue.load(table)
        uuid = next(iter(entries.values()))[0].uuid
        target = CommitTarget(table.table, uuid, table.branch, _write_mode(entries))
        try:
            outcome = self._append_or_rewrite(table, target, entries)
        except CalveError as error:
            if error.verdict is Verdict.STOP:
                raise
            if self._queue.failed(table, error, self._now()):
                self._log.error(error, table=table.table)
            self._status.trouble(error, table.table)
            return
        if outcome:
            with contextlib.suppress(SinkUnavailableError):  # what is known of the table will do until the next commit
                self._hooks.committed(table.catalog, target, outcome)

    def _append_or_rewrite(
        self, table: BranchRef, target: CommitTarget, entries: Mapping[int, Entries]
    ) -> Outcome | None:
        """Commit; return None if files were written anew, without the events that it fails with, for a later commit."""
        name, catalog = table.table, self._catalogs[table.catalog]
        files = {batch: [file for entry in found for file in entry.files] for batch, found in entries.items()}
        last = max((batch for batch, found in files.items() if found), default=max(files))
        mark = Mark(self._status.name, self._ledger.state_id, self._ledger.last_staged)
        with self._lock:
            summary = self._progress.summary(table, last)
            event_time = self._progress.event_time(table, max(files))
        losses = Losses(self._status.name, name, entries, lambda: for_executors(catalog.properties))
        try:
            outcome = append(catalog, target, mark, files, summary, losses.keep)
            rejects = losses.counted()
        except UnprocessableError as error:
            self._queue.rewriting(table)
            rewritten = self._hooks.rewrite(catalog, target, mark, entries, error)
            self._reject(name, {batch: one.rejects for batch, one in rewritten.items()})
            self._queue.rewritten(table, {batch: one.entries for batch, one in rewritten.items()}, self._now())
            return None
        reach("commit.after-table")
        rows = sum(entry.rows for found in entries.values() for entry in found)
        self._status.table_committed(name, rows, outcome.snapshot_id)
        self._reject(name, rejects)
        with self._lock:
            self._progress.committed(table, last)
        if self._queue.committed(table, entries, self._now()):
            self._log.info("commit: goes on")
        self._status.valid_through(name, complete_through(event_time))
        self._log.debug(f"committed {rows} rows to {name}", table=name, rows=rows)
        return outcome

    def _reject(self, table: str, rejects: Mapping[int, Mapping[str, int]]) -> None:
        """Count events that only a table's commit rejected, by batch and code; before the queue lets go of them."""
        for batch, codes in rejects.items():
            with self._lock:
                self._progress.lose(batch, table, codes)
            self._status.rejected(table, codes)

    def acknowledge(self) -> None:
        """Acknowledge what is committed; a disk that refuses it now is tried again, and nothing is lost meanwhile."""
        if self._now() < self._acknowledging.at:
            return
        before = self._acknowledging.error
        try:
            for batch in self._queue.finished():
                self._acknowledge(batch)
        except CalveError as error:
            if error.verdict is not Verdict.AGAIN:
                raise
            if before is None:
                self._log.error(error)
            self._status.trouble(error)
            self._acknowledging.failed(error, self._now())
            return
        self._tell()
        if before:
            self._log.info(f"{before.step}: goes on")
            self._status.recovered(step=before.step)
            self._acknowledging = Retry()

    def _acknowledge(self, batch: int) -> None:
        self._hooks.acknowledge(batch)
        reach("pipeline.after-acknowledge")
        with self._lock:
            record = self._progress.record(batch)
            totals = self._progress.count(record)
        self._ledger.set_committed(batch, totals)
        for index in record.documents:
            self._status.table_committed(index.index, index.rows, None)
            self._status.superseded(index.index, index.superseded)
        with self._lock:
            self._progress.forget(record)
        self._queue.acknowledged(batch)
        self._status.freshness(max(0.0, time.time() - record.since))

    def _tell(self) -> None:
        with self._lock:
            waiting = self._progress.waiting()
        self._status.staged(*waiting)


def _write_mode(entries: Mapping[int, Entries]) -> WriteMode:
    """Return the mode of staged batches; the merge modes take what was staged for equality deletes, too."""
    modes = [entry.write_mode for found in entries.values() for entry in found]
    return next((mode for mode in reversed(modes) if mode != EQUALITY_DELETE), EQUALITY_DELETE)
