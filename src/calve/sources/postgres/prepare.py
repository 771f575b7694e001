"""Checks what replication needs: the server, the rights of the user, the tables and their identities, and the slot.

Everything that is wrong is in one error, with the SQL that helps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from calve.observe.humanize import listed
from calve.observe.log import Log
from calve.sources.database.preparation import SHOWN, Preparation, without_key
from calve.sources.database.table import DatabaseTable
from calve.sources.database.target_names import key_fault, names_fault
from calve.sources.postgres.catalog.database import PostgresCatalog, PostgresCatalogTable, Publication
from calve.sources.postgres.catalog.identity import FollowFault, TableIdentity, faults
from calve.sources.postgres.catalog.publication import creation
from calve.sources.postgres.protocol.quote import literal, qualified, quoted
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.postgres.slot.slots import PLUGIN

__all__ = ["inspect", "table_faults", "warn"]

_OLDEST = 120_000
_ROOTS = 130_000


def inspect(
    database: PostgresCatalog, settings: PostgresSettings, pipeline: str, may_replicate: bool = True
) -> Preparation:
    """Check the server, the rights and the tables; changes nothing.

    Args:
        database: The catalog.
        settings: The source's settings.
        pipeline: The pipeline's name.
        may_replicate: Whether the user may open a session for replication.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    name = settings.publication_of(pipeline)
    publication = database.publication(name)
    chosen, left_out = _chosen(database, settings, publication)
    tables = database.described(chosen, name, _lists(publication, chosen))
    by_oid, identities = {table.oid: table for table in tables}, database.identities(chosen)
    of_tables = {
        catalog_table.oid: list(
            _table_faults(
                catalog_table, by_oid.get(catalog_table.oid), identities.get(catalog_table.oid), publication, settings
            )
        )
        for catalog_table in chosen
    }
    good = [table for table in tables if not of_tables[table.oid]]
    catalog_table = [
        *_server(database),
        *([] if chosen else [FollowFault(_nothing(settings, publication))]),
        *_keyless(chosen, of_tables),
        *(fault for table in chosen for fault in of_tables[table.oid] if not fault.is_keyless),
        *_rights(database, settings, chosen, may_replicate),
        *(_unpublished(database, settings, name, good, chosen) if publication is None else ()),
        *_partial(publication, name, settings),
        *_slot(database, settings.slot_of(pipeline), settings, publication),
    ]
    return Preparation(
        tables, [fault.fix for fault in catalog_table if fault.fix], [fault.why for fault in catalog_table], left_out
    )


def _keyless(
    chosen: Sequence[PostgresCatalogTable], of_tables: Mapping[int, Sequence[FollowFault]]
) -> Iterator[FollowFault]:
    """Yield one sentence about all tables without a key, and the SQL for each."""
    tables = [table for table in chosen if any(fault.is_keyless for fault in of_tables[table.oid])]
    fixes = [fault.fix for table in tables for fault in of_tables[table.oid] if fault.is_keyless]
    for why in without_key([table.full_name for table in tables]):
        yield FollowFault(why, "; ".join(fixes[:SHOWN]))


def table_faults(
    database: PostgresCatalog, settings: PostgresSettings, entry: PostgresCatalogTable, publication: str
) -> list[FollowFault]:
    """Return what is wrong with a table that is not published yet."""
    table = next(iter(database.described([entry], publication)), None)
    identity = database.identities([entry]).get(entry.oid)
    unreadable = [FollowFault("the user may not read it")] if entry.unreadable or entry.is_hidden else []
    return [*_table_faults(entry, table, identity, None, settings), *unreadable]


def warn(preparation: Preparation, settings: PostgresSettings, pipeline: str, log: Log) -> None:
    """Log the tables that are selected, but not published; a publication of Calve's own gets them (`NewTables`)."""
    if preparation.left_out and settings.publication is not None:
        name, tables = quoted(settings.publication_of(pipeline)), preparation.left_out[:SHOWN]
        log.warning(
            f"the publication does not have these selected tables, so they are not read: {', '.join(tables)}",
            hint=f"To read one that has a key: ALTER PUBLICATION {name} ADD TABLE ONLY …, and calve source reload … "
            "<table>; of one without, PostgreSQL would refuse to UPDATE and DELETE rows. Or exclude them",
        )


def _server(database: PostgresCatalog) -> Iterator[FollowFault]:
    if database.version < _OLDEST:
        yield FollowFault(f"version {database.setting('server_version')} is older than 12")
    if (level := database.setting("wal_level")) != "logical":
        yield FollowFault(
            f"wal_level is {level}, not logical (a change needs a restart of the server)",
            "ALTER SYSTEM SET wal_level = logical",
        )
    if database.setting("server_encoding") == "SQL_ASCII":
        yield FollowFault("the database's encoding is SQL_ASCII, so its texts have no known characters")


def _rights(
    database: PostgresCatalog, settings: PostgresSettings, chosen: Sequence[PostgresCatalogTable], may_replicate: bool
) -> Iterator[FollowFault]:
    """Yield all rights that the user lacks."""
    user = quoted(settings.username)
    if not may_replicate:
        is_rds = database.has_role("rds_replication")
        grant = f"GRANT rds_replication TO {user}" if is_rds else f"ALTER ROLE {user} REPLICATION"
        yield FollowFault(f"the user {settings.username} may not replicate", grant)
    if unreadable := [table for table in chosen if table.unreadable]:
        schemas = dict.fromkeys(quoted(schema) for table in unreadable for schema, _ in table.unreadable)
        names = [f"{quoted(schema)}.{quoted(name)}" for table in unreadable for schema, name in table.unreadable]
        yield FollowFault(
            f"the user {settings.username} may not read {_shown(unreadable)}",
            f"GRANT USAGE ON SCHEMA {', '.join(schemas)} TO {user}; GRANT SELECT ON {', '.join(names)} TO {user}",
        )
    if hidden := [table for table in chosen if table.is_hidden]:
        yield FollowFault(
            f"row-level security hides rows of {_shown(hidden)} from the user {settings.username}",
            f"ALTER ROLE {user} BYPASSRLS",
        )


