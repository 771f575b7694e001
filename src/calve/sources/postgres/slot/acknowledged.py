"""The last acknowledged LSN; a slot ahead of it was moved by another client.

A slot that was dropped and created again, e.g. after a failover, or that another session read, goes on behind changes
that nobody has here; the server sends what follows without a word.
"""

from __future__ import annotations

import contextlib
import time

from calve.errors import PositionLostError, WriteError
from calve.sources.database.failure import LOAD_AGAIN
from calve.sources.database.stream import READ
from calve.sources.postgres.catalog.database import Slot
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.source_files import SourceFiles, encoded, read_json

__all__ = ["Acknowledged"]

_FILE = "acknowledged.json"
_SECONDS = 5.0
"""How often it is written down: the server keeps its log so much longer."""


class Acknowledged:
    """The furthest position that the server may have been told; written down before it is told.

    Args:
        files: The files of the source.

    Attributes:
        at: The position; None in a state that older versions of Calve began.
    """

    def __init__(self, files: SourceFiles) -> None:
        self._files = files
        self._written = time.monotonic()
        self.at: int | None = read_json(files, _FILE)

    def write(self, at: int) -> None:
        """Write down a position, unless it is behind the last one.

        Raises:
            WriteError: It cannot be written.
            OvertakenError: Another driver has the files by now.
        """
        if self.at is None or at > self.at:
            self._files.write(_FILE, encoded(at))
            self.at = at
        self._written = time.monotonic()

    def until(self, flushed: int) -> int:
        """Return what the server may be told, if everything up to `flushed` is durable.

        Raises:
            OvertakenError: Another driver has the files by now.
        """
        if time.monotonic() > self._written + _SECONDS:
            with contextlib.suppress(WriteError):  # a full disk, or a store that does not answer: later
                self.write(flushed)
        return min(flushed, self.at or 0)

    def check(self, slot: Slot, settings: PostgresSettings) -> None:
        """Check that a slot is not further than that.

        Raises:
            PositionLostError: It is.
        """
        if self.at is None:
            self.write(slot.confirmed)
        elif slot.confirmed > self.at:
            raise PositionLostError(
                "The slot was created again or moved by somebody else, and lacks changes since Calve read it",
                step=READ,
                target=settings.shown,
                hint=f"Changes may be missing. {LOAD_AGAIN}",
            )
