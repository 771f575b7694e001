"""Begins a transaction that reads rows of one known position of the log: the rows of a table without a key.

By such rows nobody could tell whether a change of the log is in them already; by the position everybody can.
"""

from __future__ import annotations

import time

from calve.sources.database.connection import ServerError
from calve.sources.database.stopped import UnreadableError
from calve.sources.database.table import DatabaseTable
from calve.sources.mysql.catalog.database import MysqlCatalog
from calve.sources.mysql.failure import NO_RIGHTS, session
from calve.sources.mysql.position.begin import first_place, mariadb_snapshot, probe_id
from calve.sources.mysql.position.servers import current
from calve.sources.mysql.protocol.wire import MysqlConnection
from calve.sources.mysql.settings import MysqlSettings
from calve.state.folder import StateFolder

__all__ = ["begin_at_position"]

_QUIET_SECONDS = 10.0
_BEGIN = "start transaction with consistent snapshot"
_STEP = "load"


def begin_at_position(
    connection: MysqlConnection, settings: MysqlSettings, folder: StateFolder, table: DatabaseTable
) -> int:
    """Begin a transaction whose snapshot has all transactions up to a position, and none after it; return the position.

    The position of a transaction is where it begins in the log, so this is the last one before the log's end.

    MariaDB tells it. In MySQL a moment is waited for in which nothing is committed; if none comes, a lock makes one.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
        SourceError: It has no log.
        UnreadableError: Another server answers, or there is no such moment, and the user may not lock.
    """
    server = current(folder, table.database)
    database = MysqlCatalog(connection, server.generation)
    if database.name != server.name:
        raise UnreadableError("another server answered while it was loaded")
    if database.is_mariadb:
        return mariadb_snapshot(connection, database) - 1
    end = time.monotonic() + _QUIET_SECONDS
    while database.variable("gtid_mode") == "ON" and time.monotonic() < end:
        before = first_place(database, connection, settings.address, probe_id())
        connection.query(_BEGIN)
        if before == _end(database):
            return before - 1
        connection.query("rollback")
    with session(settings, _STEP, "calve lock") as lock:
        try:
            lock.query("flush tables with read lock")
        except ServerError as error:
            if error.code not in NO_RIGHTS:
                raise
            why = "the server commits all the time, so its rows have no known position without a lock of a moment"
            raise UnreadableError(f"{why}: grant RELOAD on *.*, and load it again") from error
        connection.query(_BEGIN)
        return _end(database) - 1


def _end(database: MysqlCatalog) -> int:
    place = database.log_end()
    return place.number if place else 0
