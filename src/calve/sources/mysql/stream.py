"""Reads the binary log: every change becomes durable in the log of the state, and then the position moves on."""

from __future__ import annotations

import threading
import time

import msgspec

from calve.errors import PositionLostError, SchemaConflictError, SourceError
from calve.observe.humanize import many, size
from calve.sources.database.change import DELETE, INSERT, UPDATE
from calve.sources.database.connection import ClosedError
from calve.sources.database.failure import LOAD_AGAIN
from calve.sources.database.follow import RECREATED
from calve.sources.database.stream import READ, DatabaseSession, DatabaseStream, Target
from calve.sources.database.stream_position import Transaction
from calve.sources.database.table import Table
from calve.sources.mysql import ddl, events, rows
from calve.sources.mysql.ahead import Ahead
from calve.sources.mysql.begin import begin_dump
from calve.sources.mysql.conversions import unlogged
from calve.sources.mysql.database import Database, LogPlace
from calve.sources.mysql.ddl import Effect
from calve.sources.mysql.describe import Descriptions
from calve.sources.mysql.events import Event, Mapped
from calve.sources.mysql.failure import explained, session
from calve.sources.mysql.follow import Describer, altered, same
from calve.sources.mysql.gtids import DurableGtids
from calve.sources.mysql.log_files import LogFiles
from calve.sources.mysql.servers import Server, followed
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.mysql.wire import Connection

__all__ = ["Stream"]

_LOOK_SECONDS = 10.0
_SILENCE_SECONDS = 30.0
"""The server sends a heartbeat every second when nothing else comes."""
_STANDALONE, _XA = 1, 64 | 128
_UNKNOWN = "its columns changed without a statement in the log"
_CASCADES = (
    "the foreign key {} changes rows without a trace in the log; on_cascade: ignore reads it without these changes"
)


class Stream(DatabaseStream):
    """The reader of one server's binary log."""

    def _read(self) -> None:
        self._target.positions.files.check()  # another driver may own them, and lose its connection by this one
        name = f"calve {self._target.pipeline}"
        with (
            session(self._settings, READ, name) as connection,
            session(self._settings, READ, f"{name} catalog") as side,
        ):
            target = self._target
            server = followed(side, self._settings, target.positions.files, target.begun["database"], self._lines)
            if Database(connection).name != server.name:
                raise ClosedError("the address leads to more than one server")
            start = max(target.positions.last.commit, target.begun["start"], server.start)
            gtids = DurableGtids(target.positions.files)
            if gtids.known is not None:
                start = min(start, max(gtids.at, server.start))
            place = Database(side, server.generation).place()
            if place is None or place.number < start:
                raise _reset(self._settings, "ends before what was read")
            is_checked = begin_dump(connection, self._target.pipeline)
            server_id = self._settings.server_id_of(self._target.pipeline)
            connection.dump(place.at(start).file, place.at(start).position, server_id)
            with explained(self._settings, READ):
                reading = _Session(self, target, (connection, side), server, place.at(start))
                try:
                    reading.run(is_checked, self._stop, self._until)
                finally:
                    reading.gtids.save()


def _reset(settings: MysqlSettings, why: str) -> PositionLostError:
    what = f"The log of MySQL at {settings.shown} {why}: it was reset"
    return PositionLostError(what, step=READ, target=settings.shown, hint=LOAD_AGAIN)


