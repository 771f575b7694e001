"""The events of a pipeline until every receiver has them: kept in the state, so that no kill loses one.

Events become durable together, in one file of a cycle of commits, before the ledger forgets the batches that they are
about. So after a kill either the file is there, or the batch is: it is committed again, and makes the same events
again. A file is removed when all its events are sent and its batches are forgotten; until then its ids are known, so
that nothing is kept twice.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from calve.notify.event import CloudEvent
from calve.state.folder import StateFolder
from calve.state.values import encoded, read_as

__all__ = ["MOST_WAITING", "Cursor", "Outbox"]

MOST_WAITING = 10_000
"""The most events that wait for a receiver; beyond it the oldest are dropped for it, and counted."""
_CURSOR = "sent-"


class _Kept(msgspec.Struct, frozen=True):
    """A file of events; `batch` is the last batch that they may be about."""

    batch: int
    events: list[CloudEvent]


class Cursor(msgspec.Struct, frozen=True):
    """How far a receiver is: the number of the last event that it has, and how many were dropped for it."""

    number: int = 0
    dropped: int = 0


@dataclass
class _File:
    name: str
    kept: _Kept


class Outbox:
    """The events of one pipeline; for any thread.

    Args:
        folder: Where they are kept.
        receivers: The keys of the receivers. A new one begins with the next event.

    Attributes:
        changed: Notified when there are new events; its lock guards everything here.
    """

    def __init__(self, folder: StateFolder, receivers: Collection[str]) -> None:
        self._folder = folder
        self.changed = threading.Condition()
        self._files = [
            _File(name, kept)
            for name in sorted(folder.names())
            if not name.startswith(_CURSOR) and (kept := read_as(folder, name, _Kept)) is not None
        ]
        self._ids = {event.id for file in self._files for event in file.kept.events}
        self._new: list[CloudEvent] = []
        cursors = {key: read_as(folder, f"{_CURSOR}{key}.json", Cursor) for key in receivers}
        numbers = [event.number for file in self._files for event in file.kept.events]
        self._last = max([0, *numbers, *(cursor.number for cursor in cursors.values() if cursor)])
        self._cursors = {key: cursor or Cursor(self._last) for key, cursor in cursors.items()}
        for key, cursor in cursors.items():
            if cursor is None:
                folder.put(f"{_CURSOR}{key}.json", encoded(self._cursors[key]))

    def add(self, event: CloudEvent) -> None:
        """Add an event, which is sent after the next `keep`; one that is there already is ignored."""
        with self.changed:
            if event.id not in self._ids:
                self._ids.add(event.id)
                self._new.append(event)

    def keep(self, batch: int) -> None:
        """Make the new events durable, and let them be sent.

        Args:
            batch: The last batch that they may be about.

        Raises:
            WriteError: The state cannot be written; repeat the call.
        """
        with self.changed:
            new = list(self._new)
        if not new:
            return
        numbered = [
            msgspec.structs.replace(event, sequence=f"{self._last + number:020d}")
            for number, event in enumerate(new, start=1)
        ]
        file = _File(f"{numbered[0].sequence}.json", _Kept(batch, numbered))
        self._folder.put(file.name, encoded(file.kept))
        with self.changed:
            self._last += len(numbered)
            self._files.append(file)
            del self._new[: len(new)]
            self.changed.notify_all()

    def after(self, key: str, most: int) -> list[CloudEvent]:
        """Return the next events for a receiver; what is too old is dropped for it, and counted."""
        with self.changed:
            cursor = self._cursors[key]
            first = self._last - MOST_WAITING
            if cursor.number < first:
                self._cursors[key] = cursor = Cursor(first, cursor.dropped + first - cursor.number)
            events = [event for file in self._files for event in file.kept.events if event.number > cursor.number]
            return events[:most]

    def sent(self, key: str, number: int) -> None:
        """Record the last event that a receiver has.

        Raises:
            WriteError: The state cannot be written; then some events are sent again after a restart.
        """
        with self.changed:
            cursor = self._cursors[key] = Cursor(number, self._cursors[key].dropped)
        self._folder.put(f"{_CURSOR}{key}.json", encoded(cursor))

    def forget(self, committed: int) -> None:
        """Remove the files whose events all receivers have, and whose batches are forgotten up to a batch.

        Raises:
            WriteError: The state cannot be written; repeat the call.
        """
        with self.changed:
            first = min(cursor.number for cursor in self._cursors.values())
            first = max(first, self._last - MOST_WAITING)
            old = [
                file for file in self._files if file.kept.batch <= committed and file.kept.events[-1].number <= first
            ]
        self._folder.remove([file.name for file in old])
        with self.changed:
            self._files = [file for file in self._files if file not in old]
            self._ids -= {event.id for file in old for event in file.kept.events}

    def waiting(self, key: str) -> tuple[int, int]:
        """Return how many durable events a receiver does not have yet, and how many were dropped for it."""
        with self.changed:
            cursor = self._cursors[key]
            return min(self._last - cursor.number, MOST_WAITING), cursor.dropped
