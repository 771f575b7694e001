"""What identifies the rows of a table: the columns that the server sends of old rows, and the key of the target.

PostgreSQL refuses every UPDATE and DELETE of a published table without a replica identity (`CheckCmdReplicaIdentity`).
So its rule is checked here before a table is published. A partitioned table has the rule of each of its leaves: they
log the changes, each with a replica identity of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from calve import structs
from calve.observe.humanize import listed
from calve.sources.postgres.protocol.quote import quoted
from calve.sources.postgres.protocol.wire import PostgresConnection

__all__ = ["FollowFault", "Index", "TableIdentity", "faults", "identities", "lacking"]

_FULL, _DEFAULT, _INDEX = "f", "d", "i"
_PARTITIONED, _FOREIGN = "p", "f"
_SHOWN = 3
_IDENTITIES = """
select t.root, json_build_object('schema', n.nspname, 'name', c.relname, 'letter', c.relreplident, 'kind', c.relkind,
  'is_logged', c.relpersistence = 'p', 'is_leaf', t.root <> t.relid, 'indexes', (
    select coalesce(json_agg(json_build_object('is_primary', i.indisprimary, 'is_identity', i.indisreplident,
      'is_immediate', i.indimmediate, 'is_valid', i.indisvalid and i.indisunique and i.indpred is null,
      'columns', (select coalesce(json_agg(a.attname order by k.place), '[]')
        from unnest(i.indkey::int2[]) with ordinality k(number, place)
        join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
        where k.place <= i.indnkeyatts),
      'generated', (select coalesce(json_agg(a.attname order by a.attnum), '[]')
        from pg_catalog.pg_attribute a where a.attrelid = i.indrelid and a.attnum = any(i.indkey)
          and a.attgenerated <> '' and array_position(i.indkey::int2[], a.attnum) < i.indnkeyatts))), '[]')
    from pg_catalog.pg_index i where i.indrelid = c.oid and (i.indisprimary or i.indisreplident)),
  'lists', (select coalesce(json_agg(distinct p.pubname), '[]') {rules} and to_jsonb(r)->>'prattrs' is not null),
  'filters', (select coalesce(json_agg(distinct p.pubname), '[]') {rules} and to_jsonb(r)->>'prqual' is not null))
from (
  select o as root, o as relid from unnest(array[{oids}]::oid[]) o
  union all select r.oid, p.relid from pg_catalog.pg_class r, pg_catalog.pg_partition_tree(r.oid) p
  where r.oid in ({oids}) and r.relkind = 'p' and p.isleaf) t
join pg_catalog.pg_class c on c.oid = t.relid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
order by t.root, t.relid
"""
_RULES = """
from pg_catalog.pg_publication_rel r join pg_catalog.pg_publication p on p.oid = r.prpubid
where (p.pubupdate or p.pubdelete)
  and (r.prrelid = c.oid or r.prrelid in (select a.relid from pg_catalog.pg_partition_ancestors(c.oid) a))
"""
"""What publications want of a table's replica identity; before PostgreSQL 15 they have no lists and no filters."""


class FollowFault(NamedTuple):
    """Why a table cannot be followed.

    Attributes:
        why: A sentence.
        fix: The SQL that helps, without a semicolon; empty: there is none.
        is_keyless: Whether it is that the table has no key.
        refuses: Whether PostgreSQL refuses changes of rows of the table while it is published.
        is_unseen: Whether the stream does not show it.
    """

    why: str
    fix: str = ""
    refuses: bool = False
    is_unseen: bool = False
    is_keyless: bool = False


class Index(msgspec.Struct, frozen=True):
    """A primary key, or the index that the replica identity names.

    Attributes:
        is_immediate: Whether it is checked at once; the server identifies rows by no other index.
        is_valid: Whether it is valid and unique for all rows.
        columns: The names of its columns.
        generated: Those of them that are generated, which PostgreSQL does not publish.
    """

    is_primary: bool
    is_identity: bool
    is_immediate: bool
    is_valid: bool
    columns: tuple[str, ...]
    generated: tuple[str, ...]


