"""The loop of one pipeline: recover, plan, run, drain. The only code that knows the order."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace

from calve.acknowledge.progress import counts
from calve.compiled import events as core
from calve.engine.engine import Engine
from calve.errors import CalveError, Verdict
from calve.ledger.ledger import Ledger
from calve.observe.bug_report import BugReports
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.observe.pause import Pause
from calve.observe.status import PipelineStatus
from calve.pipeline.batch import Writer, run_batch
from calve.pipeline.batch_size import BatchSize
from calve.pipeline.batch_trigger import BatchTrigger
from calve.pipeline.committer import Committer
from calve.pipeline.complete import check_complete, stopped_tables
from calve.pipeline.distribution import Distribution
from calve.pipeline.pipeline_parts import PipelineParts
from calve.pipeline.reloading import Reloading
from calve.pipeline.remembered_keys import RememberedKeys
from calve.pipeline.retries import StepRetries
from calve.pipeline.rewrite import Rewriter
from calve.pipeline.table_commits import TableCommits
from calve.pipeline.upkeep import Upkeep
from calve.record.staged import StagedBatch
from calve.sources.source import HasCondition, Listens, Planned, stop
from calve.stop_point import stop_at

__all__ = ["Loop", "RunMode"]

_POLL_SECONDS = 0.1
_DRAIN_SECONDS = 60.0
"""How long the end of a run continues to write accepted events; the rest waits in the source's log."""


@dataclass(frozen=True)
class RunMode:
    """How a run ends.

    Attributes:
        once: Read and commit all current events, and end; else run until a stop is requested.
        give_up_seconds: How long a run with `once`, or after the request to stop, retries failures.
        standby: Wait while another driver has the state.
        allow_empty: With `once`, a source that finds no file at all is no failure.
    """

    once: bool = False
    give_up_seconds: float = 120.0
    standby: bool = False
    allow_empty: bool = False


