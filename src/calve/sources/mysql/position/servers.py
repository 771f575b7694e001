"""Which server is read: one that takes over from another is followed by GTID, and its positions come after all others.

The number of a position has the number of the server in front of that of the file, so it grows over a failover, too.
"""

from __future__ import annotations

from typing import NamedTuple

from calve.errors import PositionLostError
from calve.observe.log import Log
from calve.sources.database.connection import ClosedError, ServerError
from calve.sources.database.failure import LOAD_AGAIN
from calve.sources.database.load import check_database
from calve.sources.mysql.catalog.database import MysqlCatalog
from calve.sources.mysql.position.begin import first_after, probe_id
from calve.sources.mysql.position.gtids import DurableGtids
from calve.sources.mysql.protocol.wire import MysqlConnection, connect
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.source_files import FilesAt, encoded, files_in, read_json

__all__ = ["Server", "current", "followed"]

_FILE = "server.json"
_STEP = "start"
_NOT_FOUND = ("1236", "1945", "1955")
"""Codes of errors of a log that does not have a GTID."""


class Server(NamedTuple):
    """The server that is read.

    Attributes:
        name: What identifies it.
        generation: How many there were before.
        start: Its first position that was not read from another one; 0 for the first server.
        until: Where its log ended then: transactions up to there may have been read from another one.
    """

    name: str
    generation: int = 0
    start: int = 0
    until: int = 0


def current(folder: FilesAt, begun: str) -> Server:
    """Return the server that is read.

    Args:
        folder: The source's files.
        begun: The name of the database that the state was begun with.
    """
    kept = read_json(files_in(folder), _FILE)
    return Server(*kept) if kept else Server(begun.partition("#")[0])


def followed(connection: MysqlConnection, settings: MysqlSettings, folder: FilesAt, begun: str, lines: Log) -> Server:
    """Return the server that answers; one that took over is written down, with the position where reading goes on.

    Args:
        connection: To the server.
        settings: The source's settings.
        folder: The source's files.
        begun: The name of the database that the state was begun with.
        lines: The pipeline's log.

    Raises:
        ClosedError: The connection was lost.
        PositionLostError: It lacks transactions that were read, or has removed some that were not.
        ServerError: It refuses.
        SourceError: It is another one, and GTIDs are not known.
    """
    before = current(folder, begun)
    database = MysqlCatalog(connection, before.generation + 1)
    name = database.name
    if name == before.name:
        return before
    durable = DurableGtids(folder).known
    place = database.log_end()
    if durable is None or place is None or not (database.is_mariadb or database.variable("gtid_mode") == "ON"):
        check_database({"database": before.name}, name, settings.shown, _WITHOUT)
    assert durable is not None
    assert place is not None
    gtids = str(durable)
    _require(connection, database, gtids, settings)
    try:
        with connect(settings.address, "calve takes over") as log:
            if MysqlCatalog(log).name != name:
                raise ClosedError("the address leads to more than one server")
            start = first_after(log, gtids, place, probe_id())
    except ServerError as error:
        if error.code not in _NOT_FOUND:
            raise
        raise _lost(settings, f"does not have what follows: {error.reason}") from error
    server = Server(name, before.generation + 1, start, place.number)
    files_in(folder).write(_FILE, encoded(list(server)))
    lines.warning(
        f"another server answers at {settings.shown} ({name}): reading goes on there, after the GTIDs {gtids}"
    )
    return server


_WITHOUT = (
    "A server that took over is followed if both have GTIDs (MySQL: gtid_mode = ON) that this state knows; one that "
    "began without them knows them from the next file of the log on (FLUSH BINARY LOGS)"
)


def _require(connection: MysqlConnection, database: MysqlCatalog, gtids: str, settings: MysqlSettings) -> None:
    """Check that a server has all transactions that were read, and in its log all others."""
    if database.is_mariadb:
        [[text]] = connection.query("select @@global.gtid_binlog_pos")
        has = dict(interval.split("-", 1) for interval in (text or "").split(",") if interval)
        for gtid in gtids.split(","):
            domain, _, number = gtid.split("-")
            if int(has.get(domain, "0-0").split("-")[1]) < int(number):
                raise _lost(settings, f"lacks transactions that were read from the one before: {gtid}")
        return
    sql = f"select gtid_subtract('{gtids}', @@global.gtid_executed), gtid_subtract(@@global.gtid_purged, '{gtids}')"
    [[lacks, removed]] = connection.query(sql)
    if lacks:
        raise _lost(settings, f"lacks transactions that were read from the one before: {lacks}")
    if removed:
        raise _lost(settings, f"has removed transactions from its log that were not read: {removed}")


def _lost(settings: MysqlSettings, why: str) -> PositionLostError:
    what = f"Another server answers at {settings.shown}, and it {why}"
    return PositionLostError(what, step=_STEP, target=settings.shown, hint=LOAD_AGAIN)