class TableIdentity(msgspec.Struct, frozen=True):
    """What the catalog has of one table, or of one partition.

    Attributes:
        letter: PostgreSQL's letter of the replica identity.
        kind: `r`, `p` for a partitioned table, `f` for a foreign one.
        is_logged: Whether its changes are in the log.
        is_leaf: Whether it is a partition whose changes come as those of another table.
        indexes: Those that may identify rows.
        lists: Publications that have only some of its columns: they rule out a replica identity of all columns.
        filters: Those that have only some of its rows: the columns of their conditions must be in its replica identity.
        leaves: The partitions that have its rows.
    """

    schema: str
    name: str
    letter: str
    kind: str
    is_logged: bool
    is_leaf: bool
    indexes: tuple[Index, ...]
    lists: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    leaves: tuple[TableIdentity, ...] = ()

    @property
    def sql(self) -> str:
        """Its name in SQL."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def full_name(self) -> str:
        """`schema.table`."""
        return f"{self.schema}.{self.name}"

    @property
    def chosen(self) -> Index | None:
        """The index whose columns are the key of the target: that of the replica identity, else the primary key."""
        return next((index for index in self.indexes if index.is_identity), None) or self.primary

    @property
    def primary(self) -> Index | None:
        """The primary key."""
        return next((index for index in self.indexes if index.is_primary), None)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row in the target; none if the table cannot be followed."""
        index = self.chosen
        return index.columns if index and index.is_valid and not index.generated else ()

    @property
    def sent(self) -> frozenset[str] | None:
        """The columns that the server sends of old rows; None: all. None at all: it refuses to change rows."""
        if self.letter == _FULL:
            return None
        index = {
            _DEFAULT: self.primary,
            _INDEX: next((candidate for candidate in self.indexes if candidate.is_identity), None),
        }.get(self.letter)
        return frozenset(index.columns) if index and index.is_immediate and index.is_valid else frozenset()

    @property
    def parts(self) -> tuple[TableIdentity, ...]:
        """The tables that have its rows."""
        return self.leaves if self.kind == _PARTITIONED else (self,)


