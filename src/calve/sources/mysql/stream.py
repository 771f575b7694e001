"""Reads the binary log: every change becomes durable in the log of the state, and then the position moves on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from calve.errors import PositionLostError, SourceError
from calve.observe.humanize import many, size
from calve.sources.database.connection import ClosedError
from calve.sources.database.failure import LOAD_AGAIN
from calve.sources.database.stream import READ, DatabaseStream, StreamContext
from calve.sources.database.stream_position import Transaction
from calve.sources.mysql import xa
from calve.sources.mysql.catalog.database import BinlogPosition, MysqlCatalog
from calve.sources.mysql.ddl.effects import effects_of
from calve.sources.mysql.ddl.table_session import TableSession
from calve.sources.mysql.failure import explained, session
from calve.sources.mysql.position.begin import begin_dump
from calve.sources.mysql.position.gtids import DurableGtids
from calve.sources.mysql.position.log_files import LogFiles
from calve.sources.mysql.position.servers import Server, followed
from calve.sources.mysql.protocol import events
from calve.sources.mysql.protocol.compressed import payload
from calve.sources.mysql.protocol.events import BinlogEvent
from calve.sources.mysql.protocol.wire import MysqlConnection
from calve.sources.mysql.rows import log_rows
from calve.sources.mysql.settings import MysqlSettings

__all__ = ["BinlogStream"]

_CHECK_SECONDS = 10.0
_SILENCE_SECONDS = 30.0
"""The server sends a heartbeat every second when nothing else comes."""
_STANDALONE, _PREPARED = 1, 64


class BinlogStream(DatabaseStream):
    """The reader of one server's binary log."""

    def _read(self) -> None:
        self._context.positions.files.check()  # another driver may own them, and lose its connection by this one
        name = f"calve {self._context.pipeline}"
        with (
            session(self._settings, READ, name) as connection,
            session(self._settings, READ, f"{name} catalog") as side,
        ):
            context = self._context
            server = followed(side, self._settings, context.positions.files, context.begun["database"], self._lines)
            if MysqlCatalog(connection).name != server.name:
                raise ClosedError("the address leads to more than one server")
            start = max(context.positions.last.commit, context.begun["start"], server.start)
            gtids = DurableGtids(context.positions.files)
            if gtids.known is not None:
                start = min(start, max(gtids.at, server.start))
            place = MysqlCatalog(side, server.generation).log_end()
            if place is None or place.number < start:
                raise _reset(self._settings, "ends before what was read")
            is_checked = begin_dump(connection, self._context.pipeline)
            server_id = self._settings.server_id_of(self._context.pipeline)
            connection.dump(place.at(start).file, place.at(start).position, server_id)
            with explained(self._settings, READ):
                reading = _Session(self, context, (connection, side), server, place.at(start))
                try:
                    reading.run(is_checked, self._stop, self._until)
                finally:
                    reading.gtids.save()


def _lost(settings: MysqlSettings, why: str) -> PositionLostError:
    what = f"The log of MySQL at {settings.shown} {why}"
    return PositionLostError(what, step=READ, target=settings.shown, hint=LOAD_AGAIN)


def _reset(settings: MysqlSettings, why: str) -> PositionLostError:
    return _lost(settings, f"{why}: it was reset")