def _unpublished(
    database: PostgresCatalog,
    settings: PostgresSettings,
    name: str,
    tables: Sequence[DatabaseTable],
    chosen: Sequence[PostgresCatalogTable],
) -> Iterator[FollowFault]:
    """Yield that the publication is missing, if the user may not create it; the SQL has the tables without faults."""
    if not all(table.is_owned for table in chosen) or not database.may_create:
        sql = creation(name, tables, database.version) if tables else ""
        yield FollowFault(f"there is no publication {name}, and the user {settings.username} may not create it", sql)


def _partial(publication: Publication | None, name: str, settings: PostgresSettings) -> Iterator[FollowFault]:
    if publication is None:
        return
    sql = f"ALTER PUBLICATION {quoted(name)} SET (publish = 'insert, update, delete, truncate')"
    is_own = settings.publication is None
    if not publication.is_whole:
        why = f"the publication {name} leaves out inserts, updates or deletes"
        yield FollowFault(why, sql) if is_own else FollowFault(f"{why}: set another `publication`")
    elif not publication.truncates and settings.on_truncate != "ignore":
        why = f"the publication {name} leaves out TRUNCATE, so rows that it removes would stay without a word"
        other = "set on_truncate: ignore" if is_own else "set another `publication`, or on_truncate: ignore"
        yield FollowFault(f"{why}: {other}", sql if is_own else "")


def _slot(
    database: PostgresCatalog, name: str, settings: PostgresSettings, publication: Publication | None
) -> Iterator[FollowFault]:
    slot = database.slot(name)
    if slot is not None and (slot.plugin != PLUGIN or slot.database != settings.database):
        yield FollowFault(f"the slot {name} is not of this pipeline ({slot.owner}): set another `slot`")
    elif slot is not None and publication is None:
        drop = (
            ""
            if slot.is_active
            else f", or drop it if nobody needs it: SELECT pg_drop_replication_slot({literal(name)})"
        )
        yield FollowFault(
            f"the slot {name} ({slot.owner}) is older than its publication would be, which then cannot be read: set "
            f"another `slot`{drop}"
        )


def _chosen(
    database: PostgresCatalog, settings: PostgresSettings, publication: Publication | None
) -> tuple[list[PostgresCatalogTable], list[str]]:
    """Return the tables to read, and the names of those that only the publication leaves out."""
    selected = [table for table in database.tables() if settings.selected.has(table.schema, table.name)]
    if publication is None and database.version < _ROOTS:  # it publishes partitions, each as a table of its own
        return [table for table in selected if table.kind == "r"], []
    if publication is None:  # partitions come as rows of the table that they are part of
        return [table for table in selected if not table.is_partition], []
    published = publication.columns
    chosen = [table for table in selected if (table.schema, table.name) in published]
    left_out = [
        table.full_name for table in selected if (table.schema, table.name) not in published and not table.is_partition
    ]
    return chosen, left_out


def _lists(publication: Publication | None, chosen: Sequence[PostgresCatalogTable]) -> dict[int, frozenset[str]]:
    if publication is None:
        return {}
    lists = ((table.oid, publication.columns[table.schema, table.name]) for table in chosen)
    return {oid: columns for oid, columns in lists if columns is not None}


def _table_faults(
    entry: PostgresCatalogTable,
    table: DatabaseTable | None,
    identity: TableIdentity | None,
    publication: Publication | None,
    settings: PostgresSettings,
) -> Iterator[FollowFault]:
    """Yield what is wrong with a table."""
    if table is None or identity is None:
        yield FollowFault(f"{entry.full_name} has no columns: exclude it")
        return
    if publication is not None and (entry.schema, entry.name) in publication.filtered:
        yield FollowFault(
            f"the publication has only some rows of {table.full_name}: exclude the table, or publish all rows"
        )
    table = table.completed(settings.merge_tables, settings.no_key)
    if fault := names_fault(table):
        yield FollowFault(f"{table.full_name}: {fault}: rename it, or exclude the table")
    yield from faults(identity, settings.no_key != "fail")
    listed_columns = publication.columns.get((entry.schema, entry.name)) if publication else None
    if missing := [name for name in identity.key if listed_columns is not None and name not in listed_columns]:
        yield FollowFault(f"the publication leaves out {', '.join(missing)}, which is in the key of {table.full_name}")
    if table.keys and (fault := key_fault(table)):
        yield FollowFault(
            f"{table.full_name} {fault}: set a replica identity of other columns, or exclude the table",
            f"ALTER TABLE {qualified(table)} REPLICA IDENTITY USING INDEX …",
        )


def _nothing(settings: PostgresSettings, publication: Publication | None) -> str:
    where = "the database" if publication is None else "the publication"
    return f"no table of {where} matches `tables` (include: {', '.join(settings.selected.include)})"


def _shown(tables: Sequence[PostgresCatalogTable]) -> str:
    return listed([table.full_name for table in tables], SHOWN)
