"""Reads the slot in a thread of its own: every change becomes durable in the log, and only then the slot moves on."""

from __future__ import annotations

import struct
import threading
import time

from calve.errors import SourceUnavailableError
from calve.observe.humanize import size
from calve.sources.database.change import Change
from calve.sources.database.change_buffer import Block
from calve.sources.database.stream import READ, DatabaseStream, StreamContext
from calve.sources.database.stream_position import Transaction
from calve.sources.database.table import DatabaseTable
from calve.sources.log.log import AppendOutcome
from calve.sources.postgres.catalog.database import PostgresCatalog
from calve.sources.postgres.catalog.marks import CatalogMark
from calve.sources.postgres.catalog.session import CatalogSession
from calve.sources.postgres.failure import explained, session
from calve.sources.postgres.large import are_visible, complete, lacks_values
from calve.sources.postgres.late_keys import LateKeys
from calve.sources.postgres.new_tables import NewTables
from calve.sources.postgres.protocol import pgoutput
from calve.sources.postgres.protocol.pgoutput import Relation
from calve.sources.postgres.protocol.quote import literal, quoted
from calve.sources.postgres.protocol.wire import PostgresConnection
from calve.sources.postgres.slot import timeline
from calve.sources.postgres.slot.acknowledged import Acknowledged

__all__ = ["SlotStream", "StreamContext"]

_WAL_DATA, _KEEPALIVE = ord("w"), ord("k")
_DATA_START = 25
_KEEPALIVE_FORM = struct.Struct(">QqB")
_FEEDBACK = struct.Struct(">cQQQqB")
_FEEDBACK_SECONDS = 1.0
_CHECK_SECONDS = 10.0
_EPOCH_SECONDS = 946_684_800
_VISIBLE_SECONDS = 60.0
_POLL_SECONDS = 0.005


class SlotStream(DatabaseStream):
    """The reader of one slot.

    Args:
        context: What it reads, and where it puts it.
        until: Where it ends; None: when it is stopped.
        new_tables: Publishes tables that are new.
    """

    def __init__(self, context: StreamContext, until: int | None, new_tables: NewTables) -> None:
        super().__init__(context, until)
        self.new_tables = new_tables

    def _read(self) -> None:
        name = f"calve {self._context.pipeline}"
        with (
            session(self._settings, READ, name, replication=True) as connection,
            session(self._settings, READ, f"{name} catalog") as side,
        ):
            slot = self._settings.slot_of(self._context.pipeline)
            publication = quoted(self._settings.publication_of(self._context.pipeline))
            with explained(self._settings, READ):
                timeline.follow(connection, self._settings, self._context.positions, self._lines)
            connection.start_replication(
                f"START_REPLICATION SLOT {quoted(slot)} LOGICAL 0/0 "
                f"(proto_version '1', publication_names {literal(publication)})"
            )
            self._context.positions.files.check()  # before the server is told anything: another driver may own them
            acknowledged = Acknowledged(self._context.positions.files)
            if (state := PostgresCatalog(side, self._context.begun["database"]).slot(slot)) is not None:
                acknowledged.check(state, self._settings)
            self.connected()
            _Session(self, self._context, connection, side, acknowledged).run(self._stop, self._until)

    def pause(self, is_last: bool) -> None:
        """Wait a moment for transactions to become visible; give up at last, or when a stop is requested.

        Raises:
            SourceUnavailableError: It has given up; the server sends the changes again.
        """
        if self._stop.wait(_POLL_SECONDS) or is_last:
            raise SourceUnavailableError(
                "A transaction is committed, but not visible: PostgreSQL waits for a synchronous standby",
                step=READ,
                target=self._settings.shown,
                hint="Calve itself must not be among synchronous_standby_names",
            )


