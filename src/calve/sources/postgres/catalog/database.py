"""Reads the catalog of a database: its tables, their columns and keys, publications and slots."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from calve.sources.database.table import Column, DatabaseTable
from calve.sources.postgres.catalog.column_types import Types, with_depth
from calve.sources.postgres.catalog.identity import TableIdentity, identities
from calve.sources.postgres.catalog.marks import marks
from calve.sources.postgres.protocol.quote import literal, quoted
from calve.sources.postgres.protocol.wire import PostgresConnection, Row

__all__ = ["PostgresCatalog", "PostgresCatalogTable", "Publication", "Slot", "lsn_of"]

_TABLES = """
select c.oid, n.nspname, c.relname, c.relkind, c.relispartition, pg_has_role(c.relowner, 'USAGE'), (
    select json_build_array(
      coalesce(json_agg(json_build_array(s.nspname, p.relname) order by s.nspname, p.relname) filter (
        where not (has_schema_privilege(s.oid, 'USAGE') and has_table_privilege(p.oid, 'SELECT'))), '[]'),
      coalesce(bool_or(row_security_active(p.oid)), false))
    from pg_catalog.pg_class p join pg_catalog.pg_namespace s on s.oid = p.relnamespace
    where p.oid = c.oid or c.relkind = 'p' and p.oid in (select t.relid from pg_catalog.pg_partition_tree(c.oid) t))
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence = 'p' and {which}
order by n.nspname, c.relname
"""
_USERS = "n.nspname <> 'information_schema' and n.nspname !~ '^pg_'"
_COLUMNS = """
select a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, pg_catalog.format_type(a.atttypid, a.atttypmod),
  a.attndims
from pg_catalog.pg_attribute a
where a.attrelid in ({oids}) and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
order by a.attrelid, a.attnum
"""
_PUBLICATION = """
select puballtables, pubinsert and pubupdate and pubdelete, pubtruncate
from pg_catalog.pg_publication where pubname = {name}
"""
_PUBLISHED = "select p.schemaname, p.tablename{more} from pg_catalog.pg_publication_tables p where p.pubname = {name}"
_LISTS = ", array_to_json(p.attnames), p.rowfilter"
_SLOT = """
select s.plugin, s.database, s.temporary, s.active, s.restart_lsn, s.confirmed_flush_lsn{more},
  'pid ' || s.active_pid || coalesce(' (user ' || a.usename || ', application ' || a.application_name || ')', '')
from pg_catalog.pg_replication_slots s left join pg_catalog.pg_stat_activity a on a.pid = s.active_pid
where s.slot_name = {name}
"""
_LEAVES = """
select c.oid, n.nspname, c.relname, pg_catalog.pg_relation_size(c.oid) / current_setting('block_size')::int,
  pg_catalog.pg_relation_filenode(c.oid)
from {of} join pg_catalog.pg_class c on c.oid = {leaf} join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r'
"""
_HELD = """
select pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,
  pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint, {status}
from pg_catalog.pg_replication_slots where slot_name = {name}
"""
_END_READER = """
select s.active_pid, (
  select pg_terminate_backend(a.pid) from pg_catalog.pg_stat_activity a
  where a.pid = s.active_pid and a.application_name = {name})
