"""Finds the events that make a batch fail, so that they become dead letters and all others are written.

A step that fails unexpectedly (`UnprocessableError`), or that ends Spark's Python workers repeatedly, may fail because
of an event. The quarantine then divides the batch in halves, tries each half, and continues with those that fail, down
to single events. A try keeps no file. Tables that good events need are created and evolved meanwhile.

An event is left out only if its failure repeats on an engine that works: the step succeeds without events, and then
fails with it once more. The cost is bounded: after `PROBES` tries a failing part is left out completely, but only its
events of the table that failed. If a batch fails even without events, they are not the reason, and nothing is left out.
Runs on the driver. Nothing is recorded: after a crash the batch is divided again.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from calve.errors import CalveError, UnprocessableError, WorkerLostError
from calve.task.isolation import Excluded, Isolation, Window, position

__all__ = ["PROBES", "Quarantine", "may_lie_in_events"]

T = TypeVar("T")
PROBES = 200
"""The most tries for one batch; finding one event among n needs about 2 log2(n)."""
_TABLES = 16
"""The most tables of one part that are left out one by one."""
_CRASHES = 2
"""How often a single event must end a worker: once may be a lack of memory."""
_GUESSES = 2
"""The most events that may end workers before any part succeeds; with more, the machine is the reason."""


def may_lie_in_events(error: CalveError) -> bool:
    """Return whether events may be the reason of an error."""
    return isinstance(error, (UnprocessableError, WorkerLostError))


class Quarantine(Generic[T]):
    """Completes one batch without the events that make it fail.

    Args:
        attempt: Runs the step for the events of an isolation, and raises its failure.
        sizes: Counts the events of each split of the batch.

    Attributes:
        found: The events that were left out, each with its error, in the order of finding.
    """

    def __init__(self, attempt: Callable[[Isolation], T], sizes: Callable[[], Sequence[int]]) -> None:
        self.found: list[tuple[Excluded, CalveError]] = []
        self._attempt = attempt
        self._count = sizes
        self._ends: list[int] = []
        self._probes = 0
        self._has_worked = False

    def run(self, first: CalveError) -> T:
        """Find the events that make the batch fail, and run the step without them.

        Args:
            first: The error of the complete batch.

        Raises:
            CalveError: `first`, if events are not the reason; or another failure, then try again later.
        """
        if self._fails((0, 0)):
            raise first
        self._ends = list(itertools.accumulate(self._count()))
        whole = (0, self._ends[-1] if self._ends else 0)
        if failed := self._fails(whole):  # it fails again
            self._search(whole, failed)
        while True:
            try:
                return self._attempt(Isolation(excluded=self._excluded))
            except CalveError as error:
                if not may_lie_in_events(error):
                    raise
                self._leave_out_together(whole, error)

    @property
    def _excluded(self) -> tuple[Excluded, ...]:
        return tuple(exclusion for exclusion, _ in self.found)

    def _search(self, part: Window, error: CalveError) -> None:
        """Divide a failing part; parts are ranges of event numbers in the batch."""
        start, end = part
        if end - start == 0:
            return
        if end - start == 1 or self._probes >= PROBES:
            self._leave_out(part, error)
            return
        middle = (start + end) // 2
        for half in ((start, middle), (middle, end)):
            if failed := self._fails(half):
                self._search(half, failed)
            else:
                self._has_worked = True

    def _leave_out(self, part: Window, error: CalveError) -> None:
        """Leave out events of a part, sink by sink, until the rest of it works."""
        guesses = sum(isinstance(failure, WorkerLostError) for _, failure in self.found)
        if isinstance(error, WorkerLostError) and not self._has_worked and guesses >= _GUESSES:
            raise error
        confirmed = self._confirmed(part, error)
        if confirmed is None:
            self._has_worked = True
            return
        error = confirmed
        while True:
            self._exclude(part, error)
            again = self._fails(part)
            if again is None:
                return
            if any(
                exclusion.window == self._positions(part) and exclusion.sink is None for exclusion in self._excluded
            ):
                raise again
            error = again

    def _leave_out_together(self, whole: Window, error: CalveError) -> None:
        """Leave out all events of a table that fails only with several events together."""
        if not isinstance(error, UnprocessableError) or error.sink is None:
            raise error
        window = self._positions(whole)
        if any(
            exclusion.window == window and (exclusion.sink, exclusion.table) == (error.sink, error.target)
            for exclusion in self._excluded
        ):
            raise error
        if self._confirmed(whole, error) is None:
            raise error
        self._exclude(whole, error)

    def _confirmed(self, part: Window, error: CalveError) -> CalveError | None:
        """Try a failing part again, once the engine has done the same without events; None: it works now.

        Raises:
            CalveError: `error`: the step fails without events too, so none is to blame.
        """
        if self._fails((0, 0)):
            raise error
        return self._fails(part)

    def _exclude(self, part: Window, error: CalveError) -> None:
        """Leave out a part's events of the failed table; all events if it is unknown, or if that did not help."""
        window = self._positions(part)
        sink, table = getattr(error, "sink", None), error.target
        excluded = [(exclusion.sink, exclusion.table) for exclusion in self._excluded if exclusion.window == window]
        if sink is None or (sink, table) in excluded or len(excluded) >= _TABLES:
            sink, table = None, ""
        self.found.append((Excluded(window, sink, table, f"step {error.step}: {error.message}"), error))

    def _fails(self, part: Window) -> CalveError | None:
        """Try a part, and return its failure. A single event that ends workers must do so repeatedly."""
        tries = _CRASHES if part[1] - part[0] == 1 else 1
        for crashes in range(tries):
            self._probes += 1
            try:
                self._attempt(Isolation(self._positions(part), self._excluded, is_probe=True))
            except WorkerLostError as error:
                if crashes == tries - 1:
                    return error
            except UnprocessableError as error:
                return error
            else:
                return None
        raise AssertionError("at least one try")

    def _positions(self, part: Window) -> Window:
        start, end = part
        return (0, 0) if start == end else (self._position(start), self._position(end - 1) + 1)

    def _position(self, number: int) -> int:
        split = bisect.bisect_right(self._ends, number)
        return position(split, number - (self._ends[split - 1] if split else 0))
