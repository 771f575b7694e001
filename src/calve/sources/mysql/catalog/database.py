"""Reads the catalog of a server: its tables, their columns and keys, its variables, and its place in the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from calve.sources.database.connection import ServerError
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.catalog.column_types import charset_of, compressed_log_type, kind_of, labels_of, log_type
from calve.sources.mysql.failure import NO_RIGHTS
from calve.sources.mysql.protocol.quote import literal, quoted
from calve.sources.mysql.protocol.wire import MysqlConnection, Row

__all__ = ["SEQUENCE", "VERSIONED", "BinlogPosition", "MysqlCatalog", "MysqlCatalogTable"]

_TABLES = """
select table_schema, table_name, table_type, engine, coalesce(data_length, 0)
from information_schema.tables where table_type not in ('VIEW', 'SEQUENCE') and table_schema not in
  ('mysql', 'information_schema', 'performance_schema', 'sys') order by 1, 2
"""
_COLUMNS = """
select table_schema, table_name, column_name, data_type, column_type, character_set_name,
  coalesce(numeric_precision, 0), coalesce(numeric_scale, 0), privileges like '%select%',
  coalesce(column_default, 'NULL') <> 'NULL', is_nullable, coalesce(character_octet_length, 0),
  coalesce(datetime_precision, 0)
