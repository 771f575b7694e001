"""Sources of databases on the driver: plan the load of the tables, then the changes in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calve.errors import CalveError, PositionLostError, SourceUnavailableError, Verdict
from calve.observe.humanize import many
from calve.observe.log import Log as LogLines
from calve.sources.database import anew, reload
from calve.sources.database.anew import Anew
from calve.sources.database.awaited import awaited
from calve.sources.database.change_log import ChangeLog
from calve.sources.database.comparing import Comparing
from calve.sources.database.epochs import Epochs
from calve.sources.database.load import Load, check_database, chunk_of, log_position, tables_of
from calve.sources.database.own_targets import OwnTargets
from calve.sources.database.phases import Phases
from calve.sources.database.reader import DatabaseReader
from calve.sources.database.reload import Reloads, Request
from calve.sources.database.stopped import condition, marked, tell, why_stopped
from calve.sources.database.stream import DatabaseStream, Target
from calve.sources.database.table import Table
from calve.sources.source import Backlog, Planned, Position, SharedTargets, SourceTable
from calve.sources.source_files import files_in
from calve.state.location import state_folder_at
from calve.stop_point import stop_at

__all__ = ["ANY", "STEP", "DatabaseSource"]

STEP = "start"
ANY = (1 << 63) - 1
"""Behind every position: until the load is committed it may be read again, when its rows are later ones."""


class DatabaseSource(Phases):
    """Loads the tables, and reads every change from exactly there on.

    Args:
        reader: The reader of splits, with the settings and the folder `<state>/<pipeline>/<source>`.
        shared: Finds targets of several tables.
    """

    def __init__(self, reader: DatabaseReader, shared: SharedTargets) -> None:
        self.reader = reader
        self._own_targets = OwnTargets(shared, reader.settings, reader.database_of)
        self._settings = reader.settings
        self._folder = state_folder_at(reader.folder)
        self._files = files_in(self._folder)
        self._pipeline = reader.pipeline
        self._lines = LogLines(self._pipeline)
        self._once = False
        self._number = 0
        self._anew: Anew | None = None
        self._replaces = False
        self._reset()

    def _reset(self) -> None:
        """Set what a load begins with; nothing is opened."""
        self._epochs = Epochs(self._files, self._settings.merge_tables, self._settings.no_key == "append")
        self._log = ChangeLog(self._folder, self._settings, self._pipeline, self._files)
        self._reloads = Reloads(self._files, self._epochs, self._lines)
        self._stream: DatabaseStream | None = None
        self._until: int | None = None
        self._load = Load(self._files)
        self._comparing = Comparing(
            self._load, self._reloads, self._add_load, lambda: self._stop_unreadable(now=True, is_again=False)
        )
        self._unreadable: set[int] = set()
        self._committed: Position | None = None

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Check the database, make what is missing there, and begin to read its changes.

        Raises:
            PositionLostError: The server, or the log of changes, no longer has the changes after the position.
            SourceError: The database is not ready; the hint has the SQL that mends it.
            SourceUnavailableError: The database does not answer.
            WriteError: The object store does not answer; may be repeated.
        """
        self._once = once
        self._files.take()
        begun = self._load.read()
        self._number = begun.get("load", 0) if begun else 0
        self._anew = anew.read(self._files, self._number if begun else None)
        if begun is None and self._anew is not None:
            return  # nothing is left of before
        self._open(position, begun, pending)

    def _open(self, position: Position | None, begun: dict[str, Any] | None, pending: Sequence[Planned] = ()) -> None:
        """Begin, or go on."""
        position = self._own(position)
        try:
            if self._anew is None:
                begun, self._until = self._prepare(begun)
        except PositionLostError as error:
            self._lose(error)
        assert begun is not None
        if self._anew is not None:
            self._epochs.load()
        else:
            self._reloads.resume(begun)
        self._committed = None if pending else position
        self._load.open(begun, position, pending)
        if not self._load.is_done:
            self._begin_load()
        self._log.open(log_position(position))
        self._stream = self._new_stream()
        if self._anew is not None:
            return
        tell(self.stopped, self._lines)
        self._stop_unreadable()
        self._stream.start()

    def _new_stream(self) -> DatabaseStream:
        log = self._log
        known = self._epochs, self._load.begun, self._own_targets
        target = Target(self._settings, self._pipeline, log.outbox(), log.positions, *known)
        return self._follow(target, self._until if self._once else None)

    def _began(
        self, database: str, start: Any, chunks: list[dict[str, Any]], tables: Sequence[Table]
    ) -> dict[str, Any]:
        """Write down where a new state begins: at the first position of the stream, with these tables and chunks."""
        new = {"database": database, "start": start, "chunks": chunks}
        begun = self._load.begin({**new, "load": self._number, "replaces": self._replaces}, self._epochs, tables)
        self._lines.info(f"loads {many(len(tables), 'table')} of {self._settings.shown}, then follows their changes")
        return begun

    def _go_on(self, begun: dict[str, Any], database: str) -> None:
        """Check that a state is of this database, and load its tables.

        Raises:
            SourceError: It is of another one.
        """
        check_database(begun, database, self._settings.shown)
        self._epochs.load()
        self._own_targets.go_on(self._epochs.tables.values())

    def backlog(self, position: Position | None) -> Backlog:
        """Return the size of the chunks and changes after a position.

        Raises:
            CalveError: The stream has ended by itself, and everything before is read.
        """
        position = self._own(position)
        if self._anew is None and anew.is_requested(self._files, self._number):
            self._begin_anew("somebody has asked for it")
        if self._anew is not None:
            return Backlog(-1, 1)
        self._look_for_reload()
        if self._reloads.note is not None and not self._log.next(log_position(position), 1, self._reloads.before):
            self._reloads.is_drained = True
            return Backlog(-1, 1)
        stream = self._running
        if not self._load.is_done:
            self._stop_unreadable()
        failed, reached = stream.failed, stream.reached  # before the log is looked at, which may grow meanwhile
        left = self._load.left(position)
        waiting = self._log.backlog(log_position(position))
        if left:
            return Backlog(-1, sum(chunk["bytes"] for chunk in left) + waiting.size_bytes, is_urgent=True)
        if self._load.comparing:
            return Backlog(-1, 1)
        if self._reloads.note is not None:
            return replace(waiting, is_urgent=True)
        if waiting or reached:
            return waiting
        if failed is not None and self._has_ended(position):
            return Backlog(-1, 1)
        return Backlog(-1, 1) if self._once else waiting  # more may come before the end

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return the next chunks, or the next changes with one description of each table."""
        if self._anew is not None:
            return None
        position = self._own(position)
        if load := self._load.plan(position, max_bytes):
            return load
        if self._load.comparing:
            return None
        find = self._await if self._once and self._reloads.note is None else self._next
        planned = find(position, max_bytes)
        if planned is None:
            return None
        until = max(self._loaded_until(), self._load.begun.get("until", 0)) if self._load.is_done else ANY
        splits = [replace(split, body={**split.body, "until": until}) for split in planned.splits]
        return self._load.planned(Planned(splits, planned.position), len(self._load.chunks))

    def tables(self, planned: Planned) -> list[SourceTable]:
        """Return the tables of a batch, as they were then."""
        return tables_of(planned, self._epochs, self._log.epoch)

    def acknowledge(self, planned: Planned) -> None:
        """Let the log delete the changes of a committed batch; end the load after its last chunk."""
        if self._own(planned.position) is None:
            return
        if chunk_of(planned.position) >= len(self._load.chunks) and not self._load.is_done:
            self._stop_unreadable(now=True)
            self._end_load()
            self._load.is_done = True
        self._log.release(log_position(planned.position))
        self._committed = planned.position
        self._load.committed(planned.position)

    def stop(self) -> None:
        """Stop reading, and close. May be called twice."""
        self._log.hurry()
        if self._stream is not None:
            self._stream.stop()
        self._end_load()
        self._log.close()

    @property
    def to_clear(self) -> list[SourceTable] | None:
        """See `Reloads`."""
        if self._anew is None:
            return self._reloads.to_clear
        return [table.source_table() for table in self._anew.tables if table.is_readable]

    @property
    def to_keep(self) -> list[SourceTable]:
        """See `Reloads`."""
        return self._reloads.to_keep if self._anew is None else []

    def cleared(self, is_complete: bool) -> None:
        """See `Reloads`."""
        if self._anew is None:
            self._add_load(self._reloads.loading(self._load.begun, not is_complete))
            return
        self.stop()
        decided, self._anew = self._anew, None
        self._number, self._replaces = decided.load, not is_complete
        self._log.clear()
        anew.wipe(self._files)
        self._reset()
        try:
            self._open(None, None)
        except CalveError:
            self._anew = decided  # all of this is repeated
            raise
        anew.finish(self._files)

    @property
    def comparing(self) -> Comparing | None:
        """See `Compares`."""
        return None if self._anew is not None else self._comparing

    def _add_load(self, begun: dict[str, Any]) -> None:
        """Load tables again after all changes from before."""
        is_done = len(begun["chunks"]) == len(self._load.chunks)
        if is_done:
            self._end_load()
        else:
            self._begin_load()
        self._load.add(begun)
        self._load.is_done = is_done
        stop_at("reload.after-begun")
        self._reloads.finish()

    def _look_for_reload(self) -> None:
        """Begin to load tables anew, if somebody asks for it, and nothing is being loaded."""
        reloads, stream = self._reloads, self._running
        if reloads.note is None:
            is_free = self._load.is_done and not self._load.comparing and stream.failed is None
            wanted = reloads.wanted(self._number) if is_free else None
            if wanted is None and stream.has_halted:
                self._restart()
            if wanted is None or (self._settings.transactional and not stream.halt()):
                return
            stream.stop()
            if not self._reload(*wanted):
                return
        if not reloads.is_applied:
            reloads.apply()
            self._unreadable.clear()
            self._restart()

    def _reload(self, name: str, asked: Request) -> bool:
        """Write down that tables are loaded anew; if they cannot be, go on without.

        Raises:
            CalveError: In a run with `once`, they cannot be loaded yet.
        """
        try:
            if (until := self._loaded_until()) < ANY:
                self._load.keep(until)
                beginning = self._begin_reload(asked.narrowed(self._settings)).of(asked)
            if until == ANY or (beginning.start, 0) < self._log.positions.last.order:
                raise SourceUnavailableError(f"{self.system} is not ready to load tables", step=STEP)
        except CalveError as error:
            self._restart()
            if self._once and error.verdict is Verdict.AGAIN:
                raise
            self._reloads.failed(name, asked, error)
            return False
        self._reloads.begin(name, self._load.begun, beginning, asked.compares)
        self._until = beginning.end
        return True

    def _restart(self) -> None:
        self._stream = self._new_stream()
        self._stream.start()

    def _lose(self, error: PositionLostError) -> None:
        """Decide to begin anew.

        Raises:
            PositionLostError: The settings do not allow it.
        """
        if self._settings.on_lost_position != "reload":
            raise error
        self._epochs.load()
        self._begin_anew(error.message)

    def _begin_anew(self, why: str) -> None:
        self._lines.warning(f"all tables are loaded anew: {why}")
        self._anew = anew.decide(self._files, self._number + 1, list(self._epochs.tables.values()))

    def _own(self, position: Position | None) -> Position | None:
        """Return a position of this load; None for one of an earlier load."""
        return position if position and position.get("load", 0) == self._number else None

    @property
    def condition(self) -> str:
        """How far the load is, and the stream."""
        if self._anew is not None:
            return "all tables are loaded anew"
        load = self._reloads.condition or self._load.condition
        parts = [load, self._running.condition, self._log.condition, condition(self.stopped)]
        return "; ".join(part for part in parts if part)

    @property
    def stopped(self) -> Mapping[str, str]:
        """The tables that are not read any more, and why."""
        return why_stopped(self._epochs.tables.values(), self._settings.selected)

    @property
    def _running(self) -> DatabaseStream:
        assert self._stream is not None
        return self._stream

    def _stop_unreadable(self, now: bool = False, is_again: bool = True) -> None:
        """Stop the tables that tasks could not read; they are read again, if the settings say so."""
        policy = self._settings.on_unlogged_change if is_again else ""
        for oid, why in marked(self._files, now).items():
            table = self._epochs.tables[oid]
            if oid not in self._unreadable and not table.stopped:
                self._unreadable.add(oid)
                again = reload.policy_for(table, policy, why)
                hint = reload.read_again(again, self._files, self._number, table.full_name)
                self._running.stop_table(oid, why, hint)

    def _next(self, position: Position | None, max_bytes: int) -> Planned | None:
        return self._log.next(log_position(position), max_bytes, self._reloads.before)

    def _await(self, position: Position | None, max_bytes: int) -> Planned | None:
        stream, positions = self._running, self._log.positions
        planned = awaited(stream, positions, lambda: self._next(position, max_bytes), lambda: self._has_ended(position))
        if planned is None and self._reloads.wanted(self._number):
            self.backlog(position)  # tables that are to be read again belong to this run
        return planned

    def _has_ended(self, position: Position | None) -> bool:
        """Return whether all tables are loaded anew, because the stream has ended.

        Raises:
            CalveError: It has ended for good, and everything before is committed.
        """
        failed = self._running.failed
        if isinstance(failed, PositionLostError) and self._settings.on_lost_position == "reload":
            self._lose(failed)
            return True
        if failed is not None and self._committed == position:
            raise failed
        return False
