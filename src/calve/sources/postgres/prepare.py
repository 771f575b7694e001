"""Checks what replication needs, and makes what is missing: the publication and the slot.

Everything that is wrong is in one error, with the SQL that mends it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from calve.errors import PositionLostError, SourceError, SourceUnavailableError
from calve.observe.humanize import listed
from calve.observe.log import Log
from calve.sources.database.connection import ServerError
from calve.sources.database.failure import LOAD_AGAIN
from calve.sources.database.preparation import SHOWN, Preparation
from calve.sources.database.table import KEYS, Table
from calve.sources.database.target_names import names_fault
from calve.sources.postgres.database import Database, Found, Publication, lsn_of
from calve.sources.postgres.quote import literal, qualified, quoted
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.postgres.waits import open_writers, told
from calve.sources.postgres.wire import Connection

__all__ = ["NewSlot", "look", "publish", "require_slot", "take_position", "take_slot", "try_position", "warn"]

_OLDEST = 120_000
_ROOTS = 130_000
_FAILOVER = 170_000
_NO_RIGHT = "42501"
_LOCKED = "55P03"
_ALL_IN_USE = "53400"
_LOCK_MILLISECONDS = 5_000
_LONGEST_PREFIX = 54
"""The name of a slot has at most 63 characters."""
_LOST = "lost"
_STEP = "start"


@dataclass(frozen=True)
class NewSlot:
    """Where a slot begins.

    Attributes:
        start: Every commit from here on is in the stream.
        snapshot: The name of a snapshot of exactly this moment; None: the slot was there already.
    """

    start: int
    snapshot: str | None


def look(database: Database, settings: PostgresSettings, pipeline: str) -> Preparation:
    """Check the server, the rights and the tables; changes nothing.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    sql, faults = _server(database)
    publication = database.publication(settings.publication_of(pipeline))
    chosen, left_out = _chosen(database, settings, publication)
    slot = settings.slot_of(pipeline)
    if publication is None and database.slot(slot) is not None:
        faults.append(f"the slot {slot} is older than its publication would be, which then cannot be read")
        sql.append(f"SELECT pg_drop_replication_slot({literal(slot)})")
    lists = _lists(publication, chosen)
    tables = database.described(chosen, settings.publication_of(pipeline), lists)
    if not chosen:
        faults.append(_nothing(settings, publication))
    by_oid = {table.oid: table for table in tables}
    for found in chosen:
        for fault, fix in _table_faults(found, by_oid.get(found.oid), publication):
            faults.append(fault)
            sql += [fix] if fix else []
    unreadable = [found for found in chosen if not found.readable]
    if unreadable:
        faults.append(f"the user {settings.username} may not read {_shown(unreadable)}")
        sql += _grants(unreadable, settings.username)
    if publication is not None and not publication.is_whole:
        name = settings.publication_of(pipeline)
        faults.append(f"the publication {name} leaves out inserts, updates or deletes")
        sql.append(f"ALTER PUBLICATION {quoted(name)} SET (publish = 'insert, update, delete, truncate')")
    return Preparation(tables, sql, faults, left_out)


def publish(connection: Connection, settings: PostgresSettings, pipeline: str, tables: Sequence[Table]) -> None:
    """Create the publication unless it exists.

    Raises:
        SourceError: The user may not; with the SQL for one who may.
        ServerError: The server refuses.
    """
    name, database = settings.publication_of(pipeline), Database(connection)
    if database.publication(name) is not None:
        return
    roots = " WITH (publish_via_partition_root = true)" if database.version >= _ROOTS else ""
    sql = f"CREATE PUBLICATION {quoted(name)} FOR TABLE {', '.join(qualified(table) for table in tables)}{roots}"
    try:
        connection.query(sql)
    except ServerError as error:
        if error.code != _NO_RIGHT:
            raise
        raise SourceError(
            f"The user {settings.username} may not create the publication {name}: {error.reason}",
            step=_STEP,
            target=settings.shown,
            hint=f"Let an owner of the tables, who may create in the database, run: {sql};",
        ) from error


