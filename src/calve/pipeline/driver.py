"""One pipeline: owns its state, and has its status while it runs."""

from __future__ import annotations

import contextlib

from calve.engine.engine import Engine
from calve.errors import CalveError
from calve.ledger.ledger import Ledger, WaitPolicy
from calve.notify.otlp import OtlpPush
from calve.observe.log import Log
from calve.observe.status import PipelineStatus
from calve.observe.watch import Watch
from calve.pipeline.loop import Loop, RunMode
from calve.pipeline.pipeline_parts import PipelineParts
from calve.state.folder import StateFolder

__all__ = ["Driver", "RunMode"]


class Driver:
    """A pipeline that owns its state folder from `run` on.

    Args:
        spark: Runs its tasks.
        parts: The pipeline's parts: source, sinks and their tables, intervals.
        folder: `<state>/<pipeline>`.
        mode: Whether it ends by itself, and how long it then retries.
        watch: Gets the status, and has the request to stop.
    """

    def __init__(self, spark: Engine, parts: PipelineParts, folder: StateFolder, mode: RunMode, watch: Watch) -> None:
        self._spark = spark
        self._parts = parts
        self._folder = folder
        self._mode = mode
        self._watch = watch
        self._log = Log(parts.name)

    def run(self) -> None:
        """Run until nothing is left (`once`) or a stop is requested; then commit everything that was read.

        Raises:
            CalveError: The pipeline cannot continue. Staged batches stay, and the next run commits them.
        """
        waiting = WaitPolicy(self._watch.stop, self._mode.standby, self._log)
        with contextlib.closing(Ledger.open(self._folder / "ledger", self._parts.name, waiting)) as ledger:
            if self._mode.standby:
                self._log.info("took over the state; continuing")
            status = self._status(ledger)
            try:
                with OtlpPush(self._parts.otlp, status), ledger.takeover_explains():
                    Loop(self._spark, self._parts, self._mode, self._watch.stop, ledger, status).run()
            except BaseException as error:
                if isinstance(error, CalveError):
                    status.trouble(error)
                status.set_state("failed")
                if not ledger.is_owned:
                    self._watch.leave(self._parts.name)  # the status file is the other driver's
                raise
            status.set_state("stopped")

    def _status(self, ledger: Ledger) -> PipelineStatus:
        letters = self._parts.letters
        totals, blueprint = ledger.committed.totals, self._parts.blueprint
        folder, pending = str(self._folder), self._parts.pending
        status = self._watch.pipeline(self._parts.name, folder, totals, letters.locations, blueprint, pending)
        status.keeps_dead_letters_in(letters.tables)
        status.feeds(self._parts.feeds)
        status.shows_spark_at(self._spark.pages)
        return status
