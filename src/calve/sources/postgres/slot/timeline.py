"""Which timeline of the server was read: a standby that was promoted may lack changes that are durable here.

A promotion begins a new timeline, whose positions go on from where it left the old one. If changes behind that point
were read, new changes have positions that were read already, and would be left out.
"""

from __future__ import annotations

from calve.errors import PositionLostError
from calve.observe.log import Log
from calve.sources.database.failure import LOAD_AGAIN
from calve.sources.database.stream import READ
from calve.sources.database.stream_position import DurablePositions
from calve.sources.postgres.catalog.database import lsn_of
from calve.sources.postgres.protocol.wire import PostgresConnection
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.source_files import encoded, read_json

__all__ = ["follow"]

_FILE = "timeline.json"


def follow(connection: PostgresConnection, settings: PostgresSettings, positions: DurablePositions, lines: Log) -> None:
    """Check that the server has every change that is durable here, and write down its timeline.

    Args:
        connection: A session with replication, before the slot is read.
        settings: The source's settings.
        positions: The last position that is durable, and the source's files.
        lines: The pipeline's log.

    Raises:
        PositionLostError: The server was promoted, and lacks changes.
        ServerError: The server refuses.
    """
    now = int(connection.query("IDENTIFY_SYSTEM")[0][1] or 0)
    before = read_json(positions.files, _FILE)
    if before == now:
        return
    if before is not None:
        left_at = _left(connection, before, now)
        if left_at is None or positions.last.order > (left_at, 0):
            raise PositionLostError(
                f"{settings.shown} was promoted (timeline {now}) without changes that Calve had read before",
                step=READ,
                target=settings.shown,
                hint=f"The targets have changes that the database lacks. {LOAD_AGAIN}",
            )
        lines.info(f"{settings.shown} was promoted (timeline {now}), and has all that was read before")
    positions.files.write(_FILE, encoded(now))


def _left(connection: PostgresConnection, before: int, now: int) -> int | None:
    """Return where a timeline was left on the way to a later one; None: it is not on that way."""
    history = connection.query(f"TIMELINE_HISTORY {now}")[0][1] or "" if now > before else ""
    for line in history.splitlines():
        fields = line.split("\t")
        if fields[0].strip() == str(before) and len(fields) > 1:
            return lsn_of(fields[1])
    return None
