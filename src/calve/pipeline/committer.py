"""Commits staged batches on a thread of its own, table by table, and frees the source's position behind them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from calve.acknowledge.progress import Progress
from calve.acknowledge.watermark import complete_through
from calve.backoff import Backoff
from calve.catalog.catalog import Catalog
from calve.catalog.storage import for_executors
from calve.commit.fence import CommitTarget, Mark, Outcome, append
from calve.dead_letters.at_commit import Losses
from calve.errors import (
    CalveError,
    CommitError,
    InvariantError,
    SinkUnavailableError,
    UnprocessableError,
    Verdict,
)
from calve.ledger.ledger import Ledger
from calve.observe.log import Log
from calve.observe.status import PipelineStatus
from calve.pipeline.rewrite import Entries, Rewritten
from calve.record.staged import StagedBatch
from calve.record.target import EQUALITY_DELETE, BranchRef, WriteMode
from calve.record.written import TableFiles
from calve.sinks.sink import CommitSettings
from calve.stop_point import reach

__all__ = ["Committer", "Hooks"]

_POOL = 8
"""Tables that are committed side by side (design, section 9: 17-25 ms a table with 4 to 8 threads)."""
_MOST_STAGED = 64
"""Staged batches beyond which a commit is due at once, and new batches wait."""
_TICK_SECONDS = 0.05


@dataclass(frozen=True)
class Hooks:
    """What a committer calls.

    Attributes:
        committed: With a catalog's key, the table and the outcome of a commit.
        acknowledge: With a batch's number when all of it is committed, in order.
        rewrite: With what waits for a commit that fails, perhaps because of events: gives the batches of which files
            were written anew.
    """

    committed: Callable[[str, CommitTarget, Outcome], None]
    acknowledge: Callable[[int], None]
    rewrite: Callable[[Catalog, CommitTarget, Mark, Mapping[int, Entries], UnprocessableError], Mapping[int, Rewritten]]


@dataclass
class _Table:
    """What is staged for one branch of a table and not committed: its entries by batch, in order.

    Attributes:
        is_new: Whether this run has not committed to it yet.
    """

    catalog: Catalog
    target: BranchRef
    entries: dict[int, Entries] = field(default_factory=dict)
    backoff: Backoff | None = None
    retry_at: float = 0.0
    error: CalveError | None = None
    is_new: bool = True

    @property
    def name(self) -> str:
        """The table's identifier."""
        return self.target.table

    @property
    def is_held(self) -> bool:
        """Whether it waits for the operator, not for a server."""
        return self.error is not None and self.error.verdict is Verdict.ASK


