"""What PostgreSQL waits for when it makes a slot: transactions that have written, and are open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from calve.errors import CalveError
from calve.observe.log import Log
from calve.sources.postgres.failure import session
from calve.sources.postgres.protocol.wire import PostgresConnection
from calve.sources.postgres.settings import PostgresSettings

__all__ = ["log_waits", "open_writers"]

_SECONDS = 5.0
_WRITERS = """
select coalesce('pid ' || l.pid || coalesce(' (user ' || a.usename || coalesce(', since ' ||
  date_trunc('second', a.xact_start), '') || ')', ''), 'a prepared transaction (pg_prepared_xacts)')
from pg_catalog.pg_locks l left join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted
order by a.xact_start limit 3
"""


def open_writers(connection: PostgresConnection) -> str:
    """Return the oldest transactions that have written and are open, as words.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    return ", ".join(row[0] or "" for row in connection.query(_WRITERS))


@contextmanager
def log_waits(settings: PostgresSettings, lines: Log) -> Iterator[None]:
    """Log what the server waits for, if that takes long, and that it goes on."""
    waits = threading.Event()

    def warn() -> None:
        try:
            with session(settings, "start", "calve waits") as connection:
                writers = open_writers(connection)
        except CalveError as error:
            writers = f"it does not say which ({error.message})"
        waits.set()
        lines.warning(
            f"waits until the transactions end that have written before the load: {writers or 'none is open any more'}",
            hint="Commit them or roll them back; SELECT pg_terminate_backend(<pid>) ends a session that was forgotten",
        )

    timer = threading.Timer(_SECONDS, warn)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if waits.is_set():
        lines.info("the transactions have ended: the load begins")
