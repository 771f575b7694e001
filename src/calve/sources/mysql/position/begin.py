"""Finds where the stream of a new state begins: every commit before is visible to every later query.

A commit is in MySQL's log a moment before its rows are visible, so the end of the log alone would lose rows.
"""

from __future__ import annotations

import random
import uuid

from calve.errors import SourceError
from calve.sources.database.connection import Address, ClosedError, ServerError
from calve.sources.mysql.catalog.database import BinlogPosition, MysqlCatalog
from calve.sources.mysql.failure import NO_RIGHTS
from calve.sources.mysql.position.gtids import encoded
from calve.sources.mysql.protocol import events
from calve.sources.mysql.protocol.wire import MysqlConnection, connect

__all__ = ["FIRST_POSITION", "begin_dump", "first_after", "first_place", "mariadb_snapshot", "may_lock", "probe_id"]

_HEARTBEAT_NANOSECONDS = 1_000_000_000
_WAIT_SECONDS = 30.0
FIRST_POSITION = 4
_PROBE_IDS = (1 << 30, 1 << 31)


def first_place(database: MysqlCatalog, connection: MysqlConnection, address: Address, server_id: int) -> int:
    """Return the number of the position at which the stream begins.

    MariaDB tells the position of a consistent snapshot. MySQL with GTIDs tells which transactions are visible; the
    first one that is not among them is looked for in the log. Without GTIDs a lock waits for commits.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
        SourceError: It has no log.
    """
    if database.is_mariadb:
        number = mariadb_snapshot(connection, database)
        connection.query("commit")
        return number
    gtids = _encoded(database)
    if gtids is None:
        connection.query("flush tables with read lock")
        try:
            return _log_end(database).number
        finally:
            connection.query("unlock tables")
    place = _log_end(database)
    gtids = _encoded(database) or b""
    with connect(address, "calve begin") as log:
        return _first_missing(log, gtids, place, server_id)


def mariadb_snapshot(connection: MysqlConnection, database: MysqlCatalog) -> int:
    """Begin a transaction with a consistent snapshot; return the number of its position.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    connection.query("start transaction with consistent snapshot")
    rows = connection.query("show status like 'binlog_snapshot_%'")
    variables = {(row[0] or "").lower(): row[1] or "" for row in rows}
    at = variables["binlog_snapshot_file"], int(variables["binlog_snapshot_position"])
    return BinlogPosition(*at, database.generation).number


def first_after(log: MysqlConnection, gtids: str, end: BinlogPosition, server_id: int) -> int:
    """Return the number of the first position after which the log has transactions that a set lacks, or the end.

    Args:
        log: A new session.
        gtids: The set.
        end: The end of the log.
        server_id: The number of a replica that is nobody's.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The log does not have what follows.
    """
    data = None if log.is_mariadb else encoded(gtids)
    if data is not None:
        return _first_missing(log, data, end, server_id)
    log.query(f"set @slave_connect_state = '{gtids}', @slave_gtid_strict_mode = 1")
    return _first_missing(log, None, end, server_id)


def may_lock(database: MysqlCatalog, connection: MysqlConnection) -> bool:
    """Return whether `first_place` works without GTIDs, because the user may lock; the lock ends at once."""
    if database.is_mariadb or _encoded(database) is not None:
        return True
    try:
        connection.query("flush tables with read lock")
    except ServerError as error:
        if error.code not in NO_RIGHTS:
            raise
        return False
    connection.query("unlock tables")
    return True


def begin_dump(connection: MysqlConnection, pipeline: str) -> bool:
    """Set up a session that reads the log; return whether events have checksums."""
    checksum = connection.query("select @@global.binlog_checksum")[0][0]
    reader = uuid.uuid5(uuid.NAMESPACE_URL, f"calve/{pipeline}")
    pairs = {
        "master_binlog_checksum": f"'{checksum}'",
        "source_binlog_checksum": f"'{checksum}'",
        "master_heartbeat_period": _HEARTBEAT_NANOSECONDS,
        "source_heartbeat_period": _HEARTBEAT_NANOSECONDS,
        "slave_uuid": f"'{reader}'",
        "replica_uuid": f"'{reader}'",
    }
    if connection.is_mariadb:
        pairs["mariadb_slave_capability"] = 4
    connection.query("set " + ", ".join(f"@{name} = {value}" for name, value in pairs.items()))
    return checksum == "CRC32"


def probe_id() -> int:
    """Return the number of a replica that is nobody's."""
    return random.SystemRandom().randrange(*_PROBE_IDS)


def _first_missing(log: MysqlConnection, gtids: bytes | None, end: BinlogPosition, server_id: int) -> int:
    """Return the position of the first transaction in the log that a set lacks (None: the session's), or the end."""
    is_checked = begin_dump(log, f"begin {server_id}")
    if gtids is None:
        log.dump("", FIRST_POSITION, server_id, waits=False)
    else:
        log.dump_missing(gtids, server_id)
    file = end.file
    while True:
        try:
            data = log.receive(_WAIT_SECONDS)
        except ClosedError:
            return end.number
        if data is None:
            return end.number
        event = events.parse(data, is_checked)
        if event.kind == events.ROTATE:
            file, _ = events.rotated(event)
        elif event.kind in events.BEGINS:
            return min(end.number, end.moved(file, event.end - event.size).number)


def _log_end(database: MysqlCatalog) -> BinlogPosition:
    place = database.log_end()
    if place is None:
        raise SourceError("the server has no binary log", step="start")
    return place


def _encoded(database: MysqlCatalog) -> bytes | None:
    """Return the GTIDs of all visible transactions as the protocol has them; None if they do not tell."""
    if database.variable("gtid_mode") != "ON":
        return None
    return encoded(database.variable("gtid_executed"))
