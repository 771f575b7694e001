"""Repeats the steps of a pipeline while a server is away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from calve.errors import CalveError, SinkUnavailableError, Verdict
from calve.network.backoff import Backoff
from calve.observe.log import Log
from calve.observe.status import PipelineStatus

__all__ = ["StepRetries"]

T = TypeVar("T")


class StepRetries:
    """Repeats an action until it succeeds, with backoff; for the thread of the pipeline.

    Args:
        stop: The request to stop.
        give_up_seconds: How long it retries if `is_bounded`, or after the request to stop.
        is_bounded: Whether a run ends by itself.
        log: The pipeline's log.
        status: Gets the failures.
        check: Raises an error that ended another part of the pipeline.
    """

    def __init__(
        self,
        stop: threading.Event,
        give_up_seconds: float,
        is_bounded: bool,
        log: Log,
        status: PipelineStatus,
        check: Callable[[], None],
    ) -> None:
        self._stop = stop
        self._give_up_seconds = give_up_seconds
        self._is_bounded = is_bounded
        self._log = log
        self._status = status
        self._check = check

    def run(self, step: str, action: Callable[[], T], leave: bool = False) -> T:
        """Repeat an action until it succeeds, with backoff while a server is down.

        After a stop is requested it does not wait for the server of a sink: the next run writes the batch.

        Args:
            step: Its name, for the log.
            action: The action, which may be repeated safely.
            leave: Do not retry after a stop is requested, whatever is down.

        Raises:
            CalveError: A retry cannot help, or the time limit of `once` or of a requested stop is over.
        """
        backoff = Backoff(self._stop, self._give_up_seconds, bounded=self._is_bounded)
        logged: CalveError | None = None
        while True:
            try:
                result = action()
            except CalveError as error:
                logged = self._log_or_raise(error, logged)
                leaves = leave or isinstance(error, SinkUnavailableError)
                if self._ends(leaves) or not backoff.wait() or self._ends(leaves):
                    raise _given_up(error) from error
                self._check()
                continue
            if logged:
                self._log.info(f"{step}: continues")
                self._status.recovered()
            return result

    def _ends(self, leaves: bool) -> bool:
        return leaves and self._stop.is_set()

    def _log_or_raise(self, error: CalveError, logged: CalveError | None) -> CalveError:
        """Log a temporary error, once while it stays the same; raise any other error."""
        if error.verdict not in (Verdict.AGAIN, Verdict.LOOK):
            raise error
        if logged is None or (type(logged), logged.step) != (type(error), error.step):
            self._log.error(error)
        self._status.trouble(error)
        return error


def _given_up(error: CalveError) -> CalveError:
    hint = "Nothing is lost: the next run continues from here"
    return type(error)(f"Given up: {error.message}", step=error.step, target=error.target, hint=hint)