def identities(connection: PostgresConnection, oids: Iterable[int]) -> dict[int, TableIdentity]:
    """Return the identities of tables, with their leaves; those that are gone by now are left out.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    wanted = ", ".join(map(str, oids))
    by_table: dict[int, TableIdentity] = {}
    leaves: dict[int, list[TableIdentity]] = {}
    for root, text in connection.query(_IDENTITIES.format(oids=wanted, rules=_RULES)) if wanted else []:
        identity = structs.decode(text or "", TableIdentity)
        if identity.is_leaf:
            leaves.setdefault(int(root or 0), []).append(identity)
        else:
            by_table[int(root or 0)] = identity
    return {
        oid: msgspec.structs.replace(described, leaves=tuple(leaves.get(oid, ())))
        for oid, described in by_table.items()
    }


def faults(identity: TableIdentity, appends: bool = False) -> Iterator[FollowFault]:
    """Yield why the changes of a table cannot be followed, or why the server would refuse the application's.

    Args:
        identity: What identifies its rows.
        appends: Whether tables without a key are read (`no_key`), which needs whole old rows.
    """
    table, index = identity.full_name, identity.chosen
    if identity.letter == _INDEX and not any(candidate.is_identity for candidate in identity.indexes):
        yield _identity_fault(identity, f"the index of the replica identity of {table} was dropped", refuses=True)
        return
    if index is None and appends:
        for part in identity.parts:
            yield from _append_faults(part, identity)
        return
    if index is None:
        yield FollowFault(
            f"{table} has no primary key, so its changes cannot be applied",
            f"ALTER TABLE {identity.sql} ADD PRIMARY KEY (…)",
            refuses=identity.sent is not None,
            is_keyless=True,
        )
        return
    if index.generated:
        yield FollowFault(
            f"{listed(list(index.generated), _SHOWN)} in the key of {table} is generated, and PostgreSQL does not "
            "publish generated columns: set a replica identity of other columns, or exclude the table",
            f"ALTER TABLE {identity.sql} REPLICA IDENTITY USING INDEX …",
        )
        return
    if not index.is_valid:
        yield FollowFault(f"the index of the key of {table} is not valid, so it may have duplicates", "")
        return
    for part in identity.parts:
        yield from _part_faults(part, index.columns, identity)


def lacking(sent: Collection[str] | None, key: Collection[str]) -> list[str]:
    """Return the columns of a key that old rows in the stream do not have."""
    return [] if sent is None else [name for name in key if name not in sent]


def _append_faults(part: TableIdentity, table: TableIdentity) -> Iterator[FollowFault]:
    if unseen := _unseen(part, table):
        yield unseen
    elif part.sent is not None:
        why = "has no key, so once it is published, PostgreSQL refuses to UPDATE and DELETE its rows"
        fault = f"{_called(part, table)} {why}, unless all columns are its replica identity"
        yield _identity_fault(part, fault, refuses=True)


def _called(part: TableIdentity, table: TableIdentity) -> str:
    return part.full_name if part is table else f"the partition {part.full_name} of {table.full_name}"


def _unseen(part: TableIdentity, table: TableIdentity) -> FollowFault | None:
    if part.kind != _FOREIGN and part.is_logged:
        return None
    kind = "a foreign table" if part.kind == _FOREIGN else "unlogged"
    why = f"{_called(part, table)} is {kind}, so its changes are not in the log: exclude {table.full_name}"
    return FollowFault(why, is_unseen=True)


def _part_faults(part: TableIdentity, key: tuple[str, ...], table: TableIdentity) -> Iterator[FollowFault]:
    what = _called(part, table)
    if unseen := _unseen(part, table):
        yield unseen
    elif part.sent is not None and not part.sent:
        why = f"{what} {_unidentified(part)}: once it is published, PostgreSQL refuses to UPDATE and DELETE its rows"
        yield _identity_fault(part, why, key, refuses=True)
    elif missing := lacking(part.sent, key):
        why = f"{what} has a replica identity without {listed(missing, _SHOWN)}, which is in the key of the table"
        yield _identity_fault(part, why, key)


def _unidentified(part: TableIdentity) -> str:
    if part.letter == _DEFAULT and part.primary and not part.primary.is_immediate:
        return "has a deferrable primary key, which is no replica identity"
    if part.letter == _DEFAULT and not part.primary:
        return "has no primary key"
    return "has no replica identity"


def _identity_fault(part: TableIdentity, why: str, key: Collection[str] = (), refuses: bool = False) -> FollowFault:
    """Return a fault with the SQL of a replica identity: the primary key if that is enough, else all columns.

    All columns are enough for everybody else who reads its changes, unless a publication has only some of them: then
    PostgreSQL refuses to UPDATE and DELETE rows that are identified by all.
    """
    primary = None if part.sent else part.primary
    is_unique = primary is not None and primary.is_immediate and primary.is_valid
    if primary is not None and is_unique and not lacking(primary.columns, key) and not part.filters:
        return FollowFault(why, f"ALTER TABLE {part.sql} REPLICA IDENTITY DEFAULT", refuses)
    if not part.lists:
        return FollowFault(why, f"ALTER TABLE {part.sql} REPLICA IDENTITY FULL", refuses)
    others = f"{listed(list(part.lists), _SHOWN)} has only some of its columns, which rules out REPLICA IDENTITY FULL"
    return FollowFault(
        f"{why}. {others}: exclude the table, or let that publication have all columns first", "", refuses
    )
