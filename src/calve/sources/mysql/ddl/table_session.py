"""What a session of the binary log knows of tables: their descriptions in the log, and what statements do to them."""

from __future__ import annotations

import struct

import msgspec

from calve.errors import SchemaConflictError
from calve.sources.database.follow import RECREATED
from calve.sources.database.stream import DatabaseSession, DatabaseStream, StreamContext
from calve.sources.database.stream_position import Transaction
from calve.sources.database.table import DatabaseTable
from calve.sources.mysql.catalog.database import SEQUENCE, VERSIONED, MysqlCatalog
from calve.sources.mysql.ddl.conversions import unlogged
from calve.sources.mysql.ddl.describe import Descriptions
from calve.sources.mysql.ddl.effects import Effect
from calve.sources.mysql.ddl.follow import Describer, altered, is_sequence, same
from calve.sources.mysql.ddl.later_statements import LaterStatements
from calve.sources.mysql.protocol.table_map import Mapped, mapped, table_name

__all__ = ["TableSession"]

_UNKNOWN = "its columns changed without a statement in the log"
_CASCADES = (
    "the foreign key {} changes rows without a trace in the log; on_cascade: ignore reads it without these changes"
)
_STATEMENT = "a session wrote with binlog_format = STATEMENT or MIXED, which has no rows"
_IMAGE = "a row came without all columns (a session has another binlog_row_image than FULL)"
_VERSIONED = "it has system versioning, and its history would be rows: exclude it"

Resolved = tuple[int | None, bytes]
"""The number of a table, or None if it is not read, and the layout of its rows."""
_UNREAD: Resolved = (None, b"")