class _Session(DatabaseSession):
    """One connection of the stream, from its start to its loss."""

    system = "MySQL"

    def __init__(
        self, stream: Stream, target: Target, sessions: tuple[Connection, Connection], server: Server, start: LogPlace
    ) -> None:
        super().__init__(stream, target)
        self._connection, side = sessions
        self._catalog = Database(side, server.generation)
        self._server, self._start = server, start
        self.gtids = DurableGtids(target.positions.files)
        if self._catalog.is_mariadb:
            self.gtids.begin(self._catalog.gtids_before(start), start.number)
            self.gtids.save()
        self._ended = start.number
        self._is_known = False
        self._charsets = self._catalog.charsets()
        self._describer = Describer(target.begun["database"], self._charsets)
        ahead = Ahead(target.settings.address, self._charsets)
        self._descriptions = Descriptions(self._catalog, self._describer, ahead)
        self._is_checked = False
        self._files = LogFiles(target.positions.files)
        self._file = 0
        self._position = 0
        self._ends_by_commit = False
        self._tables: dict[bytes, Event] = {}
        self._resolved: dict[bytes, tuple[int | None, bytes]] = {}
        self._heard = self._looked = time.monotonic()

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
                self._take(self._parsed(data))
            if self._outbox.is_full:
                self._write_full()
            self._look()
            self._rest()
            if until is not None and self.transaction is None and self._position >= until:
                self._write()
                self._stream.reached = True
        self._write()
        self._advance()

    def _parsed(self, data: bytes) -> Event:
        try:
            return events.parse(data, self._is_checked)
        except ValueError as error:
            raise ClosedError(str(error)) from error

    def _take(self, event: Event) -> None:
        kind = event.kind
        if kind == events.TABLE_MAP:
            self._tables[event.body[:6]] = event
        elif kind in events.INSERTS:
            self._rows(event, INSERT)
        elif kind in events.UPDATES:
            self._rows(event, UPDATE)
        elif kind in events.DELETES:
            self._rows(event, DELETE)
        elif kind in events.BEGINS:
            self._begin_with(event)
        elif kind == events.XID:
            self._end_with(event)
        elif kind == events.QUERY:
            self._query(event)
        elif kind in events.REFUSED:
            raise self._refusal(f"it has {events.REFUSED[kind]}")
        else:
            self._pass(event)

    def _pass(self, event: Event) -> None:
        """Follow an event without changes."""
        if event.kind == events.FORMAT:
            self._is_checked = events.has_checksum(event)
            if self._file and not self._files.is_same(self._file, event.seconds):
                raise _reset(self._settings, "has another file of the name that was read")
        if event.kind == events.ROTATE:
            place = self._start.moved(*events.rotated(event))
            self._file, end = place.number >> 32, place.position
            self._tables, self._resolved = {}, {}  # another run of the server may give the same numbers to tables
        elif event.kind == events.PREVIOUS_GTIDS:
            self.gtids.begin(events.previous_gtids(event), self._file << 32 | event.end)
            end = event.end
        else:
            end = event.end
        if self.transaction is None and self._file and end:
            self._position = max(self._position, self._file << 32 | end)

    def _begin_with(self, event: Event) -> None:
        name, microseconds = events.gtid(event)
        at = self._file << 32 | (event.end - event.size)
        self._is_known = at <= self._server.until and self.gtids.known is not None and name in self.gtids.known
        self._begin(Transaction(at, microseconds, name))
        self._ends_by_commit = False
        if event.kind == events.MARIADB_GTID:
            flags = event.body[12]
            self._ends_by_commit = not flags & _STANDALONE
            if flags & _XA:
                raise self._refusal("it has an XA transaction")

    def _is_done(self, transaction: Transaction) -> bool:
        return self._is_known or super()._is_done(transaction)

    def _end_with(self, event: Event) -> None:
        if self.transaction is not None:
            self.gtids.end(self.transaction.id)
            self._ended = self.transaction.commit
        self._end()
        self._position = max(self._position, self._file << 32 | event.end)

    def _query(self, event: Event) -> None:
        query = events.query(event)
        word = query.text[:12].decode("latin-1").lstrip().upper()
        if word.startswith("XA "):
            raise self._refusal("it has an XA transaction")
        if word.rstrip(" ;") == "BEGIN":
            self._ends_by_commit = True
        elif word.rstrip(" ;") in ("COMMIT", "ROLLBACK"):
            self._end_with(event)
        elif not word.startswith(("SAVEPOINT", "ROLLBACK ", "RELEASE ")):
            for effect in ddl.effects_of(query, self._charsets):
                self._follow(effect)
            if not self._ends_by_commit:
                self._end_with(event)

    def _rows(self, event: Event, kind: bytes) -> None:
        """Add rows. What the log has already is not looked at: its tables may have other descriptions by now."""
        transaction = self._next()
        table, data, is_whole = events.rows(event)
        if self._is_done(transaction):
            return
        oid, layout = self._layout(self._tables.get(table), transaction)
        if oid is None:
            return
        if not is_whole:
            self._stop_table(self._epochs.tables[oid], "a row came without all columns (set binlog_row_image = FULL)")
            return
        self._outbox.add(rows.message(oid, kind, layout, data), transaction, self._ordinal)

    def _layout(self, described: Event | None, transaction: Transaction) -> tuple[int | None, bytes]:
        """Return the number of a described table, or None if it is not read, and the layout of its rows."""
        if described is None:
            return None, b""
        signature = described.body  # with the number that a table has until it is changed
        if signature not in self._resolved:
            mapped = events.mapped(described, self._catalog.is_mariadb)
            known = self._known(mapped.database, mapped.table)
            if known is not None and transaction.commit <= known.since:
                return None, b""  # it was loaded anew after the transaction
            self._resolved[signature] = self._resolve(mapped, transaction.commit)
        return self._resolved[signature]

    def _resolve(self, mapped: Mapped, at: int) -> tuple[int | None, bytes]:
        """Return the number of a table, or None if it is not read; describe it first if it is new or changed."""
        if not self._settings.selected.has(mapped.database, mapped.table):
            return None, b""
        known = self._known(mapped.database, mapped.table)
        if known is not None and known.stopped:
            return None, b""
        table = self._described(mapped, known, at)
        if isinstance(table, str):
            self._stop_named(mapped.database, mapped.table, table)
            return None, b""
        if table is known:
            return table.oid, mapped.layout
        is_other = known is not None and {one.name for one in known.columns} != {one.name for one in table.columns}
        if known is not None and is_other and not known.is_outdated and not self._goes_on(known, _UNKNOWN):
            return None, b""
        if known is None and (key := self._cascade(mapped.database, mapped.table)):
            self._stop_table(table, _CASCADES.format(key))
            return None, b""
        return (table.oid, mapped.layout) if self._set_table(table, known) else (None, b"")

    def _cascade(self, database: str, name: str) -> str:
        """Return the foreign key that changes rows of a table, unless that is ignored."""
        cascades = self._catalog.cascades() if self._settings.on_cascade == "fail" else {}
        return cascades.get((database, name), "")

    def _described(self, mapped: Mapped, known: Table | None, at: int) -> Table | str:
        """Return a table as it is now described, or why it cannot be read."""
        if known is not None and known.is_dropped:
            return RECREATED
        name = mapped.database, mapped.table
        try:
            columns = self._descriptions.columns(mapped, known, at)
            if known is not None and not known.is_outdated and same(columns, known.columns):
                return known
            types = {name: kind for name, (kind, _) in self._catalog.types(*name).items()}
            return self._describer.described(name, columns, known, self._next_oid, types)
        except SchemaConflictError as error:
            return error.message

    @property
    def _next_oid(self) -> int:
        return max(self._epochs.tables, default=0) + 1

    def _stop_named(self, database: str, name: str, why: str) -> None:
        """Stop a table, also one that was not read yet."""
        table = self._known(database, name) or Table(self._describer.database, self._next_oid, database, name, ())
        self._stop_table(table, why)

    def _stop_table(self, table: Table, why: str) -> None:
        super()._stop_table(table, why)
        self._resolved = {}

    def _known(self, database: str, name: str) -> Table | None:
        folded = self._catalog.folded
        wanted = folded(database), folded(name)
        for table in self._epochs.tables.values():
            if (folded(table.schema), folded(table.name)) == wanted:
                return table
        return None

    def _follow(self, effect: Effect) -> None:
        """Follow what a statement does to a table, once."""
        at = self._next().commit
        self._resolved = {}
        if self._is_known:
            return  # it was read from the server before this one
        if effect.kind == "drop database":
            gone = [table for table in self._epochs.tables.values() if table.schema == effect.database]
            self._drop(gone, at)
            return
        known = self._known(effect.database, effect.table)
        is_read = known is not None and not known.is_dropped and not known.stopped and known.since < at
        is_new = known is None and self._settings.selected.has(effect.database, effect.table)
        if effect.kind == "rows" and (is_read or is_new):
            why = "a session wrote with binlog_format = STATEMENT or MIXED, which has no rows"
            self._stop_named(effect.database, effect.table, why)
            return
        if effect.kind == "rename":
            self._rename(known if is_read else None, effect, at)
        if known is None or not is_read:
            return
        if effect.kind == "truncate":
            self._truncated([known])
        elif effect.kind == "replace":
            self._stop_table(known, RECREATED)
        elif effect.kind == "drop":
            self._drop([known], at)
        elif effect.kind == "columns":
            self._alter(known, effect, at)

    def _alter(self, known: Table, effect: Effect, at: int) -> None:
        found = effect.alteration
        if found.cascades and self._settings.on_cascade == "fail":
            self._stop_table(known, _CASCADES.format("that it has now"))
            return
        why = unlogged(known, found, effect.is_strict)
        if (not why or self._goes_on(known, why)) and found.may_describe:
            changed = altered(known, found)
            self._set_table(msgspec.structs.replace(changed, since=at, is_outdated=True), known)

    def _drop(self, tables: list[Table], at: int) -> None:
        gone = [table for table in tables if not table.is_dropped and table.since < at]
        if not gone:
            return
        self._write()
        names = ", ".join(table.full_name for table in gone)
        self._lines.warning(f"dropped in MySQL, but not in the target: {names}")
        self._epochs.add([msgspec.structs.replace(table, is_dropped=True, since=at) for table in gone])
        self._outbox.begin_epoch()

    def _rename(self, known: Table | None, effect: Effect, at: int) -> None:
        database, name = effect.to[0]
        if known is not None:
            self._stop_table(known, f"it is now called {database}.{name}")
        other = self._known(database, name)
        if self._settings.selected.has(database, name) and (other is None or other.since < at):
            why = f"it was called {effect.database}.{effect.table}, and its rows are not in the target"
            self._stop_named(database, name, why)

    def _refusal(self, why: str) -> SourceError:
        """Return the error of a log that cannot be followed."""
        self._write()
        return SourceError(
            f"The log of MySQL at {self._settings.shown} cannot be followed: {why}",
            step=READ,
            target=self._settings.shown,
            hint="All changes before are written. Correct the setting; then use a new --state and an empty target: the "
            "tables are loaded again",
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

    def _look(self) -> None:
        """See from time to time how far the server is ahead."""
        if time.monotonic() - self._looked < _LOOK_SECONDS and self._stream.condition:
            return
        self._looked = time.monotonic()
        self._advance()
        place = self._catalog.place()
        if place is None:
            return
        files = (place.number >> 32) - (self._position >> 32)
        behind = many(files, "file") if files else size(max(place.number - self._position, 0))
        self._stream.condition = f"binary log {place.file}: {behind} not read yet"