class _Session(CatalogSession):
    """One connection of the stream, from its start to its loss."""

    def __init__(
        self,
        stream: SlotStream,
        context: StreamContext,
        connection: PostgresConnection,
        side: PostgresConnection,
        acknowledged: Acknowledged,
    ) -> None:
        super().__init__(stream, context, side)
        self._acknowledged = acknowledged
        self._stream: SlotStream = stream
        self._connection = connection
        self._ready: dict[int, bool] = {}
        self._late: dict[int, LateKeys] = {}
        self._lacking: dict[int, Change] = {}
        self._unseen: set[int] = set()
        self._slot = context.settings.slot_of(context.pipeline)
        self._warned = False
        self._committed = 0
        self._feedback_at = self._checked_at = 0.0

    def run(self, stop: threading.Event, until: int | None) -> None:
        with explained(self._settings, READ):
            while not stop.is_set() and not self._stream.reached:
                message = self._connection.receive(self._patience_seconds)
                if message is None:
                    self._write()
                    self._send_feedback(asks=until is not None)
                elif isinstance(message, Block):
                    self._changes(message)
                elif message[0] == _WAL_DATA:
                    self._handle(message[_DATA_START:])
                elif message[0] == _KEEPALIVE:
                    self._keepalive(message)
                if self._buffer.is_full:
                    self._write_full()
                self._send_feedback()
                self._check_server()
                self._rest()
                self._stream.reached = until is not None and self._is_idle and self._stream.flushed >= until
            self._write()
            self._acknowledged.write(self._stream.flushed)
            self._send_feedback(now=True)

    def _keepalive(self, message: bytes) -> None:
        end, _, wants_answer = _KEEPALIVE_FORM.unpack_from(message, 1)
        if self._is_idle:
            self._stream.flushed = max(self._stream.flushed, end)
        if wants_answer:
            self._send_feedback(now=True)

    def _handle(self, message: bytes) -> None:
        kind = message[:1]
        if kind in (b"I", b"U", b"D"):
            self._change(message)
        elif kind == b"B":
            self._begin(pgoutput.begin(message))
        elif kind == b"C":
            self._end_transaction(pgoutput.commit_end(message))
        elif kind == b"R":
            self._relate(pgoutput.relation(message))
        elif kind == b"T":
            self._truncate(pgoutput.truncated(message))

    def _relate(self, relation: Relation) -> list[int]:
        if relation != self._relations.get(relation.oid):  # keys are unique whenever a table can be altered
            self._settle_keys(relation.oid)
            self._late.pop(relation.oid, None)
        described = super()._relate(relation)
        for oid in described:
            self._ready.pop(oid, None)
        return described

    def _describe(self, relation: Relation) -> bool:
        is_read = super()._describe(relation)
        if is_read and relation.oid not in self._late and self._has_late_keys(relation.oid):
            table = self._epochs.tables[relation.oid]
            self._late[table.oid] = LateKeys(table.oid, table.keys, len(table.columns))
        return is_read

    def _end_transaction(self, end: int) -> None:
        for oid in list(self._late):
            self._settle_keys(oid)
        self._end()
        self._committed = end
        if not self._buffer:
            self._stream.flushed = max(self._stream.flushed, end)

    def _change(self, message: bytes) -> None:
        transaction = self._next()
        oid = int.from_bytes(message[1:5], "big")
        if self._is_skipped(oid, transaction):
            return
        if not self._add_late(oid, message):
            self._add(message, transaction)

    def _add(self, message: bytes, transaction: Transaction) -> None:
        lacking = lacks_values(message)
        at = self._buffer.add(message, transaction, self._ordinal)
        if lacking is not None:
            self._lacking[at] = lacking
            self._unseen.add(int(transaction.id))

    def _changes(self, block: Block) -> None:
        """Add changes of one table that lack nothing, without those that the log has already."""
        transaction = self._next(block.count)
        oid = int.from_bytes(block.data[1:5], "big")
        if self._is_skipped(oid, transaction):
            return
        if oid in self._late:
            self._ordinal -= block.count
            for message in block.messages():
                self._change(message)
            return
        durable = self._positions.last
        if durable.commit == transaction.commit:
            block = block.last(self._ordinal - durable.ordinal)
        self._buffer.add_block(block, transaction, self._ordinal)

    def _is_skipped(self, oid: int, transaction: Transaction) -> bool:
        """Return whether the last counted change is not read, or is in the log already.

        Changes with late keys are in the log behind all others of their transaction, so all of them count again.
        """
        is_done = self._is_done(transaction)
        if is_done and not (transaction.commit == self._positions.last.commit and self._has_late_keys(oid)):
            return True
        return self._is_loaded(oid, transaction) or not self._is_read(oid)

    def _has_late_keys(self, oid: int) -> bool:
        table = self._epochs.tables.get(oid)
        mark = CatalogMark.of(table) if table else None
        return mark is not None and mark.is_deferrable

    def _add_late(self, oid: int, message: bytes) -> bool:
        """Add a change of a table with late keys; return False if it has none, or had none then."""
        if oid not in self._late:
            return False
        if self._sends_whole_rows(oid) and self._late[oid].add(message):
            return True
        self._settle_keys(oid)
        return False

    def _settle_keys(self, oid: int) -> None:
        """Add what remains of the changes of a table with late keys: its keys are unique now."""
        for message in self._late[oid].settled() if oid in self._late else ():
            transaction = self._next()
            if not self._is_done(transaction):
                self._add(message, transaction)
            if self._buffer.is_full:
                self._write_full()
            self._send_feedback()

    def _is_read(self, oid: int) -> bool:
        """Return whether changes of a table are read; describes it first if it is new or changed."""
        if oid not in self._ready:
            relation = self._relations[oid]
            self._ready[oid] = self._is_selected(relation) and self._describe(relation)
        return self._ready[oid]

    def _stop_table(self, table: DatabaseTable, why: str, hint: str = "") -> None:
        self._settle_keys(table.oid)
        self._late.pop(table.oid, None)
        super()._stop_table(table, why, hint)
        self._ready.pop(table.oid, None)

    def _truncate(self, oids: list[int]) -> None:
        transaction = self._next()
        for oid in oids:
            self._settle_keys(oid)
        if self._is_done(transaction):
            return
        tables = self._epochs.tables
        later = [oid for oid in oids if oid in tables and not self._is_loaded(oid, transaction)]
        self._truncated([tables[oid] for oid in later if self._is_read(oid)])

    def _write(self) -> None:
        if not self._buffer:
            return
        self._complete()
        super()._write()
        self._stream.flushed = max(self._stream.flushed, self._committed)

    def _write_full(self) -> None:
        self._complete()
        super()._write_full()

    def _complete(self) -> None:
        """Fetch the values that rows lack."""
        if self._lacking:
            self._until_visible()
            complete(self._buffer.messages, self._lacking, self._epochs.tables, self._side)
            self._lacking = {}

    def _until_visible(self) -> None:
        """Wait until the other session sees the transactions whose rows lack values."""
        deadline = time.monotonic() + _VISIBLE_SECONDS
        while not are_visible(self._unseen, self._side):
            self._send_feedback()
            self._stream.pause(time.monotonic() > deadline)
        self._unseen.clear()

    def _check_server(self) -> None:
        """See from time to time how much of its log the server holds for the slot, and warn before it is lost."""
        if time.monotonic() - self._checked_at < _CHECK_SECONDS or self.transaction is not None:
            return
        self._checked_at = time.monotonic()
        self._is_marked([table for table in self._epochs.tables.values() if not table.stopped])
        self._check_identities()
        self._stream.new_tables.add(self._side, self._database)
        held = self._database.held(self._slot)
        if held is None:
            return
        whole, unread, status = held
        self._stream.condition = (
            f"slot {self._slot}: {size(unread)} not read yet, the server holds {size(whole)} of its log"
        )
        if status == "unreserved" and not self._warned:
            self._lines.warning(f"the server may soon remove log that is not read yet: {self._stream.condition}")
        self._warned = status == "unreserved"

    def _refused(self, outcome: AppendOutcome, why: str) -> None:
        self._send_feedback(now=True)
        super()._refused(outcome, why)

    def _send_feedback(self, now: bool = False, asks: bool = False) -> None:
        """Tell the server what is durable here, about once per second."""
        seconds = time.time()
        if not now and seconds - self._feedback_at < (_FEEDBACK_SECONDS / 10 if asks else _FEEDBACK_SECONDS):
            return
        self._feedback_at = seconds
        at, clock = self._acknowledged.until(self._stream.flushed), int((seconds - _EPOCH_SECONDS) * 1_000_000)
        self._connection.send(_FEEDBACK.pack(b"r", at, at, at, clock, int(asks)))
