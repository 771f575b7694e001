"""Turns refusals of a server into errors with a verdict: try again, or stop with the way out."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from calve.errors import PositionLostError, SourceError, SourceUnavailableError
from calve.sources.database import failure as database
from calve.sources.database.connection import ServerError
from calve.sources.postgres.protocol.wire import PostgresConnection, connect
from calve.sources.postgres.settings import PostgresSettings

__all__ = ["explained", "session"]

_LATER = ("08", "57P", "53", "40", "58")
"""Classes of SQLSTATE that pass: connections, shutdowns and starts, full resources, conflicts, I/O."""
_AUTHORIZATION = "28"
_NO_DATABASE = "3D000"
_NO_RIGHT = "42501"
_NO_OBJECT = "42704"
_BAD_VALUE = "22023"
_IN_USE = "55006"
_NOT_IN_STATE = "55000"


def explained(settings: PostgresSettings, step: str, what: str = "") -> AbstractContextManager[None]:
    """Turn the errors of a session into those of Calve.

    Raises:
        PositionLostError: The slot cannot be read any more.
        SourceError: The server refuses for good.
        SourceUnavailableError: The server does not answer, or refuses for now.
    """
    verdict = functools.partial(_verdict, settings)
    return database.explained("PostgreSQL", settings.shown, verdict, step, what)


def _verdict(settings: PostgresSettings, error: ServerError) -> tuple[type[SourceError], str]:
    kind, hint = SourceError, ""
    if error.code.startswith(_AUTHORIZATION):
        hint = "Check username, password and ssl_mode, and the server's pg_hba.conf"
    elif error.code == _NO_DATABASE:
        hint = "Check `database`"
    elif error.code == _NO_RIGHT:
        hint = f'Grant the user "{settings.username}" the right; `calve validate --connect` prints the SQL'
    elif error.code == _IN_USE:
        kind, hint = SourceUnavailableError, "Another session uses it; one pipeline needs its own slot"
    elif error.code in (_NO_OBJECT, _BAD_VALUE) and "snapshot" in error.reason:
        kind = SourceUnavailableError  # its session was lost; a new one follows
    elif error.code in (_NO_OBJECT, _NOT_IN_STATE) and "slot" in error.reason:
        kind, hint = PositionLostError, database.LOAD_AGAIN
    elif error.code.startswith(_LATER):
        kind = SourceUnavailableError
    return kind, hint


@contextmanager
def session(
    settings: PostgresSettings, step: str, name: str, replication: bool = False
) -> Iterator[PostgresConnection]:
    """Open a session, whose errors become those of Calve, and close it at the end.

    Raises:
        SourceError: See `explained`.
    """
    with explained(settings, step), connect(settings.address, name, replication) as connection:
        yield connection