from information_schema.columns where {which} order by table_schema, table_name, ordinal_position
"""
_KEYS = """
select table_schema, table_name, column_name from information_schema.key_column_usage
where constraint_name = 'PRIMARY' and {which}
"""
_CASCADES = """
select constraint_schema, table_name, constraint_name from information_schema.referential_constraints
where delete_rule in ('CASCADE', 'SET NULL') or update_rule in ('CASCADE', 'SET NULL')
"""
SEQUENCE, VERSIONED = "SEQUENCE", "SYSTEM VERSIONED"
_HIDDEN = frozenset(("1146", "1049")) | NO_RIGHTS
"""Codes of errors for a table or database that does not exist, or that the user may not read."""
_LOCK_SECONDS = 10
_FILE_BITS = 24
_STATUS_SINCE, _CACHE_SINCE, _REPLICA_SINCE = (8, 2), (8, 0, 3), (8, 0, 22)


@dataclass(frozen=True)
class MysqlCatalogTable:
    """A table as the catalog has it.

    Attributes:
        kind: `BASE TABLE`, or e.g. `SYSTEM VERSIONED`.
        readable: Whether the user may read all its columns.
        types: The names of its columns' types, by column.
    """

    schema: str
    name: str
    kind: str
    engine: str
    size_bytes: int
    readable: bool
    types: dict[str, str]

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class BinlogPosition:
    """A place in the binary log, and its number, which only grows.

    Attributes:
        generation: How many servers were read before this one.
    """

    file: str
    position: int
    generation: int = 0

    @property
    def number(self) -> int:
        """The number of the server, that of the file, and the position in it."""
        return (self.generation << _FILE_BITS | int(self.file.rpartition(".")[2])) << 32 | self.position

    def at(self, number: int) -> BinlogPosition:
        """Return another place of the same log by its number."""
        file = number >> 32 & (1 << _FILE_BITS) - 1
        return BinlogPosition(f"{self.file.rpartition('.')[0]}.{file:06d}", number & 0xFFFFFFFF, self.generation)

    def moved(self, file: str, position: int) -> BinlogPosition:
        """Return a place in another file of the same log."""
        return BinlogPosition(file, position, self.generation)


class MysqlCatalog:
    """The catalog of the server of one session.

    Args:
        connection: The session.
        generation: How many servers were read before this one.
    """

    def __init__(self, connection: MysqlConnection, generation: int = 0) -> None:
        self._connection = connection
        self.generation = generation

    @cached_property
    def version(self) -> tuple[int, ...]:
        """The server's version, e.g. (8, 0, 15)."""
        return tuple(int(part) for part in self._connection.version.split("-")[0].split(".")[:3])

    @property
    def is_mariadb(self) -> bool:
        """Whether the server is MariaDB."""
        return self._connection.is_mariadb

    @property
    def name(self) -> str:
        """What identifies the server: its UUID, or MariaDB's `server_uid` or `server_id`."""
        for variable in ("server_uuid", "server_uid", "server_id"):
            if value := self.variable(variable):
                return value
        return ""

    def variable(self, name: str) -> str:
        """Return a global variable; empty if the server does not have it."""
        rows = self._connection.query(f"show global variables like {literal(name)}")
        return rows[0][1] or "" if rows else ""

    def tables(self) -> list[MysqlCatalogTable]:
        """Return all tables of users that the session may see."""
        if not self.is_mariadb and self.version >= _CACHE_SINCE:
            self._connection.query("set information_schema_stats_expiry = 0")  # sizes as they are
        columns: dict[tuple[str, str], list[Row]] = {}
        for row in self._columns("1 = 1"):
            columns.setdefault((row[0] or "", row[1] or ""), []).append(row)
        return [
            MysqlCatalogTable(
                *name,
                kind or "",
                engine or "",
                int(size or 0),
                all(row[8] == "1" for row in columns[name]),
                {row[2] or "": (row[3] or "").lower() for row in columns[name]},
            )
            for schema, table, kind, engine, size in self._connection.query(_TABLES)
            if (name := (schema or "", table or "")) in columns
        ]

    def described(
        self, tables: Sequence[MysqlCatalogTable | DatabaseTable], database: str, which: str = "1 = 1"
    ) -> list[DatabaseTable]:
        """Return tables with their columns, types and keys, numbered from 1; `which` may narrow the search."""
        names = {(table.schema, table.name): number for number, table in enumerate(tables, 1)}
        columns: dict[tuple[str, str], list[Column]] = {name: [] for name in names}
        keys = {(row[0], row[1], row[2]) for row in self._connection.query(_KEYS.format(which=which))}
        for row in self._columns(which):
            name = row[0] or "", row[1] or ""
            if name in names:
                columns[name].append(_column(row, len(columns[name]) + 1, (row[0], row[1], row[2]) in keys))
        return [DatabaseTable(database, number, *name, tuple(columns[name])) for name, number in names.items()]

    def columns_now(self, schema: str, table: str) -> tuple[tuple[Column, ...], BinlogPosition]:
        """Return the columns of a table (none, if the user cannot read it), and a place in the log where it has these.

        Until then no statement that changes the table is between the log and the catalog: it would need the lock that
        a SELECT has until its transaction ends.

        Raises:
            ServerError: The user lacks a right, or somebody else has locked the table for long.
        """
        self._connection.query(f"set session lock_wait_timeout = {_LOCK_SECONDS}")
        self._connection.query("start transaction")
        try:
            self._connection.query(f"select connection_id() from {quoted(schema)}.{quoted(table)} limit 0")
            [table_now] = self.described([DatabaseTable("", 1, schema, table, ())], "", _one(schema, table))
            columns = table_now.columns
        except ServerError as error:
            if error.code not in _HIDDEN:
                raise
            columns = ()
        place = self.log_end()
        self._connection.query("rollback")
        if place is None:
            raise ServerError("", "it has no binary log")
        return columns, place

    def types(self, schema: str, table: str) -> dict[str, tuple[str, bool]]:
        """Return the type of each column of a table, and whether a new one has a value in older rows."""
        which = _one(schema, table)
        return {
            row[2] or "": ((row[3] or "").lower(), row[9] == "1" or row[10] == "NO") for row in self._columns(which)
        }

    def cascades(self) -> dict[tuple[str, str], str]:
        """Return tables with foreign keys that change rows, each with the name of one."""
        return {(row[0] or "", row[1] or ""): row[2] or "" for row in self._connection.query(_CASCADES)}

    def table_type(self, schema: str, table: str) -> str:
        """Return `BASE TABLE`, `SEQUENCE` or `VERSIONED`; empty if there is no such table."""
        which = _one(schema, table)
        rows = self._connection.query(f"select table_type from information_schema.tables where {which}")
        return (rows[0][0] or "") if rows else ""

    def hashes(self, schema: str, table: str) -> int:
        """Return how many hidden columns a table of MariaDB has for UNIQUE on long texts."""
        sql = "select count(distinct index_name) from information_schema.statistics where index_type = 'HASH' and "
        [[count]] = self._connection.query(sql + _one(schema, table))
        return int(count or 0)

    def charsets(self) -> dict[int, str]:
        """Return the character set of each collation."""
        if self.is_mariadb:
            sql = "select id, character_set_name from information_schema.collation_character_set_applicability"
            try:
                return _charsets(self._connection.query(sql))
            except ServerError:  # before 10.10 it has no ids
                pass
        return _charsets(self._connection.query("select id, character_set_name from information_schema.collations"))

    @cached_property
    def _folds(self) -> bool:
        return self.variable("lower_case_table_names") not in ("", "0")

    def folded(self, name: str) -> str:
        """Return a name of a table or database as it is compared."""
        return name.lower() if self._folds else name

    def log_end(self) -> BinlogPosition | None:
        """Return the end of the log; None if the server has none.

        Raises:
            ServerError: The user lacks a right.
        """
        status = self._log_status()
        return BinlogPosition(status[0], int(status[1] or 0), self.generation) if status[0] else None

    def is_logged(self, schema: str) -> bool:
        """Return whether changes of a database are in the log (`binlog_do_db`, `binlog_ignore_db`).

        Raises:
            ServerError: The user lacks a right.
        """
        only, never = (
            {self.folded(name) for name in (names or "").split(",") if name} for names in self._log_status()[2:4]
        )
        return self.folded(schema) in only if only else self.folded(schema) not in never

    def hides_its_primary(self) -> bool:
        """Return whether the server is a replica whose log lacks the changes of its primary.

        Raises:
            ServerError: The user lacks a right.
        """
        if "ON" in (self.variable("log_replica_updates"), self.variable("log_slave_updates")):
            return False
        if self.is_mariadb:  # SHOW REPLICA STATUS needs another right there
            rows = self._connection.query("show global status like 'Slaves_running'")
            return bool(rows) and rows[0][1] != "0"
        word = "replica" if self.version >= _REPLICA_SINCE else "slave"
        return bool(self._connection.query(f"show {word} status"))

    def gtids_before(self, place: BinlogPosition) -> str:
        """Return MariaDB's GTID position of a place in its log."""
        [[gtids]] = self._connection.query(f"select binlog_gtid_pos({literal(place.file)}, {place.position})")
        return gtids or ""

    def _log_status(self) -> Row:
        is_new = not self.is_mariadb and self.version >= _STATUS_SINCE
        rows = self._connection.query("show binary log status" if is_new else "show master status")
        return rows[0] if rows else ["", "", "", ""]

    def _columns(self, which: str) -> Iterable[Row]:
        return self._connection.query(_COLUMNS.format(which=which))


def _column(row: Row, number: int, is_key: bool) -> Column:
    declared, kind = (row[4] or "").lower(), (row[3] or "").lower()
    charset = charset_of(row[5] or "")
    precision, scale, octets, digits = (int(row[at] or 0) for at in (6, 7, 11, 12))
    iceberg = kind_of(kind, declared, precision, scale)
    labels = labels_of(row[4] or "") if kind in ("enum", "set") else ()
    logged = log_type(kind, octets, precision, scale, digits, len(labels))
    if not labels and declared.endswith(" compressed*/"):
        logged = compressed_log_type(*logged)
    return Column(row[2] or "", number, iceberg, declared, *logged, is_key, charset, labels, "unsigned" in declared)


def _charsets(rows: Iterable[Row]) -> dict[int, str]:
    return {int(row[0]): charset_of(row[1] or "") for row in rows if row[0]}


def _one(schema: str, table: str) -> str:
    return f"table_schema = {literal(schema)} and table_name = {literal(table)}"