class Committer:
    """Everything between a staged batch and its acknowledgement.

    Args:
        ledger: Of the pipeline; its committed record moves here.
        catalogs: By the key that receipts carry.
        settings: When a commit is due.
        status: Is told of commits and of what keeps a table from them.
        hooks: What is called back.
    """

    def __init__(
        self,
        ledger: Ledger,
        catalogs: Mapping[str, Catalog],
        settings: CommitSettings,
        status: PipelineStatus,
        hooks: Hooks,
    ) -> None:
        self.failed: CalveError | None = None
        self._ledger = ledger
        self._catalogs = catalogs
        self._settings = settings
        self._status = status
        self._hooks = hooks
        self._log = Log(status.name)
        self._progress = Progress(ledger.committed.totals, status.name)
        self._tables: dict[BranchRef, _Table] = {}
        self._rewriting: set[BranchRef] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._urgent = threading.Event()
        self._soon = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._last = self._moved = time.monotonic()
        self._error: CalveError | None = None
        self._backoff: Backoff | None = None
        self._retry_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"commit-{status.name}", daemon=True)
        self._pool = ThreadPoolExecutor(_POOL, thread_name_prefix=f"commit-{status.name}")

    def start(self) -> None:
        """Begin to commit."""
        self._thread.start()

    def add(self, record: StagedBatch) -> None:
        """Take a staged batch; batches come in order.

        Raises:
            CommitError: A table of it lies in a catalog that the configuration no longer has.
        """
        with self._lock:
            self._progress.add(record)
            for entry in record.tables:
                self._table(entry).entries.setdefault(record.batch, []).append(entry)
            self._idle.clear()
        self._tell()

    def has_room(self) -> bool:
        """Whether another batch may be staged; tables that wait for the operator do not count."""
        return self._waiting()[0] < _MOST_STAGED

    def commit_soon(self) -> None:
        """Commit what is staged now without waiting for the interval."""
        self._soon.set()

    def drain(self, limit_seconds: float) -> bool:
        """Commit all that is staged now; say whether everything is committed.

        Args:
            limit_seconds: How long it goes on while no table can be committed; not at all where all left are held.
        """
        begun = time.monotonic()
        self._urgent.set()
        while not self._idle.wait(_TICK_SECONDS):
            is_over = not self._rewriting and time.monotonic() > max(begun, self._moved) + limit_seconds
            if self.failed or is_over or self._only_held():
                return False
        return self.failed is None

    def troubles(self) -> list[CalveError]:
        """Return what keeps tables from being committed."""
        with self._lock:
            held = [table.error for table in self._tables.values() if table.error and table.entries]
            return held + ([self._error] if self._error else [])

    def stop(self) -> None:
        """End the thread; a commit that is under way is finished."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown()

    def _table(self, entry: TableFiles) -> _Table:
        key = entry.ref
        if key not in self._tables:
            catalog = self._catalogs.get(key.catalog)
            if catalog is None:
                raise CommitError(
                    f"Staged files of {key.table} are for a catalog that the configuration no longer has",
                    step="commit",
                    target=key.table,
                    hint="Run once with the former `catalog:`, which commits them; then change it",
                )
            self._tables[key] = _Table(catalog, key)
        return self._tables[key]

    def _run(self) -> None:
        try:
            for catalog in self._catalogs.values():
                catalog.prepare()
            while not self._ended.wait(_TICK_SECONDS):
                if not self._idle.is_set():
                    self._cycle()
        except CalveError as error:
            self.failed = error
        except Exception as error:
            self.failed = InvariantError(f"The committer failed: {type(error).__name__}: {error}", step="commit")
            self.failed.__cause__ = error

    def _is_due(self) -> bool:
        """Whether all that is staged is to be committed now."""
        if self._urgent.is_set() or self._soon.is_set():
            return True
        staged, size = self._waiting()
        age = time.monotonic() - self._last
        return age >= self._settings.interval_seconds or size >= self._settings.size_bytes or staged >= _MOST_STAGED

    def _waiting(self) -> tuple[int, int]:
        """Return the batches that wait for a commit, and the bytes of their files, without held tables."""
        with self._lock:
            tables = [table for table in self._tables.values() if table.entries and not table.is_held]
            batches = {batch for table in tables for batch in table.entries}
            size = sum(one.bytes for table in tables for entries in table.entries.values() for one in entries)
            return len(batches), size

    def _cycle(self) -> None:
        """Commit the tables that are due: all of them, or those that are new or are tried again."""
        now, is_due = time.monotonic(), self._is_due()
        if is_due:
            self._soon.clear()
        with self._lock:
            left = [table for table in self._tables.values() if table.entries and table.retry_at <= now]
        due = [table for table in left if is_due or table.is_new or table.retry_at]
        if not due and not is_due:
            return
        for outcome in [self._pool.submit(self._commit, table) for table in due]:
            outcome.result()
        now = time.monotonic()
        self._last = now if is_due else self._last
        if now >= self._retry_at:
            self._finish_or_wait()

    def _commit(self, table: _Table) -> None:
        with self._lock:
            entries = {batch: list(found) for batch, found in table.entries.items()}
            files = {batch: [file for entry in found for file in entry.files] for batch, found in entries.items()}
            last = max((batch for batch, found in files.items() if found), default=max(entries))
            summary = self._progress.summary(table.target, last)
            time_reached = self._progress.event_time(table.target, max(entries))
            mark = Mark(self._status.name, self._ledger.state_id, self._ledger.last_staged)
        oldest = next(iter(entries.values()))[0]
        losses = Losses(self._status.name, table.name, entries, lambda: for_executors(table.catalog.properties))
        try:
            target = CommitTarget(table.name, oldest.uuid, table.target.branch, _write_mode(entries))
            outcome = append(table.catalog, target, mark, files, summary, losses.keep)
            turned_away = losses.counted()
        except UnprocessableError as error:
            self._rewrite(table, target, mark, entries, error)
            return
        except CalveError as error:
            self._hold(table, error)
            return
        reach("commit.after-table")
        rows = sum(entry.rows for found in entries.values() for entry in found)
        with self._lock:
            for batch, codes in turned_away.items():
                self._progress.lose(batch, table.name, codes)
            for batch in entries:
                del table.entries[batch]
            before, table.error, table.backoff, table.retry_at = table.error, None, None, 0.0
            table.is_new = False
            self._moved = time.monotonic()
        if before and not self._others_with(before, table):
            self._log.info("commit: goes on")
        self._status.table_committed(table.name, rows, outcome.snapshot_id)
        for codes in turned_away.values():
            self._status.rejected(table.name, codes)
        self._status.valid_through(table.name, complete_through(time_reached))
        self._log.debug(f"committed {rows} rows to {table.name}", table=table.name, rows=rows)
        with contextlib.suppress(SinkUnavailableError):  # what is known of the table will do until the next commit
            self._hooks.committed(oldest.catalog, target, outcome)

    def _rewrite(
        self,
        table: _Table,
        target: CommitTarget,
        mark: Mark,
        entries: Mapping[int, Entries],
        error: UnprocessableError,
    ) -> None:
        """Have files written anew without the events that the commit fails with, and commit them in the next cycle."""
        self._rewriting.add(table.target)
        try:
            rewritten = self._hooks.rewrite(table.catalog, target, mark, entries, error)
        except CalveError as failed:
            self._hold(table, failed)
            return
        finally:
            self._rewriting.discard(table.target)
        with self._lock:
            for batch, one in rewritten.items():
                self._progress.lose(batch, table.name, one.rejects)
                table.entries[batch] = one.entries
                if not one.entries:
                    del table.entries[batch]
            self._moved = table.retry_at = time.monotonic()
        for one in rewritten.values():
            self._status.rejected(table.name, one.rejects)

    def _finish_or_wait(self) -> None:
        """Acknowledge what is committed; a disk that refuses it now is tried again, and nothing is lost meanwhile."""
        try:
            self._finish()
        except CalveError as error:
            if error.verdict is not Verdict.AGAIN:
                raise
            if self._error is None:
                self._log.error(error)
            self._status.trouble(error)
            self._error, self._backoff = error, self._backoff or Backoff(self._ended)
            self._retry_at = time.monotonic() + self._backoff.next_seconds()
            return
        if self._error:
            self._log.info(f"{self._error.step}: goes on")
            self._status.recovered(step=self._error.step)
            self._error, self._backoff = None, None

    def _hold(self, table: _Table, error: CalveError) -> None:
        """Keep a table's files staged, and say why; only an error that ends the pipeline goes on."""
        if error.verdict is Verdict.STOP:
            raise error
        known = type(table.error) is type(error)
        if not known and (error.verdict is Verdict.ASK or not self._others_with(error, table)):
            self._log.error(error, table=table.name)  # a server that is away is told once for all tables
        self._status.trouble(error, table.name)
        with self._lock:
            table.error = error
            table.backoff = table.backoff or Backoff(self._ended)
            table.retry_at = time.monotonic() + table.backoff.next_seconds()

    def _others_with(self, error: CalveError, table: _Table) -> bool:
        with self._lock:
            return any(type(one.error) is type(error) for one in self._tables.values() if one is not table)

    def _only_held(self) -> bool:
        with self._lock:
            left = [table for table in self._tables.values() if table.entries]
            return bool(left) and all(table.is_held for table in left)

    def _finish(self) -> None:
        """Acknowledge every batch, in order, of which nothing is left to commit."""
        with self._lock:
            left = {batch for table in self._tables.values() for batch in table.entries}
            finished = self._progress.finished(left)
        for record in finished:
            self._hooks.acknowledge(record.batch)
            reach("pipeline.after-acknowledge")
            with self._lock:
                totals = self._progress.count(record)
            self._ledger.set_committed(record.batch, totals)
            for index in record.documents:
                self._status.table_committed(index.index, index.rows, None)
                self._status.superseded(index.index, index.superseded)
            with self._lock:
                self._progress.forget(record)
            self._status.freshness(max(0.0, time.time() - record.since))
        with self._lock:
            if self._progress.waiting()[0] == 0:
                self._idle.set()
                self._urgent.clear()
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            staged, size = self._progress.waiting()
        self._status.staged(staged, size)


def _write_mode(entries: Mapping[int, Entries]) -> WriteMode:
    """Return the mode of staged batches; the merge modes take what was staged for equality deletes, too."""
    modes = [entry.write_mode for found in entries.values() for entry in found]
    return next((mode for mode in reversed(modes) if mode != EQUALITY_DELETE), EQUALITY_DELETE)
