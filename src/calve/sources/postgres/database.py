"""Reads the catalog of a database: its tables, their columns and keys, publications and slots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from calve.sources.database.table import Column, Table
from calve.sources.postgres.declared import Types
from calve.sources.postgres.marks import marks
from calve.sources.postgres.quote import literal, quoted
from calve.sources.postgres.wire import Connection, Row

__all__ = ["Database", "Found", "Publication", "Slot", "lsn_of"]

_TABLES = """
select c.oid, n.nspname, c.relname, c.relreplident, c.relkind, c.relispartition,
  has_schema_privilege(n.oid, 'USAGE') and has_table_privilege(c.oid, 'SELECT')
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and c.relpersistence = 'p' and {which}
order by n.nspname, c.relname
"""
_USERS = "n.nspname <> 'information_schema' and n.nspname !~ '^pg_'"
_COLUMNS = """
select a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, pg_catalog.format_type(a.atttypid, a.atttypmod)
from pg_catalog.pg_attribute a
where a.attrelid in ({oids}) and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
order by a.attrelid, a.attnum
"""
_KEYS = """
select i.indrelid, i.indisprimary, i.indisreplident, a.attnum
from pg_catalog.pg_index i join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
where i.indrelid in ({oids}) and i.indisvalid and (i.indisprimary or i.indisreplident)
  and array_position(i.indkey::int2[], a.attnum) < i.indnkeyatts
"""
_PUBLICATION = """
select puballtables, pubinsert and pubupdate and pubdelete from pg_catalog.pg_publication where pubname = {name}
"""
_PUBLISHED = "select p.schemaname, p.tablename{more} from pg_catalog.pg_publication_tables p where p.pubname = {name}"
_LISTS = ", array_to_json(p.attnames), p.rowfilter"
_SLOT = """
select plugin, database, temporary, active, restart_lsn, confirmed_flush_lsn{more}
from pg_catalog.pg_replication_slots where slot_name = {name}
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
class Found:
    """A table as the catalog has it.

    Attributes:
        identity: Its replica identity, PostgreSQL's letter.
        kind: `r`, or `p` for a partitioned table.
        readable: Whether the user may read it.
    """

    oid: int
    schema: str
    name: str
    identity: str
    kind: str
    is_partition: bool
    readable: bool

    @property
    def full_name(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Publication:
    """A publication: whether it has inserts, updates and deletes, and its tables.

    Attributes:
        columns: The published columns by schema and table; None: all.
        filtered: The tables of which it has only some rows.
    """

    is_whole: bool
    columns: dict[tuple[str, str], frozenset[str] | None]
    filtered: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class Slot:
    """A replication slot."""

    plugin: str
    database: str
    is_temporary: bool
    is_active: bool
    restart: int
    confirmed: int
    status: str


class Database:
    """The catalog of the database of one session.

    Args:
        connection: The session; with replication, unless `name` is known.
        name: What identifies the database.
    """

    def __init__(self, connection: Connection, name: str = "") -> None:
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

    def tables(self, oids: Iterable[int] | None = None) -> list[Found]:
        """Return the tables with these numbers, or all of users."""
        which = _USERS if oids is None else f"c.oid in ({_joined(oids)})"
        return [_found(row) for row in self._connection.query(_TABLES.format(which=which))]

    def described(
        self, found: Sequence[Found], publication: str, lists: dict[int, frozenset[str]] | None = None
    ) -> list[Table]:
        """Return tables with their columns, types and keys; those that are gone by now are left out.

        Args:
            found: The tables.
            publication: The name of the publication that is read.
            lists: The columns to read, by the table's number; others have all.
        """
        oids = [each.oid for each in found]
        if not oids:
            return []
        rows = self._connection.query(_COLUMNS.format(oids=_joined(oids)))
        self._types.load(self._connection, {int(row[3] or 0) for row in rows})
        keys = self._keys(found)
        marked = marks(self._connection, self.version, publication, oids)
        columns: dict[int, list[Column]] = {}
        for row in rows:
            oid = int(row[0] or 0)
            column = self._column(row, keys[oid])
            if lists is None or oid not in lists or column.name in lists[oid]:
                columns.setdefault(oid, []).append(column)
        return [
            Table(self.name, each.oid, each.schema, each.name, tuple(columns[each.oid]), mark=marked[each.oid].text)
            for each in found
            if each.oid in columns and each.oid in marked
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
        return Publication(rows[0][1] == "t", columns, filtered)

    def slot(self, name: str) -> Slot | None:
        """Return a slot; None if there is none."""
        more = ", wal_status" if self.version >= _STATUS_VERSION else ", ''"
        rows = self._connection.query(_SLOT.format(name=literal(name), more=more))
        if not rows:
            return None
        plugin, database, temporary, active, restart, confirmed, status = rows[0]
        at = lsn_of(restart or "0/0"), lsn_of(confirmed or "0/0")
        return Slot(plugin or "", database or "", temporary == "t", active == "t", *at, status or "")

    def end_reader(self, slot: str, name: str) -> bool:
        """End the session of a name that reads a slot; return whether any session reads it."""
        rows = self._connection.query(_END_READER.format(slot=literal(slot), name=literal(name)))
        return bool(rows)

    def held(self, name: str) -> tuple[int, int, str] | None:
        """Return the bytes of the log that a slot holds, those that it has not sent, and whether they are safe."""
        status = "wal_status" if self.version >= _STATUS_VERSION else "''"
        rows = self._connection.query(_HELD.format(name=literal(name), status=status))
        return (int(rows[0][0] or 0), int(rows[0][1] or 0), rows[0][2] or "") if rows else None

    def leaves(self, table: Table) -> list[tuple[str, int, int]]:
        """Return the parts of a table that have rows, each as its name in SQL, its pages, and its file's number."""
        is_partitioned = self._one(f"select relkind = 'p' from pg_catalog.pg_class where oid = {table.oid}") == "t"
        of = f"pg_partition_tree({table.oid}) t" if is_partitioned else f"(select {table.oid} as relid) t"
        rows = self._connection.query(_LEAVES.format(of=of, leaf="t.relid"))
        return [(_quoted(row[1], row[2]), int(row[3] or 0), int(row[4] or 0)) for row in rows]

    def _keys(self, found: Sequence[Found]) -> dict[int, set[int]]:
        keys: dict[int, set[int]] = {each.oid: set() for each in found}
        by_index = {each.oid: each.identity == "i" for each in found}
        hidden = {each.oid for each in found if each.identity == "n"}
        for row in self._connection.query(_KEYS.format(oids=_joined(keys))):
            oid = int(row[0] or 0)
            if oid not in hidden and (row[2] if by_index[oid] else row[1]) == "t":
                keys[oid].add(int(row[3] or 0))
        return keys

    def _column(self, row: Row, key: set[int]) -> Column:
        number, oid, modifier = int(row[1] or 0), int(row[3] or 0), int(row[4] or -1)
        kind = self._types.kind(oid, modifier)
        return Column(row[2] or "", number, kind, row[5] or "", oid, modifier, number in key)

    def _one(self, sql: str) -> str:
        return self._connection.query(sql)[0][0] or ""


def lsn_of(text: str) -> int:
    """Read a position of the log (`16/B374D848`)."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def _found(row: Row) -> Found:
    oid, schema, name, identity, kind, is_partition, readable = row
    return Found(
        int(oid or 0), schema or "", name or "", identity or "", kind or "", is_partition == "t", readable == "t"
    )


def _names(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(json.loads(text))


def _joined(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _quoted(schema: str | None, name: str | None) -> str:
    return f"{quoted(schema or '')}.{quoted(name or '')}"
