"""Looks ahead in the log: what statements do to tables later than it is read."""

from __future__ import annotations

from collections.abc import Mapping

from calve.sources.database.connection import Address, ClosedError
from calve.sources.mysql.catalog.database import BinlogPosition
from calve.sources.mysql.ddl.effects import effects_of
from calve.sources.mysql.position.begin import begin_dump, probe_id
from calve.sources.mysql.protocol import events
from calve.sources.mysql.protocol.events import BinlogEvent
from calve.sources.mysql.protocol.wire import connect

__all__ = ["LaterStatements"]

_WAIT_SECONDS = 30.0
"""The server sends a heartbeat every second when nothing else comes."""


class LaterStatements:
    """The tables that may have other columns later in the log; no part of the log is looked at twice.

    Args:
        address: The server.
        charsets: The character set of each collation.
    """

    def __init__(self, address: Address, charsets: Mapping[int, str]) -> None:
        self._address = address
        self._charsets = charsets
        self._from = self._until = self._transaction = 0
        self._found: list[tuple[int, tuple[str, str]]] = []

    def described(self, start: int, until: BinlogPosition, after: int) -> set[tuple[str, str]]:
        """Return the tables, with their databases, to which statements may give other columns.

        Args:
            start: Where a transaction begins.
            until: The end of the log.
            after: Statements of transactions up to this position do not count.

        Raises:
            ClosedError: The connection was lost.
            ServerError: The server refuses.
        """
        if not self._from <= start <= self._until:
            self._from = self._until = self._transaction = start
            self._found = []
        if self._until < until.number:
            self._read(until)
        return {table for at, table in self._found if after < at}

    def _read(self, until: BinlogPosition) -> None:
        number = probe_id()
        with connect(self._address, "calve looks ahead") as log:
            is_checked = begin_dump(log, f"ahead {number}")
            place = until.at(self._until)
            log.dump(place.file, place.position, number)
            file = self._until >> 32
            while self._until < until.number:
                data = log.receive(_WAIT_SECONDS)
                if data is None:
                    raise ClosedError(f"nothing came for {_WAIT_SECONDS:.0f} s")
                event = events.parse(data, is_checked)
                if event.kind == events.FORMAT:
                    is_checked = events.has_checksum(event)
                elif event.kind == events.ROTATE:
                    file = until.moved(*events.rotated(event)).number >> 32
                self._note(event, file)

    def _note(self, event: BinlogEvent, file: int) -> None:
        """Note what an event does, and that it was read."""
        if event.kind in events.BEGINS:
            self._transaction = file << 32 | (event.end - event.size)
        elif event.kind in events.QUERIES:
            effects = effects_of(events.query(event), self._charsets)
            self._found += [(self._transaction, table) for effect in effects for table in effect.describes]
        self._until = max(self._until, file << 32 | (event.end if event.kind != events.ROTATE else 0))