def take_slot(connection: Connection, settings: PostgresSettings, pipeline: str, lines: Log) -> NewSlot:
    """Take the slot, or create it, for a pipeline that has not read anything yet; waits for open transactions.

    Args:
        connection: A session with replication; an exported snapshot lives until its next command.
        settings: The source's settings.
        pipeline: The pipeline's name.
        lines: The pipeline's log.

    Raises:
        SourceError: Another plugin or database has the slot.
        ServerError: The server refuses.
    """
    name = settings.slot_of(pipeline)
    slot = Database(connection).slot(name)
    if slot is not None and slot.status == _LOST and settings.on_lost_position == "reload":
        connection.query(f"SELECT pg_drop_replication_slot({literal(name)})")  # nobody can read it any more
        slot = None
    if slot is None:
        with told(settings, lines):
            row = connection.query(
                f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL pgoutput {_slot_options(connection)}"
            )[0]
        return NewSlot(lsn_of(row[1] or "0/0"), row[2])
    if slot.plugin != "pgoutput" or slot.database != settings.database:
        raise SourceError(
            f"The slot {name} is of the plugin {slot.plugin} and the database {slot.database}",
            step=_STEP,
            target=settings.shown,
            hint="Set another `slot`",
        )
    return NewSlot(slot.confirmed, None)


def _slot_options(connection: Connection) -> str:
    """Return the options of a slot, which standbys keep in step from PostgreSQL 17 on (`sync_replication_slots`)."""
    is_primary = connection.query("select pg_is_in_recovery()")[0][0] == "f"
    follows = is_primary and Database(connection).version >= _FAILOVER
    return "(SNAPSHOT 'export', FAILOVER)" if follows else "EXPORT_SNAPSHOT"


def take_position(connection: Connection, settings: PostgresSettings, pipeline: str) -> NewSlot:
    """Create a slot for the time of the session, for the sake of its first position and the snapshot of that moment.

    Raises:
        SourceUnavailableError: A transaction that writes is open for long.
        ServerError: The server refuses.
    """
    name = f"{settings.slot_of(pipeline)[:_LONGEST_PREFIX]}_{uuid.uuid4().hex[:8]}"
    connection.query(f"SET lock_timeout = {_LOCK_MILLISECONDS}")
    try:
        row = connection.query(f"CREATE_REPLICATION_SLOT {quoted(name)} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT")[0]
    except ServerError as error:
        if error.code != _LOCKED:
            raise
        found = open_writers(connection) or "they have just ended"
        raise SourceUnavailableError(
            f"PostgreSQL waits for open transactions that have written: {found}",
            step="load",
            target=settings.shown,
            hint="Commit them or roll them back; SELECT pg_terminate_backend(<pid>) ends a session that was forgotten",
        ) from error
    return NewSlot(lsn_of(row[1] or "0/0"), row[2])


def try_position(connection: Connection, settings: PostgresSettings, pipeline: str) -> NewSlot | None:
    """Do the same; return None if the server has no slot to spare (`max_replication_slots`).

    Raises:
        SourceUnavailableError: A transaction that writes is open for long.
        ServerError: The server refuses for another reason.
    """
    try:
        return take_position(connection, settings, pipeline)
    except ServerError as error:
        if error.code != _ALL_IN_USE:
            raise
        return None


def require_slot(database: Database, settings: PostgresSettings, pipeline: str) -> None:
    """Check that the slot of a pipeline that has run before still has its changes.

    Raises:
        PositionLostError: It does not.
    """
    name = settings.slot_of(pipeline)
    slot = database.slot(name)
    if slot is not None and slot.status != _LOST:
        return
    why = "does not exist any more" if slot is None else "has lost changes: the server removed the log that it needs"
    raise PositionLostError(
        f"The slot {name} at {settings.shown} {why}",
        step=_STEP,
        target=settings.shown,
        hint=f"Changes are missing. {LOAD_AGAIN}"
        + ("" if slot is None else f"; before that run: SELECT pg_drop_replication_slot({literal(name)})"),
    )


