"""One fault before the servers of live pipelines: what they say of it, and when they have gone on."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from faults.streams import Stream
from kit.running import Calve
from services.faulty import Fault

__all__ = ["Observed", "Status", "Trial"]

GIVE_SECONDS = 0.5
LOOK_SECONDS = 0.2
Status = Callable[[], dict[str, Any]]


@dataclass
class Observed:
    """What one fault before one server did.

    Attributes:
        server: The server.
        fault: The fault.
        fault_seconds: How long it lasted.
        struck: How many connections or answers it hit.
        told_after: Seconds until the status showed an error; None: never.
        message: That error, with its hint.
        rows_meanwhile: Events that were committed during the fault.
        on_after: Seconds from its end until all events sent before it ended were committed; None: not in time.
        clear_after: Seconds from its end until the status had no error.
        ended: What the pipeline said when it ended, if it did; then it was started again.
    """

    server: str
    fault: str
    fault_seconds: float
    struck: int = 0
    told_after: float | None = None
    message: str = ""
    rows_meanwhile: int = 0
    on_after: float | None = None
    clear_after: float | None = None
    ended: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the pipeline went on, and its status is clean."""
        return self.on_after is not None and self.clear_after is not None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


class Giver:
    """Sends events to all streams, several times a second."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Send no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(GIVE_SECONDS):
            for stream in self._streams:
                stream.give()


@dataclass
class Trial:
    """A fault before the servers of several streams at once; each stream is looked at by itself.

    Attributes:
        calve: Runs a pipeline, by its name.
        status: Reads the status of a pipeline, past the proxy, by its name.
        again: Starts processes again, one of whose pipelines has ended.
        patience_seconds: How long a pipeline may take to go on.
    """

    calve: dict[str, Calve]
    status: dict[str, Status]
    again: Callable[[], None]
    patience_seconds: float
    _since: float = field(default=0.0, init=False)

    def run(self, fault: Fault, streams: Sequence[Stream], seconds: float) -> list[Observed]:
        """Break, wait, mend, and wait until all have gone on."""
        found = {stream.name: Observed(stream.name, fault.name, round(seconds, 1)) for stream in streams}
        before = {stream.name: self._rows(stream) for stream in streams}
        self._since = time.monotonic()
        for stream in streams:
            stream.proxy.break_by(fault)
        while time.monotonic() < self._since + seconds:
            self._look(streams, found)
        wanted = {stream.name: stream.sent for stream in streams}
        for stream in streams:
            found[stream.name].struck = stream.proxy.struck
            found[stream.name].rows_meanwhile = self._rows(stream) - before[stream.name]
            stream.proxy.mend()
        mended = time.monotonic()
        for stream in streams:
            found[stream.name].ended = self._ended(stream)
        if any(one.ended for one in found.values()):
            self.again()
        while time.monotonic() < mended + self.patience_seconds and not all(one.is_good for one in found.values()):
            self._look(streams, found)
            for stream in streams:
                self._look_at_end(stream, found[stream.name], wanted[stream.name], mended)
        return list(found.values())

    def settle(self, streams: Sequence[Stream]) -> None:
        """Wait until all that was sent is committed, or until the patience ends."""
        deadline = time.monotonic() + self.patience_seconds
        while any(self._rows(one) < one.sent for one in streams) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)

    def _look(self, streams: Sequence[Stream], found: dict[str, Observed]) -> None:
        time.sleep(LOOK_SECONDS)
        for stream in streams:
            one = found[stream.name]
            errors = _errors(self.status[stream.name]())
            if errors and one.told_after is None:
                one.told_after, one.message = self._passed(self._since), errors[0]

    def _look_at_end(self, stream: Stream, one: Observed, wanted: int, mended: float) -> None:
        status = self.status[stream.name]()
        if one.on_after is None and _rows(status) >= wanted:
            one.on_after = self._passed(mended)
        one.clear_after = None if _errors(status) else one.clear_after or self._passed(mended)

    def _ended(self, stream: Stream) -> str:
        process = self.calve[stream.name].process
        status = self.status[stream.name]()
        if status.get("state") == "failed" or (process and process.poll() is not None):
            said = [line for line in self.calve[stream.name].said().splitlines() if f"{stream.name} error: " in line]
            return said[-1].partition(" error: ")[2] if said else "the process ended"
        return ""

    def _rows(self, stream: Stream) -> int:
        return _rows(self.status[stream.name]())

    def _passed(self, since: float) -> float:
        return round(time.monotonic() - since, 1)


def _rows(status: dict[str, Any]) -> int:
    return sum(table["rows"] for table in status.get("tables", {}).values())


def _errors(status: dict[str, Any]) -> list[str]:
    tables = [table["error"] for table in status.get("tables", {}).values()]
    found = [*status.get("errors", ()), *(error for error in tables if error)]
    return [f"{one['message']}. {one['hint']}" if one.get("hint") else one["message"] for one in found]


def parsed(text: bytes | str) -> dict[str, Any]:
    """Return a status file's content."""
    found: dict[str, Any] = json.loads(text)
    return found
