"""Notices that rows changed without a trace in the stream, by what the catalog has besides the columns.

pgoutput sends no DDL, and its description of a table has no numbers of columns. So the catalog is looked at whenever a
table is described, and every few seconds. It is later than the stream: what may be wrong is stopped at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from calve import structs
from calve.sources.database.table import DatabaseTable
from calve.sources.postgres.protocol.quote import literal
from calve.sources.postgres.protocol.wire import PostgresConnection

__all__ = ["LEFT_OUT", "CatalogMark", "lost_rows", "marks", "unlogged"]

LEFT_OUT = "its publication was changed, and may have left out changes"
"""Why a table is stopped that somebody took out of its publication."""
_MARKS = """
select c.oid, json_build_object('last', c.relnatts,
  'is_deferrable', exists (select 1 from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisprimary
    and not i.indimmediate),
  'columns', (select coalesce(
      json_object_agg(a.attnum, json_build_array(a.attname, a.xmin::text, a.atthasmissing)), '{{}}')
    from pg_catalog.pg_attribute a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''),
  'parts', (select coalesce(json_object_agg(p.oid, json_build_array(pg_catalog.pg_relation_filenode(p.oid)::bigint,
      coalesce((select i.xmin::text <> t.xmin::text from pg_catalog.pg_inherits i, pg_catalog.pg_type t
        where i.inhrelid = p.oid and t.oid = p.reltype), false))), '{{}}')
    from pg_catalog.pg_class p where p.relkind in ('r', 'p') and (p.oid = c.oid and c.relkind = 'r' or c.relkind = 'p'
      and p.oid in (select t.relid from pg_catalog.pg_partition_tree(c.oid) t where t.parentrelid is not null))),
  'labels', (select coalesce(json_object_agg(e.oid, e.enumlabel), '{{}}') from pg_catalog.pg_enum e
    where e.enumtypid in (select unnest(array[t.oid, t.typelem, t.typbasetype])
      from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)),
  'published', (select string_agg(m.oid || ':' || m.xmin, ' ' order by m.oid) || ' ' || c.relpersistence::text from (
    select p.oid::text, p.xmin::text from pg_catalog.pg_publication p where p.pubname = {publication}
    union all select r.oid::text, r.xmin::text
      from pg_catalog.pg_publication_rel r join pg_catalog.pg_publication p on p.oid = r.prpubid
      where p.pubname = {publication}
        and r.prrelid in (select c.oid union all select a.relid from pg_catalog.pg_partition_ancestors(c.oid) a)
    {by_schema}) m))
from pg_catalog.pg_class c where c.oid in ({oids})
"""
_BY_SCHEMA = """
    union all select n.oid::text, n.xmin::text
      from pg_catalog.pg_publication_namespace n join pg_catalog.pg_publication p on p.oid = n.pnpubid
      where p.pubname = {publication} and n.pnnspid = c.relnamespace
"""
_BY_SCHEMA_VERSION = 150_000


class CatalogMark(msgspec.Struct, frozen=True):
    """What the catalog has of a table.

    Attributes:
        last: The highest number that a column ever had.
        columns: By number: the name, the transaction that defined it last, and whether older rows have a value.
        parts: The tables with the rows, by their numbers: the number of the file, and whether each was attached.
        labels: Those of enumerations, by number.
        published: What puts the table into the publication: rows of the catalog, each with the transaction that wrote
            it last, and whether the table is logged; None: there is no such publication (yet).
        is_deferrable: Whether the primary key is checked only at the end of statements or transactions.
    """

    last: int
    columns: dict[int, tuple[str, str, bool]]
    parts: dict[int, tuple[int | None, bool]]
    labels: dict[int, str]
    published: str | None = None
    is_deferrable: bool = False

    @staticmethod
    def of(table: DatabaseTable) -> CatalogMark | None:
        """Return the mark of a table; None if it has none."""
        return structs.decode(table.mark, CatalogMark) if table.mark else None

    def after(self, before: CatalogMark | None) -> CatalogMark:
        """Return the mark that follows another one; changes from before may come while it is the current one."""
        was_deferrable = before is not None and before.is_deferrable
        return msgspec.structs.replace(self, is_deferrable=self.is_deferrable or was_deferrable)

    @property
    def text(self) -> str:
        """As it is kept in a table."""
        return msgspec.json.encode(self).decode()


def marks(
    connection: PostgresConnection, version: int, publication: str, oids: Iterable[int]
) -> dict[int, CatalogMark]:
    """Return the marks of tables; those that are gone by now are left out.

    Args:
        connection: A session.
        version: The server's version, e.g. 170011.
        publication: The name of the publication that is read.
        oids: The numbers of the tables.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    wanted = ", ".join(map(str, oids))
    name = literal(publication)
    by_schema = _BY_SCHEMA.format(publication=name) if version >= _BY_SCHEMA_VERSION else ""
    sql = _MARKS.format(oids=wanted, publication=name, by_schema=by_schema)
    rows = connection.query(sql) if wanted else []
    return {int(row[0] or 0): structs.decode(row[1] or "", CatalogMark) for row in rows}


def unlogged(table: DatabaseTable, now: CatalogMark) -> str:
    """Return why rows may have other values than the stream has brought; empty: they have not."""
    before = CatalogMark.of(table)
    if before is None:
        return ""
    if before.published not in (None, now.published):
        return LEFT_OUT
    names = {column.number: column.name for column in table.columns}
    gone = {column.name for column in table.dropped} | {
        name for number, name in names.items() if number not in now.columns
    }
    for number, (name, _, is_filled) in now.columns.items():
        if name in gone and names.get(number) != name:
            return f"a column {name} was dropped, and there is another one of that name"
        if number not in before.columns and (is_filled or number <= before.last):
            return f"older rows have a value in the new column {name}"
    is_rewritten = bool(_rewritten(before, now))
    altered = [
        definition[0]
        for number, definition in now.columns.items()
        if before.columns.get(number, ("", ""))[1] != definition[1]
    ]
    if is_rewritten and altered:
        return f"its rows were rewritten, and may have other values in its column {altered[0]}"
    if any(part not in before.parts and is_attached for part, (_, is_attached) in now.parts.items()):
        return "a partition was attached, whose rows are not in the target"
    if any(label != now.labels.get(number, label) for number, label in before.labels.items()):
        return "a label of an enumeration has another name"
    return ""


def lost_rows(table: DatabaseTable, now: CatalogMark) -> str:
    """Return why rows of a partitioned table may be gone; empty: they are not."""
    before = CatalogMark.of(table)
    if before is None:
        return ""
    if before.parts.keys() - now.parts.keys():
        return "a partition was dropped or detached, and its rows in the target were not removed"
    if _rewritten(before, now) - {table.oid}:
        return "a partition was truncated, or rewritten by VACUUM FULL, and rows in the target were not removed"
    return ""


def _rewritten(before: CatalogMark, now: CatalogMark) -> set[int]:
    """Return the parts whose rows are in another file by now."""
    return {part for part, (file, _) in now.parts.items() if part in before.parts and before.parts[part][0] != file}
