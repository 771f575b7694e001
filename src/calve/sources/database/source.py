"""Sources of databases on the driver: plan the load of the tables, then the changes in the log."""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from calve import durable
from calve.errors import PositionLostError, SourceError, SourceUnavailableError
from calve.observe.humanize import many, size
from calve.observe.log import Log as LogLines
from calve.sources.database import anew, overview
from calve.sources.database.anew import Anew
from calve.sources.database.epochs import Epochs
from calve.sources.database.follow import fitting
from calve.sources.database.outbox import Outbox, Waiter
from calve.sources.database.reader import DatabaseReader
from calve.sources.database.stopped import WAY_OUT, condition, marked
from calve.sources.database.stream import DatabaseStream, Target
from calve.sources.database.stream_position import DurablePositions, StreamPosition
from calve.sources.database.table import Table
from calve.sources.log.index import Index, LogPosition
from calve.sources.log.log import Limits, Log
from calve.sources.log.segment import name as segment_name
from calve.sources.source import Backlog, Planned, Position, SourceTable, Split

__all__ = ["ANY", "STEP", "DatabaseSource"]

STEP = "start"
_BEGUN = "begun.json"
_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.05
ANY = (1 << 63) - 1
"""Behind every position: until the load is committed it may be read again, when its rows are later ones."""