from pg_catalog.pg_replication_slots s where s.slot_name = {slot} and s.active_pid is not null
"""
_LISTS_VERSION, _STATUS_VERSION = 150_000, 130_000


@dataclass(frozen=True)
class PostgresCatalogTable:
    """A table as the catalog has it.

    Attributes:
        kind: `r`, or `p` for a partitioned table.
        is_owned: Whether the user has the rights of its owner.
        unreadable: The schemas and names of what the user may not read: the table, or parts of it.
        is_hidden: Whether row-level security hides rows from the user.
    """

    oid: int
    schema: str
    name: str
    kind: str
    is_partition: bool
    is_owned: bool = True
    unreadable: tuple[tuple[str, str], ...] = ()
    is_hidden: bool = False

    @property
    def full_name(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Publication:
    """A publication: whether it has inserts, updates and deletes, and its tables.

    Attributes:
        truncates: Whether it has TRUNCATE.
        columns: The published columns by schema and table; None: all.
        filtered: The tables of which it has only some rows.
    """

    is_whole: bool
    truncates: bool
    columns: dict[tuple[str, str], frozenset[str] | None]
    filtered: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Slot:
    """A replication slot.

    Attributes:
        reader: The session that reads it, as words; empty: none does.
    """

    plugin: str
    database: str
    is_temporary: bool
    is_active: bool
    restart: int
    confirmed: int
    status: str
    reader: str = ""

    @property
    def owner(self) -> str:
        """Whose it is, as words."""
        reader = f"read by {self.reader}" if self.reader else "not read by any session now"
        return f"it is of the database {self.database}, plugin {self.plugin}, {reader}"


class PostgresCatalog:
    """The catalog of the database of one session.

    Args:
        connection: The session; with replication, unless `name` is known.
        name: What identifies the database.
    """

    def __init__(self, connection: PostgresConnection, name: str = "") -> None:
        self._connection = connection
        self._types = Types()
        self._name = name
        self._version = 0

    @property
    def version(self) -> int:
        """The server's version, e.g. 170011."""
        if not self._version:
            self._version = int(self.setting("server_version_num"))
        return self._version

    @property
    def name(self) -> str:
        """What identifies the database everywhere: the server's system identifier, and its name."""
        if not self._name:
            self._name = f"{self._connection.query('IDENTIFY_SYSTEM')[0][0]}/{self._one('select current_database()')}"
        return self._name

    def setting(self, name: str) -> str:
        """Return a setting of the server."""
        return self._one(f"select current_setting({literal(name)})")

    def now(self) -> int:
        """Return a position after every commit that is visible by now."""
        return lsn_of(self._one("select pg_current_wal_insert_lsn()"))

    def flushed(self) -> int:
        """Return the position of the last change that the server can send."""
        return lsn_of(self._one("select pg_current_wal_flush_lsn()"))

    def tables(self, oids: Iterable[int] | None = None) -> list[PostgresCatalogTable]:
        """Return the tables with these numbers, or all of users."""
        which = _USERS if oids is None else f"c.oid in ({_joined(oids)})"
        return [_found(row) for row in self._connection.query(_TABLES.format(which=which))]

    def described(
        self, tables: Sequence[PostgresCatalogTable], publication: str, lists: dict[int, frozenset[str]] | None = None
    ) -> list[DatabaseTable]:
        """Return tables with their columns, types and keys; those that are gone by now are left out.

        Args:
            tables: The tables.
            publication: The name of the publication that is read.
            lists: The columns to read, by the table's number; others have all.
        """
        oids = [table.oid for table in tables]
        if not oids:
            return []
        rows = self._connection.query(_COLUMNS.format(oids=_joined(oids)))
        self._types.load(self._connection, {int(row[3] or 0) for row in rows})
        keys = {oid: identity.key for oid, identity in identities(self._connection, oids).items()}
        marked = marks(self._connection, self.version, publication, oids)
        columns: dict[int, list[Column]] = {}
        for row in rows:
            oid = int(row[0] or 0)
            column = self._column(row, keys.get(oid, ()))
            if lists is None or oid not in lists or column.name in lists[oid]:
                columns.setdefault(oid, []).append(column)
        return [
            DatabaseTable(
                self.name,
                table.oid,
                table.schema,
                table.name,
                _with_whole_key(columns[table.oid], keys.get(table.oid, ())),
                mark=marked[table.oid].text,
            )
            for table in tables
            if table.oid in columns and table.oid in marked
        ]

    def kind(self, oid: int, modifier: int) -> str:
        """Return the Iceberg type for a type of PostgreSQL."""
        self._types.load(self._connection, [oid])
        return self._types.kind(oid, modifier)

    def publication(self, name: str) -> Publication | None:
        """Return a publication; None if there is none."""
        rows = self._connection.query(_PUBLICATION.format(name=literal(name)))
        if not rows:
            return None
        more = _LISTS if self.version >= _LISTS_VERSION else ", null, null"
        published = self._connection.query(_PUBLISHED.format(name=literal(name), more=more))
        columns = {(row[0] or "", row[1] or ""): _names(row[2]) for row in published}
        filtered = frozenset((row[0] or "", row[1] or "") for row in published if row[3])
        return Publication(rows[0][1] == "t", rows[0][2] == "t", columns, filtered)

    def slot(self, name: str) -> Slot | None:
        """Return a slot; None if there is none."""
        more = ", s.wal_status" if self.version >= _STATUS_VERSION else ", ''"
        rows = self._connection.query(_SLOT.format(name=literal(name), more=more))
        if not rows:
            return None
        plugin, database, temporary, active, restart, confirmed, status, reader = rows[0]
        at = lsn_of(restart or "0/0"), lsn_of(confirmed or "0/0")
        return Slot(plugin or "", database or "", temporary == "t", active == "t", *at, status or "", reader or "")

    def end_reader(self, slot: str, name: str) -> bool:
        """End the session of a name that reads a slot; return whether any session reads it."""
        rows = self._connection.query(_END_READER.format(slot=literal(slot), name=literal(name)))
        return bool(rows)

    def held(self, name: str) -> tuple[int, int, str] | None:
        """Return the bytes of the log that a slot holds, those that it has not sent, and whether they are safe."""
        status = "wal_status" if self.version >= _STATUS_VERSION else "''"
        rows = self._connection.query(_HELD.format(name=literal(name), status=status))
        return (int(rows[0][0] or 0), int(rows[0][1] or 0), rows[0][2] or "") if rows else None

    def leaves(self, table: DatabaseTable) -> list[tuple[str, int, int]]:
        """Return the parts of a table that have rows, each as its name in SQL, its pages, and its file's number."""
        is_partitioned = self._one(f"select relkind = 'p' from pg_catalog.pg_class where oid = {table.oid}") == "t"
        of = f"pg_partition_tree({table.oid}) t" if is_partitioned else f"(select {table.oid} as relid) t"
        rows = self._connection.query(_LEAVES.format(of=of, leaf="t.relid"))
        return [(_quoted(row[1], row[2]), int(row[3] or 0), int(row[4] or 0)) for row in rows]

    def identities(self, tables: Iterable[PostgresCatalogTable]) -> dict[int, TableIdentity]:
        """Return what identifies the rows of tables; those that are gone by now are left out."""
        return identities(self._connection, [table.oid for table in tables])

    @property
    def may_create(self) -> bool:
        """Whether the user may create a publication in the database."""
        return self._one("select has_database_privilege(current_database(), 'CREATE')") == "t"

    def has_role(self, name: str) -> bool:
        """Return whether the server has a role."""
        return self._one(f"select count(*) from pg_catalog.pg_roles where rolname = {literal(name)}") != "0"

    def ancestors(self, oid: int) -> list[int]:
        """Return the partitioned tables that a table is a part of, the nearest first."""
        rows = self._connection.query(f"select relid::oid from pg_catalog.pg_partition_ancestors({oid})")
        return [int(row[0] or 0) for row in rows if int(row[0] or 0) != oid]

    def _column(self, row: Row, key: Collection[str]) -> Column:
        number, oid, modifier = int(row[1] or 0), int(row[3] or 0), int(row[4] or -1)
        kind = with_depth(self._types.kind(oid, modifier), int(row[6] or 0))
        return Column(row[2] or "", number, kind, row[5] or "", oid, modifier, row[2] in key)

    def _one(self, sql: str) -> str:
        return self._connection.query(sql)[0][0] or ""


def _with_whole_key(columns: Iterable[Column], key: Collection[str]) -> tuple[Column, ...]:
    """Return columns; none is of the key if one of the key is not among them."""
    columns = tuple(columns)
    if sum(column.is_key for column in columns) == len(key):
        return columns
    return tuple(msgspec.structs.replace(column, is_key=False) for column in columns)


def lsn_of(text: str) -> int:
    """Read a position of the log (`16/B374D848`)."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def _found(row: Row) -> PostgresCatalogTable:
    oid, schema, name, kind, is_partition, is_owned, rights = row
    unreadable, is_hidden = json.loads(rights or "[[], false]")
    names = tuple((schema, name) for schema, name in unreadable)
    return PostgresCatalogTable(
        int(oid or 0), schema or "", name or "", kind or "", is_partition == "t", is_owned == "t", names, is_hidden
    )


def _names(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(json.loads(text))


def _joined(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _quoted(schema: str | None, name: str | None) -> str:
    return f"{quoted(schema or '')}.{quoted(name or '')}"
