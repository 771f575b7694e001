"""Commits the staged files of one table, and acknowledges the batches that all of their tables have."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from calve.acknowledge.progress import Progress
from calve.acknowledge.watermark import complete_through
from calve.catalog.catalog import Catalog
from calve.commit.fence import Outcome, append
from calve.commit.mark import CommitTarget, Mark
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
    """Functions that are called.

    Attributes:
        committed: After a commit, with the catalog's key, the table and the outcome.
        acknowledge: When all of a batch is committed, with its number; batches come in order.
        rewrite: When a commit fails, perhaps because of events, with the entries that wait for it. Returns the batches
            whose files were written again.
        io_properties: Returns the properties of a FileIO for dead letters, by their location.
    """

    committed: Callable[[str, CommitTarget, Outcome], None]
    acknowledge: Callable[[int], None]
    rewrite: Callable[[Catalog, CommitTarget, Mark, Mapping[int, Entries], UnprocessableError], Mapping[int, Rewritten]]
    io_properties: Callable[[], Mapping[str, Mapping[str, str]]]


class TableCommits:
    """Takes staged batches through commits to their acknowledgement; the caller decides when.

    Args:
        ledger: The ledger of the pipeline; its committed record is updated here.
        catalogs: By the key that receipts carry.
        queue: The tables that wait for a commit.
        status: Gets commits and errors.
        hooks: Functions that are called.
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
        """Compile the Java classes that the first commit needs."""
        for catalog in self._catalogs.values():
            catalog.prepare()

    def add(self, record: StagedBatch) -> None:
        """Add a staged batch; batches come in order.

        Raises:
            CommitError: A table of it is in a catalog that the configuration no longer has.
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
        self._show_staged()

    def troubles(self) -> list[CalveError]:
        """Return the errors that keep batches from being committed and acknowledged."""
        error = self._acknowledging.error
        return self._queue.errors() + ([error] if error else [])

    def commit(self, table: BranchRef) -> None:
        """Commit all waiting files of a table, or keep them staged for a later try; threads may commit several tables.

        Raises:
            CalveError: The pipeline ends.
        """
        self._ledger.check()
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
            with contextlib.suppress(SinkUnavailableError):  # the known schema is enough until the next commit
                self._hooks.committed(table.catalog, target, outcome)

    def _append_or_rewrite(
        self, table: BranchRef, target: CommitTarget, entries: Mapping[int, Entries]
    ) -> Outcome | None:
        """Commit; return None if files were written again without the events that made it fail, for a later commit."""
        name, catalog = table.table, self._catalogs[table.catalog]
        files = {batch: [file for entry in found for file in entry.files] for batch, found in entries.items()}
        last = max((batch for batch, found in files.items() if found), default=max(files))
        mark = Mark(self._status.name, self._ledger.state_id, self._ledger.last_staged, self._ledger.confirm)
        with self._lock:
            summary = self._progress.summary(table, last)
            event_time = self._progress.event_time(table, max(files))
        losses = Losses(self._status.name, name, entries, self._hooks.io_properties)
        try:
            outcome = append(catalog, target, mark, files, summary, losses.keep)
            rejects = losses.counted()
        except UnprocessableError as error:
            rewritten = self._hooks.rewrite(catalog, target, mark, entries, error)
            self._reject(name, {batch: one.rejects for batch, one in rewritten.items()})
            self._queue.rewritten(table, {batch: one.entries for batch, one in rewritten.items()}, self._now())
            self._status.recovered(name)  # perhaps no file is left, and so no commit follows
            return None
        reach("commit.after-table")
        rows = sum(entry.rows for found in entries.values() for entry in found)
        self._status.table_committed(name, rows, outcome.snapshot_id)
        if outcome.held:
            self._status.table_files(name, outcome.held)
        self._reject(name, rejects)
        with self._lock:
            self._progress.committed(table, last)
        if self._queue.committed(table, entries, self._now()):
            self._log.info("commit: goes on")
        self._status.valid_through(name, complete_through(event_time))
        self._log.debug(f"committed {rows} rows to {name}", table=name, rows=rows)
        return outcome

    def _reject(self, table: str, rejects: Mapping[int, Mapping[str, int]]) -> None:
        """Count the events that the commit of a table rejected, by batch and code, before the queue forgets them."""
        for batch, codes in rejects.items():
            with self._lock:
                self._progress.lose(batch, table, codes)
            self._status.rejected(table, codes)

    def acknowledge(self) -> None:
        """Acknowledge the committed batches; if the disk refuses, try again later. Nothing is lost meanwhile."""
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
        self._show_staged()
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

    def _show_staged(self) -> None:
        with self._lock:
            waiting = self._progress.waiting()
        self._status.staged(*waiting)


def _write_mode(entries: Mapping[int, Entries]) -> WriteMode:
    """Return the write mode of staged batches; the merge modes also accept files for equality deletes."""
    modes = [entry.write_mode for found in entries.values() for entry in found]
    return next((mode for mode in reversed(modes) if mode != EQUALITY_DELETE), EQUALITY_DELETE)