class DatabaseSource(ABC):
    """Loads the tables, and reads every change from exactly there on.

    Args:
        reader: The reader of splits, with the settings and the folder `<state>/<pipeline>/<source>`, which has the log
            of changes, and what was begun.
    """

    system: str
    """What the database is called."""

    def __init__(self, reader: DatabaseReader) -> None:
        self.reader = reader
        self._settings = reader.settings
        self._folder = Path(reader.folder)
        self._pipeline = reader.pipeline
        self._lines = LogLines(self._pipeline)
        self._once = False
        self._load = 0
        self._anew: Anew | None = None
        self._reset()

    def _reset(self) -> None:
        """Set what a load begins with; nothing is opened."""
        settings = self._settings
        self._epochs = Epochs(self._folder)
        self._positions = DurablePositions(self._folder)
        self._index = Index(self._folder)
        limits = Limits(settings.max_log_bytes, settings.min_free_bytes)
        self._log = Log(self._folder, self._index, self._positions, limits, self._pipeline)
        self._waiter = Waiter()
        self._stream: DatabaseStream | None = None
        self._chunks: list[dict[str, Any]] = []
        self._is_loaded = self._is_noted = False
        self._planned = 0
        self._unreadable: set[int] = set()
        self._committed: Position | None = None

    @abstractmethod
    def _prepare(self, begun: dict[str, Any] | None) -> tuple[dict[str, Any], int]:
        """Check the database; begin a new state with `_began`, or check that an older one can go on.

        Returns:
            What was begun, and the position of the server's last change.
        """

    @abstractmethod
    def _follow(self, target: Target, until: int | None) -> DatabaseStream:
        """Return the stream."""

    @abstractmethod
    def _loaded_until(self) -> int:
        """Return a position after every commit that the loaded rows may have; called when the load is committed."""

    @abstractmethod
    def _begin_load(self) -> None:
        """Make sure that tasks can read chunks."""

    @abstractmethod
    def _end_load(self) -> None:
        """Clean up, because no chunk is read any more; may be called more than once, by any thread."""

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Check the database, make what is missing there, and begin to read its changes.

        Raises:
            PositionLostError: The server, or the log of changes, no longer has the changes after the position.
            SourceError: The database is not ready; the hint has the SQL that mends it.
            SourceUnavailableError: The database does not answer.
        """
        self._once = once
        durable.make_folder(self._folder)
        begun = durable.read(self._folder / _BEGUN)
        self._load = begun.get("load", 0) if begun else 0
        self._anew = anew.read(self._folder, self._load if begun else None)
        if begun is None and self._anew is not None:
            return  # nothing is left of before
        self._open(position, begun, pending)

    def _open(self, position: Position | None, begun: dict[str, Any] | None, pending: Sequence[Planned] = ()) -> None:
        """Begin, or go on."""
        position = self._own(position)
        end: int | None = None
        try:
            if self._anew is None:
                begun, end = self._prepare(begun)
        except PositionLostError as error:
            self._lose(error)
        assert begun is not None
        if self._anew is not None:
            self._epochs.load()
        self._chunks, self._committed = begun["chunks"], None if pending else position
        is_loading = _chunk(position) < len(self._chunks) or any("chunk" in _first(one) for one in pending)
        self._is_loaded = not is_loading
        if is_loading:
            self._begin_load()
        self._open_log(position)
        outbox = Outbox(self._log, self._waiter)
        target = Target(self._settings, self._pipeline, outbox, self._positions, self._epochs, begun)
        self._stream = self._follow(target, end if self._once else None)
        if self._anew is not None:
            return
        self._tell_stopped()
        self._stop_unreadable()
        self._stream.start()

    def _began(
        self, database: str, start: Any, chunks: list[dict[str, Any]], tables: Sequence[Table]
    ) -> dict[str, Any]:
        """Write down where a new state begins: at the first position of the stream, with these tables and chunks."""
        self._epochs.load()
        name = f"{database}#{self._load}" if self._load else database  # numbers of columns may be others than before
        before = {table.full_name: table for table in self._epochs.tables.values()}
        tables = [fitting(msgspec.structs.replace(each, database=name), before) for each in tables]
        self._epochs.begin(tables)
        stopped = {table.oid for table in tables if table.stopped}
        chunks = [{**chunk, "epoch": self._epochs.number} for chunk in chunks if chunk["table"] not in stopped]
        begun = {"database": name, "start": start, "chunks": chunks, "load": self._load}
        durable.replace(self._folder / _BEGUN, begun)
        self._lines.info(f"loads {many(len(tables), 'table')} of {self._settings.shown}, then follows their changes")
        return begun

    def _go_on(self, begun: dict[str, Any], database: str) -> None:
        """Check that a state is of this database, and load its tables.

        Raises:
            SourceError: It is of another one.
        """
        if database != begun["database"].partition("#")[0]:
            raise SourceError(
                f"{self._settings.shown} is not the database that this state was begun with",
                step=STEP,
                target=self._settings.shown,
                hint="Correct host and database; for another database use a new --state and an empty target",
            )
        self._epochs.load()

    def backlog(self, position: Position | None) -> Backlog:
        """Return the size of the chunks and changes after a position.

        Raises:
            CalveError: The stream has ended by itself, and everything before is read.
        """
        position = self._own(position)
        if self._anew is None and anew.is_requested(self._folder, self._load):
            self._begin_anew("somebody has asked for it")
        if self._anew is not None:
            return Backlog(-1, 1)
        stream = self._running
        if not self._is_loaded:
            self._stop_unreadable()
        failed, reached = stream.failed, stream.reached  # before the log is looked at, which may grow meanwhile
        self._planned = _chunk(position)
        left = self._chunks[self._planned :]
        waiting = self._index.backlog(_log_position(position))
        if left:
            return Backlog(-1, sum(chunk["bytes"] for chunk in left) + waiting.size_bytes)
        if waiting or reached:
            return waiting
        if isinstance(failed, PositionLostError) and self._settings.on_lost_position == "reload":
            self._lose(failed)
            return Backlog(-1, 1)
        if failed is not None and self._is_committed(position):
            raise failed
        return Backlog(-1, 1) if self._once else waiting  # more may come before the end

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return the next chunks, or the next changes with one description of each table."""
        if self._anew is not None:
            return None
        position = self._own(position)
        first = _chunk(position)
        if first < len(self._chunks):
            return self._plan_load(first, max_bytes)
        at = _log_position(position)
        planned = self._index.plan(at, max_bytes)
        if planned is None and self._once:
            planned = self._await(position, max_bytes)
        if planned is None:
            return None
        until = self._loaded_until() if self._is_loaded else ANY
        splits = self._alike(planned.splits)
        last = splits[-1].body
        end = LogPosition(int(Path(last["file"]).stem), last["end"])
        splits = [replace(split, body={**split.body, "until": until}) for split in splits]
        return Planned(splits, {"chunk": len(self._chunks), "load": self._load, **end.position()})

    def tables(self, planned: Planned) -> list[SourceTable]:
        """Return the tables of a batch, as they were then."""
        body = _first(planned)
        number = body["chunk"].get("epoch", 0) if "chunk" in body else self._epoch(body["file"])
        return [table.source_table() for table in self._epochs.of(number) if table.keys]

    def acknowledge(self, planned: Planned) -> None:
        """Let the log delete the changes of a committed batch; end the load after its last chunk."""
        if self._own(planned.position) is None:
            return
        if planned.position["chunk"] >= len(self._chunks):
            self._stop_unreadable()
            self._is_loaded = True
            self._end_load()
        if (at := _log_position(planned.position)) is not None:
            self._log.release(LogPosition.of(at))
        self._committed = planned.position
        if len(self._chunks) != (chunk := _chunk(planned.position)) or not self._is_noted:
            overview.note(self._folder, chunk)
            self._is_noted = chunk == len(self._chunks)

    def stop(self) -> None:
        """Stop reading, and close. May be called twice."""
        if self._stream is not None:
            self._stream.stop()
        self._end_load()
        self._log.close()

    @property
    def to_clear(self) -> list[SourceTable] | None:
        """See `Reloads`."""
        return None if self._anew is None else [table.source_table() for table in self._anew.tables if table.keys]

    def cleared(self) -> None:
        """See `Reloads`."""
        assert self._anew is not None
        self.stop()
        self._load, self._anew = self._anew.load, None
        anew.wipe(self._folder)
        self._reset()
        self._open(None, None)
        anew.finish(self._folder)

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
        self._anew = anew.decide(self._folder, self._load + 1, list(self._epochs.tables.values()))

    def _own(self, position: Position | None) -> Position | None:
        """Return a position of this load; None for one of an earlier load."""
        return position if position and position.get("load", 0) == self._load else None

    @property
    def condition(self) -> str:
        """How far the load is, and the stream."""
        if self._anew is not None:
            return "all tables are loaded anew"
        left = sum(chunk["bytes"] for chunk in self._chunks[self._planned :])
        total = sum(chunk["bytes"] for chunk in self._chunks)
        load = f"load: {size(total - left)} of {size(total)} read" if left else ""
        parts = [load, self._running.condition, condition(self._epochs.tables.values())]
        return "; ".join(part for part in parts if part)

    @property
    def _running(self) -> DatabaseStream:
        assert self._stream is not None
        return self._stream

    def _tell_stopped(self) -> None:
        """Log at the start which tables are not read."""
        for table in self._epochs.tables.values():
            if table.stopped:
                self._lines.warning(
                    f"{table.full_name} is stopped, and is not read: {table.stopped}",
                    table=table.full_name,
                    hint=WAY_OUT,
                )

    def _stop_unreadable(self) -> None:
        """Stop the tables that tasks could not read."""
        for oid, why in marked(self._folder).items():
            if oid not in self._unreadable and not self._epochs.tables[oid].stopped:
                self._unreadable.add(oid)
                self._running.stop_table(oid, why)

    def _open_log(self, position: Position | None) -> None:
        try:
            self._index.load(_log_position(position))
            self._positions.load(key for each in self._index.segments for key in each.keys)
            self._log.open(self._waiter.answered)
        except OSError as error:
            raise SourceError(
                f"the log of changes in {self._folder} cannot be used: {error.strerror}",
                step=STEP,
                target=str(self._folder),
                hint="Check its permissions and the space on its disk",
            ) from error

    def _is_committed(self, position: Position | None) -> bool:
        """Return whether everything before a position is in the target."""
        return self._committed == position

    def _plan_load(self, first: int, max_bytes: int) -> Planned:
        splits: list[Split] = []
        left = max_bytes
        while first < len(self._chunks) and (left > 0 or not splits):
            chunk = self._chunks[first]
            splits.append(Split({"chunk": chunk}, chunk["bytes"]))
            left -= chunk["bytes"]
            first += 1
        return Planned(splits, {"chunk": first, "load": self._load})

    def _alike(self, splits: list[Split]) -> list[Split]:
        """Return the first splits, as long as their epoch is the same."""
        first = self._epoch(splits[0].body["file"])
        return list(itertools.takewhile(lambda split: self._epoch(split.body["file"]) == first, splits))

    def _epoch(self, file: str) -> int:
        """Return the epoch of a segment of the log."""
        for each in self._index.segments:
            if segment_name(each.number) == file and each.keys:
                return StreamPosition.of(each.keys[0][1]).epoch
        raise SourceError(f"the log has no segment {file}", step="read", target=file)

    def _await(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Wait for changes until the stream has reached the end of a run with `once`.

        Raises:
            SourceUnavailableError: Nothing comes for a while.
        """
        stream, deadline = self._running, time.monotonic() + _WAIT_SECONDS
        while True:
            failed, reached = stream.failed, stream.reached
            if planned := self._index.plan(_log_position(position), max_bytes):
                return planned
            if reached:
                return None
            if isinstance(failed, PositionLostError) and self._settings.on_lost_position == "reload":
                self._lose(failed)
                return None
            if failed is not None and self._is_committed(position):
                raise failed
            if time.monotonic() > deadline:
                raise failed or stream.trouble or SourceUnavailableError(f"{self.system} sends nothing", step="read")
            time.sleep(_POLL_SECONDS)


def _chunk(position: Position | None) -> int:
    return int(position["chunk"]) if position else 0


def _log_position(position: Position | None) -> Position | None:
    """Return the part of a position that is about the log; None before the first change."""
    return position if position and "segment" in position else None


def _first(planned: Planned) -> dict[str, Any]:
    return planned.splits[0].body if planned.splits else {}
