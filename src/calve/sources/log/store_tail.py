"""The end of a log on an object store: each write creates the next object of the chain."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from calve.errors import CalveError, OvertakenError
from calve.network.backoff import delay
from calve.observe.log import Log as LogLines
from calve.sources.log import store_chain
from calve.sources.log.segment import Segment
from calve.sources.log.store_chain import SegmentCause
from calve.state.store_folder import StoreFolder

__all__ = ["StoreTail"]

_BOUNDLESS = 1 << 62


class StoreTail:
    """Creates objects with complete records, as the only driver that can (see `store_chain`).

    A store that does not answer may have carried out a write, so the same object is created again and again until the
    answer is known: that it was created, that it is there already, or that another driver has taken the log over.

    Args:
        folder: The source's folder.
        lines: The pipeline's log.

    Attributes:
        overtaken: The error of a log that another driver has taken over.
    """

    def __init__(self, folder: StoreFolder, lines: LogLines) -> None:
        self._folder = store_chain.log_folder(folder)
        self._lines = lines
        self._hurry = threading.Event()
        self._failed: CalveError | None = None
        self._closed = False
        self._remover = ThreadPoolExecutor(1, "calve-log-remover")
        self.overtaken: CalveError | None = None
        self.segment: Segment

    def open(self, last: Segment | None) -> None:
        """Continue in the segment that `take_over` began."""
        assert last is not None
        self.segment = last

    def write(self, data: bytes) -> None:
        """Create an object with complete records at the end of the segment.

        Raises:
            OvertakenError: Another driver has taken over, and nothing was written.
            CalveError: It is unknown whether they were written, and nothing can be written any more.
        """
        self._create(data)
        self.segment.parts.append(self.segment.end)

    def repair(self) -> None:
        """Check that the end is known.

        Raises:
            CalveError: It is not, or another driver has taken over.
        """
        if self._failed is not None:
            raise self._failed

    def roll(self) -> Segment:
        """Close the segment, and return a new one, which is now open.

        Raises:
            CalveError: See `write`.
        """
        return self._begin(SegmentCause.NEXT)

    def delete(self, old: Segment) -> None:
        """Delete a closed segment, soon. What is left of it after a crash is deleted after the next start."""
        names = store_chain.names_of(old)
        if names and self._closed:
            self._remove(names)
        elif names:
            self._remover.submit(self._remove, names)

    def free_bytes(self) -> int:
        """Return what has no bound: the space on the store."""
        return _BOUNDLESS

    def hurry(self) -> None:
        """Try each write only once from now on: the process ends."""
        self._hurry.set()

    def close(self) -> Segment | None:
        """Note that this driver writes no more; return the empty segment that begins with the note, if it could."""
        if self._closed:
            return None
        self._closed = True
        self._remover.shutdown()
        try:
            return self._begin(SegmentCause.CLOSED)
        except CalveError as error:  # then the next driver keeps this one out
            self._lines.debug(f"the log was not closed: {error}")
            return None

    def _begin(self, kind: SegmentCause) -> Segment:
        self._create(store_chain.head(kind))
        self.segment = Segment(self.segment.number + 1, self.segment.end)
        return self.segment

    def _create(self, content: bytes) -> None:
        self.repair()
        name, failures = store_chain.name(self.segment.number, self.segment.end), 0
        while True:
            try:
                if self._folder.create(name, content) is None:
                    self._require(name, content)
                break
            except OvertakenError as error:
                self.overtaken = self._failed = error
                raise
            except CalveError as error:
                if not failures:
                    self._lines.warning(f"events wait for the object store: {error.message}", hint=error.hint)
                if self._hurry.wait(delay(failures)):
                    self._failed = error
                    raise
                failures += 1
        if failures:
            self._lines.info("the object store answers again")

    def _require(self, name: str, content: bytes) -> None:
        """Check that an object which is there is the one that was to be created: an earlier answer was lost.

        Raises:
            OvertakenError: It is another one.
        """
        stored = self._folder.get(name)
        if stored is None or stored.content != content:
            raise OvertakenError(
                "Another driver took over this pipeline: it continues the log of events",
                step="read",
                target=str(self._folder),
                hint="This one was paused or could not reach the state for too long. It writes nothing any more; "
                "`calve run --standby` lets it wait for its turn",
            )

    def _remove(self, names: list[str]) -> None:
        try:
            self._folder.remove_all(names)
        except CalveError as error:
            self._lines.debug(f"released events are still on the store: {error}")