def warn(preparation: Preparation, settings: PostgresSettings, pipeline: str, log: Log) -> None:
    """Log the tables that are selected, but not published."""
    if preparation.left_out:
        name, tables = quoted(settings.publication_of(pipeline)), preparation.left_out[:SHOWN]
        log.warning(
            f"the publication does not have these selected tables, so they are not read: {', '.join(tables)}",
            hint=f"To read them: ALTER PUBLICATION {name} ADD TABLE …, and calve source reload … <table>; "
            "or exclude them",
        )


def _server(database: Database) -> tuple[list[str], list[str]]:
    sql: list[str] = []
    faults: list[str] = []
    if database.version < _OLDEST:
        faults.append(f"version {database.setting('server_version')} is older than 12")
    if (level := database.setting("wal_level")) != "logical":
        faults.append(f"wal_level is {level}, not logical (a change needs a restart of the server)")
        sql.append("ALTER SYSTEM SET wal_level = logical")
    if database.setting("server_encoding") == "SQL_ASCII":
        faults.append("the database's encoding is SQL_ASCII, so its texts have no known characters")
    return sql, faults


def _chosen(
    database: Database, settings: PostgresSettings, publication: Publication | None
) -> tuple[list[Found], list[str]]:
    """Return the tables to read, and the names of those that only the publication leaves out."""
    selected = [each for each in database.tables() if settings.selected.has(each.schema, each.name)]
    if publication is None and database.version < _ROOTS:  # it publishes partitions, each as a table of its own
        return [each for each in selected if each.kind == "r"], []
    if publication is None:  # partitions come as rows of the table that they are part of
        return [each for each in selected if not each.is_partition], []
    published = publication.columns
    chosen = [each for each in selected if (each.schema, each.name) in published]
    left_out = [
        each.full_name for each in selected if (each.schema, each.name) not in published and not each.is_partition
    ]
    return chosen, left_out


def _lists(publication: Publication | None, chosen: Sequence[Found]) -> dict[int, frozenset[str]]:
    if publication is None:
        return {}
    found = ((each.oid, publication.columns[each.schema, each.name]) for each in chosen)
    return {oid: columns for oid, columns in found if columns is not None}


def _table_faults(found: Found, table: Table | None, publication: Publication | None) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a table, each with the SQL that mends it (or nothing)."""
    if table is None:
        yield f"{found.full_name} has no columns: exclude it", ""
        return
    if publication is not None and (found.schema, found.name) in publication.filtered:
        yield f"the publication has only some rows of {table.full_name}: exclude the table, or publish all rows", ""
    if fault := names_fault(table):
        yield f"{table.full_name}: {fault}: rename it, or exclude the table", ""
    if found.identity == "n":
        yield f"{table.full_name} has no replica identity", f"ALTER TABLE {qualified(table)} REPLICA IDENTITY DEFAULT"
        return
    if not table.keys:
        yield (
            f"{table.full_name} has no primary key, so its changes cannot be applied (or exclude it)",
            f"ALTER TABLE {qualified(table)} ADD PRIMARY KEY (…)",
        )
    for column in (table.columns[index] for index in table.keys):
        if column.kind not in KEYS and not column.kind.startswith("decimal"):
            yield (
                f"{column.name} of {table.full_name} is a {column.declared}, which cannot be a key in Iceberg: set a "
                "replica identity of other columns, or exclude the table",
                f"ALTER TABLE {qualified(table)} REPLICA IDENTITY USING INDEX …",
            )


def _nothing(settings: PostgresSettings, publication: Publication | None) -> str:
    where = "the database" if publication is None else "the publication"
    return f"no table of {where} matches `tables` (include: {', '.join(settings.selected.include)})"


def _grants(tables: Sequence[Found], user: str) -> list[str]:
    schemas = ", ".join(quoted(name) for name in dict.fromkeys(each.schema for each in tables))
    names = ", ".join(f"{quoted(each.schema)}.{quoted(each.name)}" for each in tables)
    return [f"GRANT USAGE ON SCHEMA {schemas} TO {quoted(user)}", f"GRANT SELECT ON {names} TO {quoted(user)}"]


def _shown(tables: Sequence[Found]) -> str:
    return listed([each.full_name for each in tables], SHOWN)
