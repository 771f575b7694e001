"""Sources of databases on the driver: load the tables, follow their changes, read some again, or start over.

    loading       chunks of the tables become batches             begun.json
    following     changes in the log become batches               log/
    reloading     some tables are read again, the others wait     reloading.json
    starting over the state is of no use: all of it begins again  anew.json

Each phase outlasts crashes by its file. `DatabaseSource` asks them in this order: starting over before everything
else, the end of what is from before a reload, chunks before changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calve.errors import CalveError, PositionLostError
from calve.sources.database import full_reload
from calve.sources.database.comparing import DatabaseComparing
from calve.sources.database.following import Following
from calve.sources.database.load import log_position, tables_of
from calve.sources.database.loading import Loading
from calve.sources.database.parts import Parts
from calve.sources.database.reader import DatabaseReader
from calve.sources.database.reloading import RequestedReloads
from calve.sources.database.starting_over import StartingOver
from calve.sources.database.stopped import condition, log_stopped, why_stopped
from calve.sources.database.system import DatabaseSystem
from calve.sources.source import Backlog, Planned, Position, SharedTargets, SourceTable

__all__ = ["DatabaseSource"]

_SOMETHING = Backlog(-1, 1)
"""There is something to do, whatever its size."""


class _Phases:
    """The phases of one load."""

    def __init__(self, parts: Parts, system_of: Callable[[Parts], DatabaseSystem]) -> None:
        self.parts = parts
        self.system = system_of(parts)
        self.following = Following(parts, self.system)
        self.loading = Loading(parts, self.system, self.following)
        self.reloading = RequestedReloads(parts, self.system, self.following, self.loading)


class DatabaseSource:
    """Loads the tables, and reads every change from exactly there on.

    Args:
        reader: The reader of splits, with the settings and the folder `<state>/<pipeline>/<source>`.
        shared: Finds targets of several tables.
        system_of: Returns what differs between databases.
    """

    def __init__(
        self, reader: DatabaseReader, shared: SharedTargets, system_of: Callable[[Parts], DatabaseSystem]
    ) -> None:
        self.reader = reader
        self._system_of = system_of
        parts = Parts.of(reader, shared)
        self._phases = _Phases(parts, system_of)
        self._starting_over = StartingOver(parts.files, parts.lines)

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Check the database, make what is missing there, and begin to read its changes.

        Raises:
            PositionLostError: The server, or the log of changes, no longer has the changes after the position.
            SourceError: The database is not ready; the hint has the SQL that helps.
            SourceUnavailableError: The database does not answer.
            WriteError: The object store does not answer; may be repeated.
        """
        parts = self._phases.parts
        parts.once = once
        parts.files.acquire()
        begun = parts.load.read()
        parts.number = begun.get("load", 0) if begun else 0
        self._starting_over.resume(parts.number if begun else None)
        if begun is None and self._starting_over.decided is not None:
            return  # nothing is left of before
        self._open(position, begun, pending)

    def _open(self, position: Position | None, begun: dict[str, Any] | None, pending: Sequence[Planned] = ()) -> None:
        """Begin, or go on."""
        phases, parts, over = self._phases, self._phases.parts, self._starting_over
        position = parts.own(position)
        try:
            if over.decided is None:
                begun, phases.following.until = phases.system.prepare(begun)
        except PositionLostError as error:
            self._lose(error)
        assert begun is not None
        if over.decided is not None:
            parts.epochs.load()
        else:
            parts.reloads.resume(begun)
        phases.following.committed = None if pending else position
        phases.loading.open(begun, position, pending)
        phases.following.open(position)
        if over.decided is not None:
            return
        log_stopped(self.stopped, parts.lines)
        phases.loading.stop_unreadable()
        phases.following.stream.start()

    def backlog(self, position: Position | None) -> Backlog:
        """Return the size of the chunks and changes after a position.

        Raises:
            CalveError: The stream has ended by itself, and everything before is read.
        """
        phases, parts = self._phases, self._phases.parts
        position = parts.own(position)
        self._starting_over.decide_if_requested(parts.number, parts.epochs.tables.values())
        if self._starting_over.decided is not None:
            return _SOMETHING
        phases.reloading.begin_requested()
        if phases.reloading.is_drained(position):
            return _SOMETHING
        if not parts.load.is_done:
            phases.loading.stop_unreadable()
        stream = phases.following.stream
        failed, reached = stream.failed, stream.reached  # before the log is asked, which may grow meanwhile
        chunks = parts.load.left(position)
        waiting = parts.log.backlog(log_position(position))
        if chunks:
            return Backlog(-1, sum(chunk["bytes"] for chunk in chunks) + waiting.size_bytes, is_urgent=True)
        if parts.load.comparing:
            return _SOMETHING
        if parts.reloads.note is not None:
            return replace(waiting, is_urgent=True)
        if waiting or reached:
            return waiting
        if failed is not None and self._has_ended(position):
            return _SOMETHING
        return _SOMETHING if parts.once else waiting  # more may come before the end

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return the next chunks, or the next changes with one description of each table."""
        phases, parts = self._phases, self._phases.parts
        if self._starting_over.decided is not None:
            return None
        position = parts.own(position)
        if chunks := parts.load.plan(position, max_bytes):
            return chunks
        if parts.load.comparing:
            return None
        planned = self._changes(position, max_bytes)
        return phases.loading.with_limit(planned) if planned else None

    def _changes(self, position: Position | None, max_bytes: int) -> Planned | None:
        following, parts = self._phases.following, self._phases.parts
        if not parts.once or parts.reloads.note is not None:
            return following.next(position, max_bytes)
        planned = following.awaited(position, max_bytes, lambda: self._has_ended(position))
        if planned is None and parts.reloads.wanted(parts.number):
            self.backlog(position)  # tables that are to be read again belong to this run
        return planned

    def tables(self, planned: Planned) -> list[SourceTable]:
        """Return the tables of a batch, as they were then."""
        parts = self._phases.parts
        return tables_of(planned, parts.epochs, parts.log.epoch)

    def acknowledge(self, planned: Planned) -> None:
        """Let the log delete the changes of a committed batch; end the load after its last chunk."""
        phases, parts = self._phases, self._phases.parts
        if parts.own(planned.position) is None:
            return
        phases.loading.committed(planned.position)
        parts.log.release(log_position(planned.position))
        phases.following.committed = planned.position
        parts.load.committed(planned.position)

    def stop(self) -> None:
        """Stop reading, and close. May be called twice."""
        self._phases.following.stop()
        self._phases.system.end_load()
        self._phases.parts.log.close()

    @property
    def tables_to_empty(self) -> list[SourceTable] | None:
        """See `CanReload`."""
        return (
            self._phases.parts.reloads.tables_to_empty
            if self._starting_over.decided is None
            else self._starting_over.tables
        )

    @property
    def to_keep(self) -> list[SourceTable]:
        """See `CanReload`."""
        return self._phases.parts.reloads.to_keep if self._starting_over.decided is None else []

    def emptied(self, is_complete: bool) -> None:
        """See `CanReload`."""
        decided = self._starting_over.decided
        if decided is None:
            self._phases.reloading.emptied(is_complete)
            return
        self.stop()
        former = self._phases.parts
        self._starting_over.decided = None
        former.log.clear()
        full_reload.wipe(former.files)
        self._phases = _Phases(former.renewed(decided.load, replaces=not is_complete), self._system_of)
        try:
            self._open(None, None)
        except CalveError:
            self._starting_over.decided = decided  # all of this is repeated
            raise
        full_reload.finish(former.files)

    @property
    def comparing(self) -> DatabaseComparing | None:
        """See `Compares`."""
        return self._phases.reloading.comparing if self._starting_over.decided is None else None

    @property
    def condition(self) -> str:
        """How far the load is, and the stream."""
        if self._starting_over.decided is not None:
            return "all tables are loaded again"
        parts, stream = self._phases.parts, self._phases.following.stream
        load = parts.reloads.condition or parts.load.condition
        sentences = [load, stream.condition, parts.log.condition, condition(self.stopped)]
        return "; ".join(sentence for sentence in sentences if sentence)

    @property
    def stopped(self) -> Mapping[str, str]:
        """The tables that are not read any more, and why."""
        parts = self._phases.parts
        return why_stopped(parts.epochs.tables.values(), parts.settings.selected)

    def _has_ended(self, position: Position | None) -> bool:
        """Return whether all tables are loaded again, because the stream has ended.

        Raises:
            CalveError: It has ended for good, and everything before is committed.
        """
        following, parts = self._phases.following, self._phases.parts
        failed = following.stream.failed
        if isinstance(failed, PositionLostError) and parts.settings.on_lost_position == "reload":
            self._lose(failed)
            return True
        if failed is not None and following.committed == position:
            raise failed
        return False

    def _lose(self, error: PositionLostError) -> None:
        """Decide to start over.

        Raises:
            PositionLostError: The settings do not allow it.
        """
        parts = self._phases.parts
        if parts.settings.on_lost_position != "reload":
            raise error
        parts.epochs.load()
        self._starting_over.lose(error, parts.number, parts.epochs.tables.values())
