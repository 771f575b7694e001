"""Commits the staged files of one table, and acknowledges the batches that all of their tables have."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping

from calve.acknowledge.progress import StagedBatches
from calve.acknowledge.watermark import complete_through
from calve.catalog.retry import Retries
from calve.commit.fence import append, snapshot_of
from calve.commit.key_indexes import KeyIndexes
from calve.commit.mark import CommitTarget, Mark
from calve.commit.outcome import Outcome
from calve.commit.stage import CommitHooks
from calve.dead_letters.at_commit import RejectsAtCommit
from calve.errors import CalveError, CommitError, SinkUnavailableError, UnprocessableError, Verdict
from calve.ledger.ledger import Ledger
from calve.observe.log import Log
from calve.observe.status import PipelineStatus
from calve.pipeline.commit_queue import CommitQueue, Retry
from calve.pipeline.pipeline_parts import PipelineParts
from calve.pipeline.publications import Publications
from calve.pipeline.rewrite import Rewriter
from calve.pipeline.upkeep import Upkeep
from calve.record.staged import StagedBatch
from calve.record.target import EQUALITY_DELETE, BranchRef, WriteMode, beside
from calve.record.written import Entries
from calve.stop_point import stop_at

__all__ = ["TableCommits"]


class TableCommits:
    """Takes staged batches through commits to their acknowledgement; the caller decides when.

    Args:
        ledger: The ledger of the pipeline; its committed record is updated here.
        parts: The pipeline's parts: its tables, where its dead letters go, and the source, which releases what is
            committed.
        status: Gets commits and errors.
        rewriter: Writes files again when a commit fails, perhaps because of events.
        upkeep: Gets each commit, and each batch that is committed to all of its tables.
        now: Monotonic seconds.

    Attributes:
        queue: The tables that wait for a commit.
    """

    def __init__(
        self,
        ledger: Ledger,
        parts: PipelineParts,
        status: PipelineStatus,
        rewriter: Rewriter,
        upkeep: Upkeep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._source = parts.source
        self._tables = parts.tables
        self._catalogs = parts.tables.catalogs
        self._keys = KeyIndexes(ledger.folder.parent, Log(status.name))
        self._letters = parts.letters
        self._announcer = parts.announcer
        self.queue = CommitQueue(parts.tables.commits, now(), parts.source_keeps)
        self._status = status
        self._rewriter = rewriter
        self._upkeep = upkeep
        self._now = now
        self._log = Log(status.name)
        self._publications = Publications(status, self._log)
        self._progress = StagedBatches(ledger.committed.totals, status.name, parts.tables.completeness)
        for catalog, table, branch, _, through in ledger.committed.totals.event_times:
            if through is not None:
                parts.tables.advance(BranchRef(catalog, table, branch), through)
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
        self.queue.add(record.batch, record.tables)
        for target in {entry.ref for entry in record.tables}:
            with self._lock:
                time_of_table = self._progress.event_time(target, record.batch)
            if time_of_table and time_of_table[1] is not None and self._tables.advance(target, time_of_table[1]):
                self.queue.release(target)
        self._show_staged()

    def close(self) -> None:
        """Release what other processes may use after this one."""
        self._keys.close()

    def troubles(self) -> list[CalveError]:
        """Return the errors that keep batches from being committed and acknowledged."""
        error = self._acknowledging.error
        return self.queue.errors() + ([error] if error else [])

    def commit(self, table: BranchRef) -> None:
        """Commit all waiting files of a table, or keep them staged for a later try; threads may commit several tables.

        Raises:
            CalveError: The pipeline ends.
        """
        self._ledger.check()
        entries = self.queue.load(table)
        uuid = next(iter(entries.values()))[0].uuid
        is_indexed = beside(table.branch) == table.branch and self._tables.may_index_keys(table.catalog, table.table)
        keys = self._keys.of(table, uuid) if is_indexed else None
        keeps_row_ids = self._tables.keeps_row_ids(table.catalog, table.table)
        how = _write_mode(entries), keys, keeps_row_ids, _write_as(entries), self._tables.gate(table)
        target = CommitTarget(table.table, uuid, table.branch, *how)
        try:
            outcome = self._append_or_rewrite(table, target, entries)
        except CalveError as error:
            if error.verdict is Verdict.STOP:
                raise
            if self.queue.failed(table, error, self._now()):
                self._log.error(error, table=table.table)
            if error.verdict is Verdict.ASK:
                self._announcer.held(table, min(entries), error.message, error.hint)
            self._status.trouble(error, table.table)
            return
        if outcome:
            with contextlib.suppress(SinkUnavailableError):  # the known schema is enough until the next commit
                self._upkeep.committed(table.catalog, target, outcome)

    def _append_or_rewrite(
        self, table: BranchRef, target: CommitTarget, entries: Mapping[int, Entries]
    ) -> Outcome | None:
        """Commit; return None if files were written again without the events that made it fail, for a later commit."""
        name, catalog = table.table, self._catalogs[table.catalog]
        files = {batch: [file for entry in waiting for file in entry.files] for batch, waiting in entries.items()}
        last = max((batch for batch, added in files.items() if added), default=max(files))
        mark = Mark.of(self._ledger)
        with self._lock:
            summary = self._progress.summary(table, last)
            event_time = self._progress.event_time(table, max(files))
        losses = RejectsAtCommit(self._status.name, name, entries, self._letters.io_properties)
        began, retries = self._now(), Retries()
        try:
            outcome = append(catalog, target, mark, files, summary, CommitHooks(losses.keep, retries))
            rejects = losses.counted()
        except UnprocessableError as error:
            rewritten = self._rewriter.rewrite(catalog, target, mark, entries, error)
            self._reject(name, {batch: new.rejects for batch, new in rewritten.items()})
            self.queue.rewritten(table, {batch: new.entries for batch, new in rewritten.items()}, self._now())
            self._status.recovered(name)  # perhaps no file is left, and so no commit follows
            return None
        finally:
            self._status.commit_tried(name, retries.conflicts, retries.repeats)
        stop_at("commit.after-table")
        self._status.commit_took(self._now() - began)
        self._announce(table, target, entries, outcome, summary)
        self._announcer.advanced(table, outcome.table, entries, event_time)
        rows = sum(entry.rows for waiting in entries.values() for entry in waiting)
        self._status.table_committed(name, rows, outcome.snapshot_id)
        if outcome.held:
            self._status.table_files(name, outcome.held)
        self._report_gate(table, min(entries), outcome)
        if outcome.not_found:
            self._log.warning(
                f"{name}: {outcome.not_found:,} rows were to be deleted and are not there; the table has no key, so "
                "somebody else has changed or deleted them",
                table=name,
                hint="Compare the table with its source; `calve source reload` loads one of a database again",
            )
        if target.keys and target.keys.stats:
            self._status.after_commit(name, target.keys.stats)
        self._reject(name, rejects)
        with self._lock:
            self._progress.committed(table, last)
        if self.queue.committed(table, entries, self._now()):
            self._log.info("commit: recovered")
        self._status.valid_through(name, complete_through(event_time))
        self._log.debug(f"committed {rows} rows to {name}", table=name, rows=rows)
        return outcome

    def _report_gate(self, table: BranchRef, batch: int, outcome: Outcome) -> None:
        """Say what a commit has published, and once that it is held."""
        if held := self._publications.committed(table, outcome.publication):
            self._announcer.held(table, batch, *held)

    def _announce(
        self,
        table: BranchRef,
        target: CommitTarget,
        entries: Mapping[int, Entries],
        outcome: Outcome,
        summary: Mapping[str, str],
    ) -> None:
        """Announce a commit, and first the one that a killed run could not announce."""
        with_files = {batch: waiting for batch, waiting in entries.items() if any(entry.files for entry in waiting)}
        earlier = {batch: waiting for batch, waiting in with_files.items() if batch not in outcome.batches}
        if earlier and self._announcer.is_open:
            with self._lock:
                summary_before = self._progress.summary(table, max(earlier))
            snapshot_id = snapshot_of(self._catalogs[table.catalog], target, self._ledger.pipeline, max(earlier))
            self._announcer.committed(table, earlier, snapshot_id, summary_before)
        now = {batch: waiting for batch, waiting in with_files.items() if batch in outcome.batches}
        self._announcer.committed(table, now, outcome.snapshot_id, summary, outcome.publication)

    def _reject(self, table: str, rejects: Mapping[int, Mapping[str, int]]) -> None:
        """Count the events that the commit of a table rejected, by batch and code, before the queue forgets them."""
        for batch, codes in rejects.items():
            with self._lock:
                self._progress.lose(batch, table, codes)
            self._announcer.rejected(batch, {table: codes} if codes else {}, "/commit")
            self._status.rejected(table, codes)

    def acknowledge(self) -> None:
        """Acknowledge the committed batches; if the disk refuses, try again later. Nothing is lost meanwhile."""
        if self._now() < self._acknowledging.at:
            return
        before = self._acknowledging.error
        try:
            finished = self.queue.finished()
            with self._lock:
                self._announcer.completed([self._progress.record(batch) for batch in finished])
            self._announcer.keep(self._ledger.last_staged)
            stop_at("pipeline.after-keep")
            for batch in finished:
                self._acknowledge(batch)
            self._announcer.forget(self._ledger.committed.batch)
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
            self._log.info(f"{before.step}: recovered")
            self._status.recovered(step=before.step)
            self._acknowledging = Retry()

    def _acknowledge(self, batch: int) -> None:
        planned = self._ledger.begun(batch)
        assert planned is not None
        self._source.acknowledge(planned)
        self._upkeep.acknowledged(batch)
        stop_at("pipeline.after-acknowledge")
        with self._lock:
            record = self._progress.record(batch)
            totals = self._progress.count(record)
        self._ledger.set_committed(batch, totals)
        for index in record.documents:
            self._status.table_committed(index.index, index.rows, None)
            self._status.superseded(index.index, index.superseded)
        with self._lock:
            self._progress.forget(record)
        self.queue.acknowledged(batch)
        self._status.freshness(max(0.0, time.time() - record.since))

    def _show_staged(self) -> None:
        with self._lock:
            waiting = self._progress.waiting()
        self._status.staged(*waiting)


def _write_as(entries: Mapping[int, Entries]) -> Mapping[str, str]:
    """Return how the data files of a table are written by now."""
    newest = (entry.write_as for batch in sorted(entries, reverse=True) for entry in entries[batch])
    return next(newest, {})


def _write_mode(entries: Mapping[int, Entries]) -> WriteMode:
    """Return the write mode of staged batches; the merge modes also accept files for equality deletes."""
    modes = [entry.write_mode for waiting in entries.values() for entry in waiting]
    return next((mode for mode in reversed(modes) if mode != EQUALITY_DELETE), EQUALITY_DELETE)
