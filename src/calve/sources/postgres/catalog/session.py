"""Compares the tables of a stream with the catalog, which is later than the stream: what may be wrong stops a table."""

from __future__ import annotations

import msgspec

from calve.errors import SchemaConflictError
from calve.sources.database.follow import RECREATED
from calve.sources.database.stream import DatabaseSession, DatabaseStream, StreamContext
from calve.sources.database.stream_position import Transaction
from calve.sources.database.table import DatabaseTable
from calve.sources.postgres.catalog import follow
from calve.sources.postgres.catalog.database import PostgresCatalog
from calve.sources.postgres.catalog.identity import FollowFault, TableIdentity, faults, identities, lacking
from calve.sources.postgres.catalog.marks import CatalogMark, lost_rows, marks, unlogged
from calve.sources.postgres.catalog.publication import withdraw
from calve.sources.postgres.protocol.pgoutput import Relation
from calve.sources.postgres.protocol.wire import PostgresConnection

__all__ = ["CatalogSession"]


class CatalogSession(DatabaseSession):
    """One connection of the stream, with a session beside it that reads the catalog.

    Args:
        stream: The stream.
        context: What it reads, and where it puts it.
        side: The session that reads the catalog.
    """

    system = "PostgreSQL"

    def __init__(self, stream: DatabaseStream, context: StreamContext, side: PostgresConnection) -> None:
        super().__init__(stream, context)
        self._side = side
        self._database = PostgresCatalog(side, context.begun["database"])
        self._publication = context.settings.publication_of(context.pipeline)
        self._relations: dict[int, Relation] = {}
        self._named: set[str] = set()
        self._leaves: dict[int, dict[int, Relation]] = {}
        self._since = {table.oid: table.since for table in context.epochs.tables.values() if table.since}

    def _relate(self, relation: Relation) -> list[int]:
        """Note a description, and return the tables whose changes it describes: a partition logs those of its root."""
        self._relations[relation.oid] = relation
        roots = [root for root in self._database.ancestors(relation.oid) if root in self._relations]
        for root in roots:
            self._leaves.setdefault(root, {})[relation.oid] = relation
        return [relation.oid, *roots]

    def _is_selected(self, relation: Relation) -> bool:
        former = self._epochs.tables.get(relation.oid)
        is_renamed = former is not None and former.full_name != f"{relation.schema}.{relation.name}"
        return is_renamed or self._settings.selected.has(relation.schema, relation.name)

    def _is_loaded(self, oid: int, transaction: Transaction) -> bool:
        """Return whether a table was loaded again after a transaction."""
        return transaction.commit <= self._since.get(oid, 0)

    def _describe(self, relation: Relation) -> bool:
        """Follow a description; return whether the changes of the table are read."""
        if not self._has_description(relation):
            return False
        table = self._epochs.tables[relation.oid]
        if lacking := self._without_key(relation, table):
            self._stop_table(table, lacking)
            return False
        return True

    def _without_key(self, relation: Relation, table: DatabaseTable) -> str:
        """Return why old rows in the stream do not have the key; empty: they have. Partitions log their own rows."""
        names = [relation.columns[index].name for index in table.keys]
        for part in self._parts(relation):
            if table.appends and part.sent is not None:
                return "its replica identity does not have all columns any more, and it has no key"
            if missing := lacking(part.sent, names):
                where = "" if part is relation else f" of its partition {part.schema}.{part.name}"
                return f"the replica identity{where} lacks {', '.join(missing)}, which is in its key"
        return ""

    def _parts(self, relation: Relation) -> list[Relation]:
        """Return the descriptions of the tables that log the changes of a table: it, or its partitions so far."""
        mark = CatalogMark.of(self._epochs.tables[relation.oid])
        is_partitioned = mark is not None and relation.oid not in mark.parts
        return list(self._leaves.get(relation.oid, {}).values()) if is_partitioned else [relation]

    def _sends_whole_rows(self, oid: int) -> bool:
        """Return whether old rows in the stream are whole."""
        return all(part.sent is None for part in self._parts(self._relations[oid]))

    def _has_description(self, relation: Relation) -> bool:
        former = self._epochs.tables.get(relation.oid)
        if former is not None and former.stopped:
            return False
        if former is not None and not self._is_marked([former]):
            return False
        former = self._epochs.tables.get(relation.oid)
        if former is not None and follow.same(relation, former):
            return True
        self._write()
        full_name = f"{relation.schema}.{relation.name}"
        for other in self._epochs.tables.values():
            if former is None and other.full_name == full_name:
                if self.transaction and not self._is_loaded(other.oid, self.transaction):
                    self._read_again(other, RECREATED, is_other=True)
                return False
        described = self._database.described(self._database.tables([relation.oid]), self._publication)
        current = described[0] if described else None
        try:
            table = follow.described(relation, former, current, self._database.kind, self._database.name)
        except SchemaConflictError as error:
            assert former is not None
            self._stop_table(former, error.message)
            return False
        if table == former:
            return True
        return self._set_table(table, former)

    def _is_marked(self, tables: list[DatabaseTable]) -> bool:
        """Compare tables with the catalog; return whether all are still read."""
        tables = [table for table in tables if not table.is_dropped]
        marks_now = marks(self._side, self._database.version, self._publication, [table.oid for table in tables])
        changed = [(table, marks_now[table.oid]) for table in tables if table.oid in marks_now]
        kept, is_read = self._dropped([table for table in tables if table.oid not in marks_now]), True
        for table, current in changed:
            now = current.after(CatalogMark.of(table))
            if table.mark == now.text:
                continue
            if lost := lost_rows(table, now):
                self._lose_rows(table, lost)
            why = unlogged(table, now)
            if why and not self._epochs.tables[table.oid].stopped:
                self._goes_on(table, why)
            if self._epochs.tables[table.oid].stopped:
                is_read = False
            else:
                kept.append(msgspec.structs.replace(table, mark=now.text))
        if kept:
            self._write()
            self._epochs.add(kept)
            self._buffer.begin_epoch()
        return is_read

    def _check_identities(self) -> None:
        """Stop tables that the stream would not tell of: the server refuses to change their rows, or does not log them.

        They are taken out of a publication of Calve's own; whose publication it is decides about others.
        """
        tables = [table for table in self._epochs.tables.values() if not table.stopped and not table.is_dropped]
        for oid, identity in identities(self._side, [table.oid for table in tables]).items():
            for fault in faults(identity, self._epochs.tables[oid].appends):
                if fault.is_unseen or (fault.refuses and self._is_withdrawn(identity, fault)):
                    self._stop_table(self._epochs.tables[oid], fault.why)

    def _is_withdrawn(self, identity: TableIdentity, fault: FollowFault) -> bool:
        """Return whether a table is no longer published, if that can be; otherwise say once that it should not be."""
        if self._settings.publication is None and withdraw(self._side, self._publication, identity, self._lines):
            return True
        if identity.full_name not in self._named:
            self._named.add(identity.full_name)
            self._lines.warning(fault.why, table=identity.full_name, hint=f"Run: {fault.fix};")
        return False

    def _dropped(self, tables: list[DatabaseTable]) -> list[DatabaseTable]:
        """Log which tables are gone, and return them; their last changes may still come."""
        for table in tables:
            self._lines.warning(f"dropped in PostgreSQL, but not in the target: {table.full_name}")
        return [msgspec.structs.replace(table, is_dropped=True) for table in tables]