class _Session(TableSession):
    """One connection of the stream, from its start to its loss: the events of the log, and where transactions end."""

    def __init__(
        self,
        stream: BinlogStream,
        context: StreamContext,
        sessions: tuple[MysqlConnection, MysqlConnection],
        server: Server,
        start: BinlogPosition,
    ) -> None:
        super().__init__(stream, context, MysqlCatalog(sessions[1], server.generation))
        self._connection = sessions[0]
        self._server, self._start = server, start
        self.gtids = DurableGtids(context.positions.files)
        if self._catalog.is_mariadb:
            self.gtids.begin(self._catalog.gtids_before(start), start.number)
            self.gtids.save()
        self._ended = start.number
        self._is_known = False
        self._is_checked = False
        self._files = LogFiles(context.positions.files)
        self._file = 0
        self._position = 0
        self._ends_by_commit = False
        self._maps: dict[bytes, bytes] = {}
        self._held: xa.HeldEvents | None = None
        self._prepared_tables = xa.PreparedTables(context.positions.files)
        self._heard = self._checked_at = time.monotonic()

    def run(self, is_checked: bool, stop: threading.Event, until: int | None) -> None:
        self._is_checked = is_checked
        while not stop.is_set() and not self._stream.reached:
            data = self._connection.receive(self._patience_seconds)
            if data is None:
                self._write()
                if time.monotonic() - self._heard > _SILENCE_SECONDS:
                    raise ClosedError(f"nothing came for {_SILENCE_SECONDS:.0f} s")
            else:
                self._heard = time.monotonic()
                self._stream.connected()
                self._handle(self._parsed(data))
            if self._buffer.is_full:
                self._write_full()
            self._measure_lag()
            self._rest()
            if until is not None and self.transaction is None and self._position >= until:
                self._write()
                self._stream.reached = True
        self._write()
        self._advance()

    def _parsed(self, data: bytes) -> BinlogEvent:
        try:
            return events.parse(data, self._is_checked)
        except ValueError as error:
            raise ClosedError(str(error)) from error

    def _handle(self, event: BinlogEvent) -> None:
        kind = event.kind
        if kind == events.TABLE_MAP or kind in events.CHANGES:
            self._handle_rows(event)
        elif kind in events.BEGINS:
            self._begin_with(event)
        elif kind == events.XID:
            self._end_with(event)
        elif kind in events.QUERIES:
            self._query(event)
        elif kind == events.XA_PREPARE:
            self._prepared(event)
        elif kind == events.PAYLOAD:
            self._unpack(event)
        elif kind == events.INCIDENT:
            raise _lost(self._settings, "lacks changes: the server could not write them (an INCIDENT event)")
        else:
            self._pass(event)

    def _handle_rows(self, event: BinlogEvent) -> None:
        """Follow the description of a table, or rows; those of an XA transaction wait for its end."""
        if self._held is not None:
            self._held.add(event)
        elif event.kind == events.TABLE_MAP:
            self._maps[event.body[:6]] = event.body
        else:
            self._rows(event)

    def _unpack(self, event: BinlogEvent) -> None:
        """Follow the events of a compressed transaction, as if each ended where the transaction does."""
        try:
            for data in payload(event.body):
                self._handle(events.parse(data, False)._replace(end=event.end))
        except ValueError as error:
            raise self._refusal(f"a transaction cannot be decompressed: {error}") from error

    def _prepared(self, event: BinlogEvent) -> None:
        """End the first phase of an XA transaction; it is the only one, if the transaction is committed at once."""
        held, self._held = self._held or xa.HeldEvents(), None
        is_committed = bool(event.body[0])
        if not is_committed:
            selected = self._settings.selected
            self._prepared_tables.prepare(event, [table for table in held.tables if selected.has(*table)])
        elif held.is_too_large:
            self._stop_changed(held.tables, xa.LARGE)
        for prepared in held.events if is_committed else []:
            self._handle_rows(prepared)
        self._end_with(event)

    def _decide(self, xid: str) -> None:
        """Follow the commit of an XA transaction in two phases."""
        tables = self._prepared_tables.end(xid)
        if tables is None:
            self._lines.warning(
                f"XA transaction {xid} was prepared before reading began, and is committed now: its rows are missing",
                hint="If it changed a table that is read, load that again: calve source reload <configuration> <table>",
            )
        self._stop_changed(tables or [], xa.LATER)

    def _stop_changed(self, tables: Iterable[tuple[str, str]], why: str) -> None:
        """Stop the selected ones of tables that a transaction changed, unless they were read after it."""
        transaction = self._next()
        for database, name in sorted(tables):
            table = self._known(database, name)
            is_read_later = table is not None and table.since >= transaction.commit
            if self._settings.selected.has(database, name) and not is_read_later and not self._is_known:
                self._stop_named(database, name, why)

    def _pass(self, event: BinlogEvent) -> None:
        """Follow an event without changes."""
        if event.kind == events.FORMAT:
            self._is_checked = events.has_checksum(event)
            if self._file and not self._files.is_same(self._file, event.seconds):
                raise _reset(self._settings, "has another file of the name that was read")
        if event.kind == events.ROTATE:
            place = self._start.moved(*events.rotated(event))
            self._file, end = place.number >> 32, place.position
            self._maps, self._resolved = {}, {}  # another run of the server may give the same numbers to tables
        elif event.kind == events.PREVIOUS_GTIDS:
            self.gtids.begin(events.previous_gtids(event), self._file << 32 | event.end)
            end = event.end
        else:
            end = event.end
        if self.transaction is None and self._file and end:
            self._position = max(self._position, self._file << 32 | end)

    def _begin_with(self, event: BinlogEvent) -> None:
        name, microseconds = events.gtid(event)
        at = self._file << 32 | (event.end - event.size)
        self._is_known = at <= self._server.until and self.gtids.known is not None and name in self.gtids.known
        self._begin(Transaction(at, microseconds, name))
        self._ends_by_commit = False
        self._held = None
        if event.kind == events.MARIADB_GTID:
            flags = event.body[12]
            self._ends_by_commit = not flags & _STANDALONE
            self._held = xa.HeldEvents() if flags & _PREPARED else None

    def _is_done(self, transaction: Transaction) -> bool:
        return self._is_known or super()._is_done(transaction)

    def _end_with(self, event: BinlogEvent) -> None:
        if self.transaction is not None:
            self.gtids.end(self.transaction.id)
            self._ended = self.transaction.commit
        self._end()
        self._position = max(self._position, self._file << 32 | event.end)

    def _query(self, event: BinlogEvent) -> None:
        query = events.query(event)
        word = query.text[:12].decode("latin-1").lstrip().upper()
        if word.startswith("XA START"):
            self._held, self._ends_by_commit = xa.HeldEvents(), True
        elif word.startswith("XA "):
            decision = xa.decided(query)
            if decision and decision[1]:
                self._decide(decision[0])
            if decision:
                self._end_with(event)
        elif word.rstrip(" ;") == "BEGIN":
            self._ends_by_commit = True
        elif word.rstrip(" ;") in ("COMMIT", "ROLLBACK"):
            self._end_with(event)
        elif not word.startswith(("SAVEPOINT", "ROLLBACK ", "RELEASE ")):
            for effect in effects_of(query, self._charsets):
                self._follow(effect)
            if not self._ends_by_commit:
                self._end_with(event)

    def _rows(self, event: BinlogEvent) -> None:
        """Add rows. What the log has already is not looked at: its tables may have other descriptions by now."""
        transaction = self._next()
        if self._is_done(transaction):
            return
        rows_event = events.rows(event)
        oid, layout = self._layout(self._maps.get(rows_event.table), rows_event.columns, transaction)
        if oid is None:
            return
        try:
            data = rows_event.plain
        except ValueError as error:
            self._stop_table(self._epochs.tables[oid], f"rows cannot be decompressed: {error}")
            return
        self._buffer.add(log_rows.message(oid, events.CHANGES[event.kind], layout, data), transaction, self._ordinal)

    def _refusal(self, why: str) -> SourceError:
        """Return the error of a log that cannot be followed."""
        self._write()
        return SourceError(
            f"The log of MySQL at {self._settings.shown} cannot be followed: {why}",
            step=READ,
            target=self._settings.shown,
            hint="All changes before are written. This Calve is too old for the server, or the log is damaged",
        )

    def _write(self) -> None:
        super()._write()
        self._stream.flushed = max(self._stream.flushed, self._position)
        self.gtids.settle(self._ended)

    def _advance(self) -> None:
        """Remember that everything before was seen, so that the server may remove its log of it."""
        if self._is_idle and self._position:
            self._positions.advance(self._position)
            self.gtids.settle(self._position)

    def _measure_lag(self) -> None:
        """See from time to time how far the server is ahead."""
        if time.monotonic() - self._checked_at < _CHECK_SECONDS and self._stream.condition:
            return
        self._checked_at = time.monotonic()
        self._advance()
        place = self._catalog.log_end()
        if place is None:
            return
        files = (place.number >> 32) - (self._position >> 32)
        behind = many(files, "file") if files else size(max(place.number - self._position, 0))
        self._stream.condition = f"binary log {place.file}: {behind} not read yet"
