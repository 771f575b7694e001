"""XA transactions: their rows are in the log when they are prepared, and much later whether they are committed."""

from __future__ import annotations

import re

from calve.sources.mysql.protocol import events
from calve.sources.mysql.protocol.events import BinlogEvent, Query
from calve.sources.mysql.protocol.table_map import table_name
from calve.sources.source_files import SourceFiles, encoded, read_as

__all__ = ["LARGE", "LATER", "HeldEvents", "PreparedTables", "decided"]

LATER = "an XA transaction in two phases changed it, and its rows were in the log before its commit"
LARGE = "an XA transaction changed it that is too large to be held until its end"
"""Why a table is stopped."""
_FILE = "xa.json"
_MOST_BYTES = 64 << 20
_MOST_PREPARED = 10_000
_DECISION = re.compile(r"XA (COMMIT|ROLLBACK) X'([0-9a-fA-F]*)',X'([0-9a-fA-F]*)',(\d+)").match

Name = tuple[str, str]
"""The database and the name of a table."""


class HeldEvents:
    """Rows of an XA transaction, until the log has whether it is committed at once.

    Attributes:
        events: Its descriptions of tables, and rows.
        tables: The tables that it changes.
        is_too_large: Whether the events do not include all of its rows.
    """

    def __init__(self) -> None:
        self.events: list[BinlogEvent] = []
        self.tables: set[Name] = set()
        self.is_too_large = False
        self._maps: dict[bytes, bytes] = {}
        self._bytes = 0

    def add(self, event: BinlogEvent) -> None:
        """Add the description of a table, or rows."""
        number = event.body[:6]
        if event.kind == events.TABLE_MAP:
            self._maps[number] = event.body
        elif number in self._maps:
            self.tables.add(table_name(self._maps[number]))
        self._bytes += event.size
        self.is_too_large = self._bytes > _MOST_BYTES
        self.events = [] if self.is_too_large else [*self.events, event]


class PreparedTables:
    """The tables of prepared transactions; selected ones outlast a restart.

    Args:
        files: The source's files.
    """

    def __init__(self, files: SourceFiles) -> None:
        self._files = files
        self._tables: dict[str, list[Name]] = dict(read_as(files, _FILE, dict[str, list[Name]]) or {})

    def prepare(self, event: BinlogEvent, tables: list[Name]) -> None:
        """Note the selected tables of a transaction that is prepared; durable on return."""
        body = event.body
        sizes = [int.from_bytes(body[at : at + 4], "little") for at in (1, 5, 9)]
        first, second = body[13 : 13 + sizes[1]], body[13 + sizes[1] : 13 + sizes[1] + sizes[2]]
        self._tables[f"{first.hex()},{second.hex()},{sizes[0]}"] = tables
        for xid in list(self._tables)[:-_MOST_PREPARED]:
            if not self._tables[xid]:
                del self._tables[xid]
        self._save(tables)

    def end(self, xid: str) -> list[Name] | None:
        """Forget a transaction, and return its tables; None if nobody saw when it was prepared."""
        tables = self._tables.pop(xid, None)
        self._save(tables or [])
        return tables

    def _save(self, changed: list[Name]) -> None:
        if changed:
            self._files.write(_FILE, encoded({xid: tables for xid, tables in self._tables.items() if tables}))


def decided(query: Query) -> tuple[str, bool] | None:
    """Return which prepared transaction a statement ends, and whether by a commit; None: it is another statement."""
    match = _DECISION(query.text.decode("latin-1"))
    return (f"{match[2].lower()},{match[3].lower()},{match[4]}", match[1] == "COMMIT") if match else None