class Loop:
    """The loop of a pipeline that owns its state.

    Args:
        spark: Runs the tasks.
        parts: The pipeline's parts.
        mode: Whether it ends by itself, and how long it then retries.
        stop: The request to stop.
        ledger: The pipeline's ledger.
        status: Gets what happens.
    """

    def __init__(
        self,
        spark: Engine,
        parts: PipelineParts,
        mode: RunMode,
        stop: threading.Event,
        ledger: Ledger,
        status: PipelineStatus,
    ) -> None:
        self._parts = parts
        self._mode = mode
        self._stop = stop
        self._ledger = ledger
        self._status = status
        self._log = Log(parts.name)
        self._trigger = BatchTrigger(parts.flush_seconds)
        self._size = BatchSize(parts.max_batch_bytes, parts.may_grow)
        self._is_surveyed = False
        self._pause, self._paused = Pause(str(ledger.folder.parent)), False
        reports = BugReports(ledger.folder.parent, self._log)
        self._keys = RememberedKeys(ledger, parts.memory, self._log)
        distribution = Distribution(parts.tables.always_shuffles)
        self._writer = Writer(spark, parts, ledger.state_id, reports, distribution, memory=self._keys.before)
        self._upkeep = Upkeep(spark, status, parts.tables)
        rewriter = Rewriter(ledger, self._writer, parts.tables, parts.letters, reports)
        self._commits = TableCommits(ledger, parts, status, rewriter, self._upkeep)
        self._committer = Committer(self._commits, ledger, mode.give_up_seconds)
        self._retries = StepRetries(stop, mode.give_up_seconds, mode.once, self._log, status, self._committer.check)
        self._reloading = Reloading(parts.source, parts.tables, ledger, self._committer, self._log)

    def run(self) -> None:
        """Run until nothing is left (`once`) or a stop is requested; then commit everything that was read.

        Raises:
            CalveError: The pipeline cannot continue. Staged batches stay, and the next run commits them.
        """
        parts, is_failed = self._parts, True
        try:
            self._retries.run("start", lambda: parts.open(self._ledger.committed.totals.tables), leave=True)
            self._retries.run("start", parts.letters.note, leave=True)
            parts.letters.send_as(self._ledger)
            self._retries.run("start", lambda: parts.announcer.open(self._ledger, self._status), leave=True)
            unwritten = self._recover()
            self._retries.run("start", self._start_source, leave=True)
            self._committer.start()
            self._batches(unwritten)
            self._drain()
            if self._mode.once:
                self._upkeep.finish(self._stop)
                if not self._stop.is_set():
                    check_complete(parts.source, self._mode.allow_empty)
            is_failed = False
        finally:
            stop(parts.source)
            self._committer.stop()
            parts.announcer.close(is_failed)
            self._upkeep.stop()
            self._commits.close()

    def _start_source(self) -> None:
        pending = [begun.planned for begun in self._ledger.pending()]
        source = self._parts.source
        self._ledger.continue_with(self._parts.source_kind)
        source.start(self._ledger.position, self._mode.once, pending)
        if isinstance(source, Listens) and source.url:
            self._log.info(f"listens on {source.url}")

    def _recover(self) -> list[tuple[int, Planned]]:
        """Take over the batches of an earlier run: staged ones go to the committer, begun ones are written first."""
        pending = self._ledger.pending()
        for begun in pending:
            if begun.staged is not None:
                self._staged(begun.staged)
        return [(begun.batch, begun.planned) for begun in pending if begun.staged is None]

    def _batches(self, begun: list[tuple[int, Planned]]) -> None:
        for batch, planned in begun:
            self._log.info(f"continues batch {batch}, which an earlier run began")
            self._write(batch, planned)
        self._status.set_state("waiting")
        while not self._stop.is_set():
            planned_next = self._next()
            if planned_next is None:
                return
            self._status.set_state("running")
            self._write(self._ledger.last_batch + 1, planned_next)
            if self._upkeep.backlog_end == self._ledger.last_batch:
                self._commits.queue.commit_soon()
            self._status.set_state("waiting")

    def _next(self) -> Planned | None:
        """Wait until a batch is due, and plan it; None at the end of this run."""
        while not self._stop.is_set():
            began = time.monotonic()
            self._committer.check()
            self._status.beat()
            has_room = self._commits.queue.has_room()
            self._trigger.behind |= not has_room
            planned = self._plan_unless_stopped() if has_room else None
            if planned is not None:
                return planned
            if self._mode.once and has_room:
                return None
            if self._mode.once:
                self._committer.commit_all()
            self._stop.wait(_POLL_SECONDS)
            if not has_room:
                self._status.held_back(time.monotonic() - began)
        return None

    def _plan_unless_stopped(self) -> Planned | None:
        try:
            return self._retries.run("read", self._plan, leave=True)
        except CalveError as error:
            if self._stop.is_set() and error.verdict is Verdict.AGAIN:
                return None  # unread events wait for the next run
            raise

    def _plan(self) -> Planned | None:
        self._reloading.step()
        planned = self._plan_next()
        while planned is None and self._reloading.step():
            planned = self._plan_next()
        return planned

    def _plan_next(self) -> Planned | None:
        source, position = self._parts.source, self._ledger.position
        backlog = source.backlog(position)
        self._status.lag(backlog.rows, backlog.size_bytes, backlog.refusing, backlog.refused)
        self._status.lag_of_parts(backlog.parts)
        if isinstance(source, HasCondition):
            self._status.source(source.condition, stopped_tables(source))
        if self._is_paused():
            return None
        self._parts.room.check(self._status.dead_letter_room)
        least = self._committer.took_seconds if self._parts.in_order else 0.0  # each batch is a snapshot of its own
        is_due = self._trigger.is_due(backlog, self._parts.max_batch_bytes, least)
        self._commits.queue.is_behind = self._trigger.behind
        if not is_due and not (self._mode.once and backlog):
            return None
        if not self._is_surveyed:
            self._is_surveyed = True
            self._size.begin(*self._parts.survey(position, self._writer.tables))
        most = self._size.next_bytes(self._trigger.behind)
        planned = source.plan(position, most)
        if planned is not None and self._trigger.record(planned, backlog, most):
            self._upkeep.backlog_end = self._ledger.last_batch + 1
        if planned is not None and self._parts.source_accepts and self._trigger.since and not self._trigger.behind:
            return replace(planned, accepted_through=self._trigger.since)
        return planned

    def _is_paused(self) -> bool:
        """Return whether `calve pause` asks to read nothing; log each change."""
        was, asked = self._paused, self._pause.is_requested()
        if asked != was:
            self._paused = asked
            self._status.paused(asked)
            self._log.info("paused: reads nothing until calve resume" if asked else "resumed")
        return asked

    def _write(self, batch: int, planned: Planned) -> None:
        since, self._trigger.since = self._trigger.since or time.time(), None
        self._retries.run("write", lambda: self._parts.begin_batch(planned))
        record = self._retries.run("write", lambda: run_batch(batch, planned, since, self._ledger, self._writer))
        self._keys.staged(record)
        self._size.learn(record)
        self._status.steps(record.steps)
        self._status.files_are(self._writer.distribution.reason)
        self._log.debug(f"batch {batch}: files are {self._writer.distribution.reason}", batch=batch)
        self._staged(record)

    def _staged(self, record: StagedBatch) -> None:
        stop_at("pipeline.after-stage")
        self._retries.run("reject", lambda: self._parts.letters.publish(record.rejects))
        stop_at("pipeline.after-publish")
        self._status.batch_written(counts(record), record.seconds)
        self._parts.announcer.rejected(record.batch, counts(record).rejects)
        self._parts.tables.inspect(record.tables)
        self._log.debug(
            f"batch {record.batch}: {record.events:,} events in {record.seconds} s, of all tasks {record.steps}",
            batch=record.batch,
            steps=record.steps,
        )
        if record.core_failures:
            times = many(record.core_failures, "time", "times")
            failed = f"batch {record.batch}: the compiled core failed {times}, a bug in Calve"
            self._log.warning(f"{failed}; the exact converter did its work", hint=core.HINT)
        self._commits.add(record)

    def _drain(self) -> None:
        """Stop accepting events, write the accepted ones, and commit everything staged."""
        stop(self._parts.source)
        self._status.set_state("draining")
        deadline = time.monotonic() + _DRAIN_SECONDS
        while self._parts.source_accepts and not self._is_paused() and time.monotonic() < deadline:
            planned = self._next_accepted()
            if planned is None:
                break
            self._write(self._ledger.last_batch + 1, planned)
        self._committer.commit_all()
        self._retries.run("reject", self._parts.letters.send)

    def _next_accepted(self) -> Planned | None:
        source, position = self._parts.source, self._ledger.position
        backlog = source.backlog(position)
        self._status.lag(backlog.rows, backlog.size_bytes, backlog.refusing, backlog.refused)
        return source.plan(position, self._parts.max_batch_bytes) if backlog else None
