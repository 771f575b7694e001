"""The publication of a pipeline: it is created only if the server then still takes every change of the application."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from calve.errors import SourceError
from calve.observe.log import Log
from calve.sources.database.connection import ServerError
from calve.sources.database.table import DatabaseTable
from calve.sources.postgres.catalog.database import PostgresCatalog
from calve.sources.postgres.catalog.identity import TableIdentity, identities
from calve.sources.postgres.protocol.quote import qualified, quoted
from calve.sources.postgres.protocol.wire import PostgresConnection
from calve.sources.postgres.settings import PostgresSettings

__all__ = ["change", "creation", "publish", "withdraw"]

_ROOTS = 130_000
_NO_RIGHT = "42501"
_REFUSED = frozenset({"55000", "42P10"})
"""Codes of a table that has no replica identity, or one that a row filter or a list of columns does not cover."""
_STEP = "start"


def creation(name: str, tables: Iterable[DatabaseTable], version: int) -> str:
    """Return the SQL that creates a publication. Without ONLY it would have all tables that inherit from these."""
    roots = " WITH (publish_via_partition_root = true)" if version >= _ROOTS else ""
    names = ", ".join(f"ONLY {qualified(table)}" for table in tables)
    return f"CREATE PUBLICATION {quoted(name)} FOR TABLE {names}{roots}"


def publish(
    connection: PostgresConnection, settings: PostgresSettings, pipeline: str, tables: Sequence[DatabaseTable]
) -> None:
    """Create the publication unless it exists.

    Raises:
        SourceError: The user may not, with the SQL for one who may; or the server would refuse changes of a table.
        ServerError: The server refuses.
    """
    name, database = settings.publication_of(pipeline), PostgresCatalog(connection)
    if database.publication(name) is not None:
        return
    sql = creation(name, tables, database.version)
    try:
        change(connection, settings, sql, [table.oid for table in tables])
    except ServerError as error:
        if error.code != _NO_RIGHT:
            raise
        raise SourceError(
            f"The user {settings.username} may not create the publication {name}: {error.reason}",
            step=_STEP,
            target=settings.shown,
            hint=f"Let an owner of the tables, who may create in the database, run: {sql};",
        ) from error


def change(
    connection: PostgresConnection,
    settings: PostgresSettings,
    sql: str,
    oids: Iterable[int],
    before_commit: Callable[[], None] = lambda: None,
) -> None:
    """Change a publication, and roll that back if the server then refuses changes of one of these tables.

    Raises:
        SourceError: It would refuse them.
        ServerError: The server refuses the change itself.
    """
    connection.query("BEGIN")
    try:
        connection.query(sql)
        for identity in identities(connection, oids).values():
            for part in identity.parts:
                _check(connection, settings, part.sql)
        before_commit()
        connection.query("COMMIT")
    except BaseException:
        connection.query("ROLLBACK")
        raise


def withdraw(connection: PostgresConnection, publication: str, identity: TableIdentity, lines: Log) -> bool:
    """Take a table whose rows the server refuses to change out of a publication; return whether that was done."""
    try:
        connection.query(f"ALTER PUBLICATION {quoted(publication)} DROP TABLE ONLY {identity.sql}")
    except ServerError:  # e.g. one of all tables, or of another owner
        return False
    lines.warning(
        f"{identity.full_name} is no longer published: PostgreSQL would refuse to UPDATE and DELETE its rows",
        table=identity.full_name,
        hint="Give it a replica identity; Calve then publishes it and loads it again",
    )
    return True


def _check(connection: PostgresConnection, settings: PostgresSettings, table: str) -> None:
    """Let the server plan changes of a table, which are not run: it refuses them as it would the application's."""
    connection.query("SAVEPOINT tried")
    try:
        connection.query(f"EXPLAIN DELETE FROM ONLY {table} WHERE false")
    except ServerError as error:
        connection.query("ROLLBACK TO tried")
        if error.code not in _REFUSED:  # e.g. an owner who may not change the rows
            return
        raise SourceError(
            f"Nothing was published, because the application could not change its rows any more: {error.reason}",
            step=_STEP,
            target=settings.shown,
            hint="Exclude the table, or give it another REPLICA IDENTITY",
        ) from error
