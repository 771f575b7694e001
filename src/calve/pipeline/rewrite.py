"""Rewrites a table's staged files without the events that fail its commit.

The staged batch is read again from its source, only for this table, and divided like a batch that cannot be written
(`quarantine`); a part works if its files can become a snapshot. The new files and dead letters are staged instead of
the old ones before the commit, so that a crash leaves either the old or the new ones. Runs on the committer's threads.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace
from py4j.protocol import Py4JJavaError

from calve.catalog.catalog import Catalog
from calve.commit.fence import invalidate_open_attempts, validate_files
from calve.commit.mark import CommitTarget, Mark
from calve.errors import CalveError, CommitError, UnprocessableError
from calve.ledger.ledger import Ledger
from calve.observe.bug_report import BugReports
from calve.pipeline.batch import Receipts, RewritePass, Writer, unprocessable
from calve.pipeline.letters import PipelineLetters
from calve.pipeline.quarantine import Quarantine
from calve.pipeline.tables import PipelineTables
from calve.record.receipt import Receipt
from calve.record.staged import StagedBatch
from calve.record.target import BranchRef
from calve.record.written import Entries
from calve.task.isolation import Isolation

__all__ = ["Rewriter", "Rewritten"]

_FEW = 8
"""The most events of a batch that may all be bad; if more fail and none works, the table is the reason."""


@dataclass(frozen=True)
class Rewritten:
    """One rewritten batch of a table: its new entries, and the number of dead letters by code."""

    entries: Entries
    rejects: Mapping[str, int]


class Rewriter:
    """Rewrites staged files of one pipeline.

    Args:
        ledger: Has the staged records.
        writer: Writes the batches.
        tables: The tables of the pipeline.
        letters: Where its dead letters go.
        reports: Reports the events that were left out.
    """

    def __init__(
        self,
        ledger: Ledger,
        writer: Writer,
        tables: PipelineTables,
        letters: PipelineLetters,
        reports: BugReports,
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._tables = tables
        self._letters = letters
        self._reports = reports
        self._numbers = itertools.count(1)

    def rewrite(
        self,
        catalog: Catalog,
        target: CommitTarget,
        mark: Mark,
        waiting: Mapping[int, Entries],
        error: UnprocessableError,
    ) -> dict[int, Rewritten]:
        """Rewrite the waiting batches of a table that cannot be committed.

        Raises:
            CommitError: The events are not the reason; nothing has changed.
            CalveError: A server is down; nothing has changed.
        """
        validate_files(catalog, target, mark, {})
        rewritten: dict[int, Rewritten] = {}
        for batch, entries in waiting.items():
            table = _Table(catalog, target, mark, batch)
            try:
                table.validate_files(entries)
            except UnprocessableError as failed:
                new = self._without_bad_events(table, entries, failed)
                if new is None:
                    return rewritten
                rewritten[batch] = new
        if not rewritten:
            raise _with_hint(target, error) from error
        return rewritten

    def _without_bad_events(self, table: _Table, old: Entries, error: UnprocessableError) -> Rewritten | None:
        """Rewrite one batch; return None if an earlier attempt to commit has succeeded by now, which the next finds."""
        planned, staged = self._ledger.begun(table.batch), self._ledger.staged(table.batch)
        key = old[0].ref
        sinks = self._tables.sinks_of(key)
        if planned is None or staged is None or not sinks:
            raise _with_hint(table.target, error) from error
        if (
            staged_entries := _entries([staged], key)
        ) != old:  # already rewritten; only its dead letters were not published
            self._letters.publish(staged.rejects)
            return Rewritten(staged_entries, {"UNPROCESSABLE": unprocessable(staged.rejects)[table.target.identifier]})

        def attempt(isolation: Isolation) -> Receipts:
            receipts = self._writer.attempt(table.batch, planned, isolation, RewritePass(sinks, next(self._numbers)))
            entries = _entries(receipts, key)
            try:
                table.validate_files(entries)
            finally:
                if isolation.is_probe:
                    table.remove_files(entries)
            return receipts

        self._reports.begins(table.batch, error)
        quarantine = Quarantine(attempt, lambda: self._writer.count(table.batch, planned))
        receipts = quarantine.run(error)
        entries, rejects = _entries(receipts, key), [file for receipt in receipts for file in receipt.rejects]
        counts = unprocessable(rejects)
        if not entries and counts.total() > _FEW:
            raise _with_hint(table.target, error) from error
        if invalidate_open_attempts(table.catalog, table.target, table.mark) >= table.batch:
            table.remove_files(entries)
            return None
        tables = [entry for entry in staged.tables if entry.ref != key] + entries
        record = replace(staged, tables=tables, rejects=staged.rejects + rejects)
        self._ledger.stage_again(table.batch, record)
        self._letters.publish(rejects)
        table.remove_files(old)
        self._reports.found(table.batch, counts, [cause for _, cause in quarantine.found])
        return Rewritten(entries, Counter({"UNPROCESSABLE": counts.total()}))


@dataclass(frozen=True)
class _Table:
    """A table, and one of its staged batches."""

    catalog: Catalog
    target: CommitTarget
    mark: Mark
    batch: int

    def validate_files(self, entries: Entries) -> None:
        """Check that files can become a snapshot."""
        validate_files(
            self.catalog, self.target, self.mark, {self.batch: [file for entry in entries for file in entry.files]}
        )

    def remove_files(self, entries: Entries) -> None:
        """Delete unreferenced files; orphan removal finds files that cannot be deleted."""
        with contextlib.suppress(CalveError, Py4JJavaError):
            io = self.catalog.load_java(self.target.identifier).io()
            for path in [file.file_path for entry in entries for file in entry.files]:
                io.deleteFile(path)


def _entries(records: Iterable[Receipt | StagedBatch], key: BranchRef) -> Entries:
    return [entry for record in records for entry in record.tables if entry.ref == key]


def _with_hint(target: CommitTarget, error: CalveError) -> CommitError:
    hint = error.hint or "Its files are kept, and Calve retries the commit; other tables continue"
    return CommitError(error.message, step="commit", target=target.identifier, hint=hint)
