"""Sends the events of a pipeline to one receiver, on a thread of its own: no commit waits for a receiver."""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from calve.errors import CalveError
from calve.network.backoff import delay
from calve.notify.event import CloudEvent
from calve.notify.outbox import MOST_WAITING, Outbox
from calve.notify.receivers import Receiver
from calve.observe.log import Log
from calve.observe.report import NotifyReport
from calve.settings.notify import NotifySettings

__all__ = ["Sender", "Subscription"]

_LAST_SECONDS = 1.0
"""How long the end of a run waits at least for a request that is on its way."""


@dataclass(frozen=True)
class Subscription:
    """A receiver, and which events it gets.

    Attributes:
        settings: The receiver.
        sinks: The numbers of the sinks whose events it gets; None: all events of the pipeline.
    """

    settings: NotifySettings
    sinks: frozenset[int] | None = None

    @property
    def key(self) -> str:
        """A name for its file in the state, the same in every run."""
        what = f"{self.settings.address} {sorted(self.sinks or ())} {sorted(self.settings.events)}"
        return f"{zlib.crc32(what.encode()):08x}"

    def wants(self, event: CloudEvent) -> bool:
        """Return whether an event is sent to it."""
        is_chosen = not self.settings.events or event.type in self.settings.events
        return is_chosen and (self.sinks is None or not self.sinks.isdisjoint(event.sinks))


class Sender:
    """Sends events to one receiver, in order, each at least once.

    Args:
        subscription: The receiver, and what it gets.
        receiver: The opened receiver.
        outbox: The events.
        report: Called with what to show of it.
        log: The pipeline's log.
    """

    def __init__(
        self,
        subscription: Subscription,
        receiver: Receiver,
        outbox: Outbox,
        report: Callable[[str, NotifyReport], None],
        log: Log,
    ) -> None:
        self._subscription = subscription
        self._receiver = receiver
        self._outbox = outbox
        self._report = report
        self._log = log
        self._ended = threading.Event()
        self._sent, self._failures = 0, 0
        self._error, self._is_failed = "", False
        self._thread = threading.Thread(target=self._run, name=f"notify-{subscription.key}", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._show()
        self._thread.start()

    def finish(self, deadline: float, is_failed: bool = False) -> int:
        """Wait until all events are sent, but not beyond a time in monotonic seconds; return how many are left."""
        self._is_failed = is_failed
        with self._outbox.changed:
            while self._waiting() and self._thread.is_alive() and (seconds := deadline - time.monotonic()) > 0:
                self._outbox.changed.wait(seconds)
        self._ended.set()
        with self._outbox.changed:
            self._outbox.changed.notify_all()
        self._thread.join(max(_LAST_SECONDS, deadline - time.monotonic()))
        self._show()
        return self._waiting()

    def _waiting(self) -> int:
        return self._outbox.waiting(self._subscription.key)[0]

    def _run(self) -> None:
        while not self._begins():
            if self._ended.wait(delay(self._failures - 1)):
                return
        while not self._ended.is_set():
            with self._outbox.changed:
                events = self._outbox.after(self._subscription.key, self._receiver.at_once)
                if not events:
                    self._outbox.changed.wait()
                    continue
            try:
                self._send(events)
            except CalveError as error:
                self._failed(error)
                self._ended.wait(delay(self._failures - 1))
            self._show()
        if not self._failures:
            with contextlib.suppress(CalveError):  # nobody waits for it, and the next run sends its own
                self._receiver.end(self._is_failed)

    def _begins(self) -> bool:
        try:
            self._receiver.begin()
        except CalveError as error:
            self._failed(error)
            self._show()
            return False
        self._recovered()
        return True

    def _send(self, events: list[CloudEvent]) -> None:
        wanted = [event for event in events if self._subscription.wants(event)]
        if wanted:
            self._receiver.send(wanted)
        self._outbox.sent(self._subscription.key, events[-1].number)
        self._sent += len(wanted)
        self._recovered()
        with self._outbox.changed:
            self._outbox.changed.notify_all()

    def _recovered(self) -> None:
        if self._failures:
            self._log.info(f"notify: {self._subscription.settings.address} gets events again")
        self._failures, self._error = 0, ""

    def _failed(self, error: CalveError) -> None:
        if not self._failures:
            self._log.error(error)
        self._failures += 1
        self._error = error.message

    def _show(self) -> None:
        dropped = self._outbox.waiting(self._subscription.key)[1]
        events = self._outbox.after(self._subscription.key, MOST_WAITING)
        waiting = sum(self._subscription.wants(event) for event in events)
        address = self._subscription.settings.address
        self._report(address, NotifyReport(self._sent, waiting, dropped, self._error))