class TableSession(DatabaseSession):
    """A session of the binary log, as far as it is about tables.

    Args:
        stream: The stream.
        context: What it reads, and where it puts it.
        catalog: The catalog of the server.
    """

    system = "MySQL"

    def __init__(self, stream: DatabaseStream, context: StreamContext, catalog: MysqlCatalog) -> None:
        super().__init__(stream, context)
        self._catalog = catalog
        self._charsets = catalog.charsets()
        self._describer = Describer(context.begun["database"], self._charsets)
        self._descriptions = Descriptions(
            catalog, self._describer, LaterStatements(context.settings.address, self._charsets)
        )
        self._resolved: dict[tuple[bytes, tuple[int, ...]], Resolved] = {}
        self._is_known = False

    def _layout(self, described: bytes | None, columns: tuple[int, ...], transaction: Transaction) -> Resolved:
        """Return the number of a described table, and the layout of its rows, which have these columns."""
        if described is None:
            return _UNREAD
        signature = described, columns  # the description has the number that a table has until it is changed
        if signature not in self._resolved:
            name = table_name(described)
            former = self._known(*name)
            if former is not None and transaction.commit <= former.since:
                return _UNREAD  # it was loaded again after the transaction
            is_read = self._settings.selected.has(*name) and (former is None or not former.stopped)
            self._resolved[signature] = self._resolve(described, columns, transaction.commit) if is_read else _UNREAD
        return self._resolved[signature]

    def _resolve(self, described: bytes, columns: tuple[int, ...], at: int) -> Resolved:
        """Return the number of a table that is read, and its layout; describe it first if it is new or changed."""
        name = table_name(described)
        try:
            said = self._of_rows(mapped(described, self._catalog.is_mariadb), columns)
            if said is None:
                return _UNREAD
            former = self._known(*name)
            if former is None and (why := self._obstacle(*name)):
                raise SchemaConflictError(why)
            table = self._described(said, former, at)
        except SchemaConflictError as error:
            self._stop_named(*name, error.message)
            return _UNREAD
        except (ValueError, IndexError, struct.error) as error:
            self._stop_named(*name, f"its description in the log is not understood ({error})")
            return _UNREAD
        if table is former:
            return table.oid, said.layout
        is_other = former is not None and {column.name for column in former.columns} != {
            column.name for column in table.columns
        }
        if former is not None and is_other and not former.is_outdated and not self._goes_on(former, _UNKNOWN):
            return _UNREAD
        return (table.oid, said.layout) if self._set_table(table, former) else _UNREAD

    def _of_rows(self, said: Mapped, columns: tuple[int, ...]) -> Mapped | None:
        """Return the description of the columns that rows have of a table; None: it is a sequence.

        Raises:
            SchemaConflictError: They lack columns of the table.
        """
        if self._is_sequence(said):
            return None
        every = (1 << len(said.columns)) - 1
        if set(columns) != {every}:
            is_whole = len(set(columns)) == 1 and said.is_of_indexes(columns[0])
            if is_whole and not said.is_complete:
                is_whole = columns[0].bit_count() == len(self._catalog.types(said.database, said.table))
            if not is_whole:
                raise SchemaConflictError(_IMAGE)
            said = said.only(columns[0])
        if not self._catalog.is_mariadb:
            return said
        count = 0 if said.is_complete else self._catalog.hashes(said.database, said.table)
        return said.without_hashes(count)

    def _is_sequence(self, said: Mapped) -> bool:
        if said.is_complete or not self._catalog.is_mariadb:
            return is_sequence(said)
        return self._catalog.table_type(said.database, said.table) == SEQUENCE

    def _obstacle(self, database: str, name: str) -> str:
        """Return why a new table cannot be followed, or nothing."""
        if self._catalog.table_type(database, name) == VERSIONED:
            return _VERSIONED
        cascades = self._catalog.cascades() if self._settings.on_cascade == "fail" else {}
        key = cascades.get((database, name))
        return _CASCADES.format(key) if key else ""

    def _described(self, said: Mapped, former: DatabaseTable | None, at: int) -> DatabaseTable:
        """Return a table as it is now described.

        Raises:
            SchemaConflictError: It cannot be read.
        """
        if former is not None and former.is_dropped:
            raise SchemaConflictError(RECREATED)
        name = said.database, said.table
        columns = self._descriptions.columns(said, former, at)
        if former is not None and not former.is_outdated and same(columns, former.columns):
            return former
        types = {name: kind for name, (kind, _) in self._catalog.types(*name).items()}
        return self._describer.described(name, columns, former, self._next_oid, types)

    @property
    def _next_oid(self) -> int:
        return max(self._epochs.tables, default=0) + 1

    def _named(self, database: str, name: str) -> DatabaseTable:
        """Return a table, also one that was not read yet."""
        return self._known(database, name) or DatabaseTable(
            self._describer.database, self._next_oid, database, name, ()
        )

    def _stop_named(self, database: str, name: str, why: str) -> None:
        """Stop a table, also one that was not read yet; one that was read is read again."""
        stop = self._read_again if self._known(database, name) else self._stop_table
        stop(self._named(database, name), why)

    def _stop_table(self, table: DatabaseTable, why: str, hint: str = "") -> None:
        super()._stop_table(table, why, hint)
        self._resolved = {}

    def _known(self, database: str, name: str) -> DatabaseTable | None:
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
        followed = self._known(effect.database, effect.table)
        is_read = followed is not None and not followed.is_dropped and not followed.stopped and followed.since < at
        is_new = followed is None and self._settings.selected.has(effect.database, effect.table)
        if effect.kind == "rows" and (is_read or is_new):
            self._read_again(self._named(effect.database, effect.table), _STATEMENT, is_other=True)
            return
        if effect.kind == "versioned" and (is_read or is_new):
            self._stop_named(effect.database, effect.table, _VERSIONED)
            return
        if effect.kind == "rename":
            self._rename(followed if is_read else None, effect, at)
        if followed is None or not is_read:
            return
        if effect.kind == "truncate":
            self._truncated([followed])
        elif effect.kind == "partition":
            self._lose_rows(
                followed, "a partition was truncated or dropped, and its rows in the target were not removed"
            )
        elif effect.kind == "replace":
            self._read_again(followed, RECREATED, is_other=True)
        elif effect.kind == "drop":
            self._drop([followed], at)
        elif effect.kind == "columns":
            self._alter(followed, effect, at)

    def _alter(self, table: DatabaseTable, effect: Effect, at: int) -> None:
        alteration = effect.alteration
        if alteration.cascades and self._settings.on_cascade == "fail":
            self._stop_table(table, _CASCADES.format("that it has now"))
            return
        why = unlogged(table, alteration, effect.is_strict)
        if (not why or self._goes_on(table, why)) and alteration.may_describe:
            changed = altered(table, alteration)
            self._set_table(msgspec.structs.replace(changed, since=at, is_outdated=True), table)

    def _drop(self, tables: list[DatabaseTable], at: int) -> None:
        gone = [table for table in tables if not table.is_dropped and table.since < at]
        if not gone:
            return
        self._write()
        names = ", ".join(table.full_name for table in gone)
        self._lines.warning(f"dropped in MySQL, but not in the target: {names}")
        self._epochs.add([msgspec.structs.replace(table, is_dropped=True, since=at) for table in gone])
        self._buffer.begin_epoch()

    def _rename(self, table: DatabaseTable | None, effect: Effect, at: int) -> None:
        database, name = effect.to[0]
        if table is not None:
            self._stop_table(table, f"it is now called {database}.{name}")
        other = self._known(database, name)
        if self._settings.selected.has(database, name) and (other is None or other.since < at):
            why = f"it was called {effect.database}.{effect.table}, and its rows are not in the target"
            self._read_again(self._named(database, name), why, is_other=True)
