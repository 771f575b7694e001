"""One pipeline: recover, plan, run, drain. The only code that knows the order."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from calve.acknowledge.dead_letters import publish
from calve.acknowledge.progress import counts
from calve.commit.ledger import Ledger
from calve.errors import CalveError, CommitError, Verdict
from calve.observe.log import Log
from calve.observe.watch import Watch
from calve.pipeline.batch import Writer, run_batch
from calve.pipeline.committer import Committer
from calve.pipeline.layout import Layout
from calve.pipeline.patience import Patience
from calve.sources.source import Planned
from calve.stop_point import reach

__all__ = ["Flow"]

T = TypeVar("T")
_POLL_SECONDS = 0.1
_GIVE_UP_SECONDS = 120.0
"""How long `--once`, and the end of a run, go on trying against a server that does not answer."""
_DRAIN_SECONDS = 60.0
"""How long the end of a run goes on writing what a source has accepted; what is left waits in its log."""


class Flow:
    """A pipeline that owns its state folder from `run` on.

    Args:
        layout: The pipeline's parts: source, sinks and their tables, intervals.
        folder: `<state>/<pipeline>`.
        once: Take what is there now, commit it, and end.
        watch: Gets the status, and says when to stop.
    """

    def __init__(self, spark: SparkSession, layout: Layout, folder: Path, once: bool, watch: Watch) -> None:
        self._layout = layout
        self._folder = folder
        self._once = once
        self._watch = watch
        self._stop = watch.stop
        self._log = Log(layout.name)
        self._spark = spark
        self._since: float | None = None

    def run(self) -> None:
        """Run until nothing is left (`once`) or the stop is asked for; then all that was read is committed.

        Raises:
            CalveError: The pipeline cannot go on. What is staged stays so, and the next run commits it.
        """
        with contextlib.closing(Ledger.open(self._folder / "ledger", self._layout.name)) as ledger:
            committed = ledger.committed
            dlq = self._layout.dead_letters
            self._status = self._watch.pipeline(self._layout.name, str(self._folder), committed.totals, dlq)
            try:
                self._own(ledger)
            except BaseException as error:
                if isinstance(error, CalveError):
                    self._status.trouble(error)
                self._status.set_state("failed")
                raise
            self._status.set_state("stopped")

    def _own(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._planned: dict[int, Planned] = {}
        self._committer = Committer(
            ledger,
            self._layout.catalogs,
            self._layout.commits,
            self._status,
            (self._layout.refresh, self._acknowledge),
        )
        self._writer = Writer(self._spark, lambda *pass_: self._layout.job(ledger.state_id, *pass_), self._layout.fit)
        try:
            self._trying("start", self._layout.open_tables)
            left = self._recover()
            self._trying("read", lambda: self._layout.source.start(ledger.position, self._once))
            self._committer.start()
            self._batches(left)
            self._drain()
        finally:
            self._layout.source.stop()
            self._committer.stop()

    def _recover(self) -> list[tuple[int, Planned]]:
        """Take over what an earlier run left: staged batches go to the committer, begun ones are written first."""
        pending = self._ledger.pending()
        for one in pending:
            self._planned[one.batch] = one.planned
            if one.staged is not None:
                self._staged(one.batch, one.staged)
        recover = getattr(self._layout.source, "recover", None)
        if recover is not None:
            recover([one.planned for one in pending])
        return [(one.batch, one.planned) for one in pending if one.staged is None]

    def _batches(self, left: list[tuple[int, Planned]]) -> None:
        for batch, planned in left:
            self._log.info(f"goes on with batch {batch}, which was begun and not finished")
            self._write(batch, planned)
        self._status.set_state("waiting")
        while not self._stop.is_set():
            planned_next = self._next()
            if planned_next is None:
                return
            self._status.set_state("running")
            self._write(self._ledger.last_batch + 1, planned_next)
            self._status.set_state("waiting")

    def _next(self) -> Planned | None:
        """Wait until a batch is due and plan it; None when this run is at its end."""
        while not self._stop.is_set():
            self._check()
            planned = self._trying("read", self._plan) if self._committer.has_room() else None
            if planned is not None:
                return planned
            if self._once and self._committer.has_room():
                return None
            self._stop.wait(_POLL_SECONDS)
        return None

    def _plan(self) -> Planned | None:
        source, position = self._layout.source, self._ledger.position
        backlog = source.backlog(position)
        self._status.lag(backlog.rows, backlog.size_bytes)
        if not backlog:
            self._since = None
            return None
        now = time.time()
        self._since = self._since or now
        full = backlog.size_bytes >= self._layout.max_batch_bytes
        if self._once or full or now - self._since >= self._layout.flush_seconds:
            return source.plan(position, self._layout.max_batch_bytes)
        return None

    def _write(self, batch: int, planned: Planned) -> None:
        since = self._since or time.time()
        self._since = None
        self._planned[batch] = planned
        self._layout.begin_batch()
        record = self._trying("write", lambda: run_batch(batch, planned, since, self._ledger, self._writer))
        if record is not None:
            self._staged(batch, record)

    def _staged(self, batch: int, record: Mapping[str, Any]) -> None:
        reach("pipeline.after-stage")
        self._trying("reject", lambda: publish(record["rejects"], self._layout.io_properties()))
        self._status.batch_written(counts(record), record["seconds"])
        self._log.debug(
            f"batch {batch}: {record['events']:,} events in {record['seconds']} s, of all tasks {record['steps']}",
            batch=batch,
        )
        self._committer.add(dict(record))

    def _acknowledge(self, batch: int) -> None:
        self._layout.source.acknowledge(self._planned.pop(batch))

    def _drain(self) -> None:
        """Accept nothing more, write what was accepted, and commit all that is staged."""
        self._layout.source.stop()
        self._status.set_state("draining")
        deadline = time.monotonic() + _DRAIN_SECONDS
        while self._layout.source_accepts and time.monotonic() < deadline:
            planned = self._layout.source.plan(self._ledger.position, self._layout.max_batch_bytes)
            if planned is None:
                break
            self._write(self._ledger.last_batch + 1, planned)
        if self._committer.drain(_GIVE_UP_SECONDS):
            return
        self._check()
        troubles = self._committer.troubles()
        if troubles:
            raise troubles[0]
        raise CommitError(
            "What is staged could not be committed in time", step="commit", hint="It is kept; the next run commits it"
        )

    def _check(self) -> None:
        if self._committer.failed is not None:
            raise self._committer.failed

    def _trying(self, step: str, action: Callable[[], T]) -> T | None:
        """Do something until it works, backing off while a server is away; None when asked to stop meanwhile."""
        patience = Patience(self._stop, _GIVE_UP_SECONDS if self._once else None)
        told = ""
        while True:
            try:
                result = action()
            except CalveError as error:
                told = self._tell(error, told)
                if not patience.wait():
                    if self._stop.is_set():
                        return None
                    raise
                self._check()
                continue
            if told:
                self._log.info(f"{step}: goes on")
                self._status.recovered()
            return result

    def _tell(self, error: CalveError, told: str) -> str:
        """Say an error that may pass, once while it stays the same; one that does not pass is raised."""
        if error.verdict not in (Verdict.AGAIN, Verdict.LOOK):
            raise error
        if str(error) != told:
            self._log.error(error)
        self._status.trouble(error)
        return str(error)
