"""Turns refusals of a server into errors with a verdict: try again, or stop with the way out."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from calve.errors import PositionLostError, SourceError, SourceUnavailableError
from calve.sources.database import failure as database
from calve.sources.database.connection import ServerError
from calve.sources.mysql.protocol.wire import MysqlConnection, connect
from calve.sources.mysql.settings import MysqlSettings

__all__ = ["NO_RIGHTS", "explained", "session"]

_LATER = frozenset(
    ("1040", "1041", "1053", "1077", "1078", "1079", "1129", "1152", "1158", "1159", "1160", "1161", "1203")
) | frozenset(("1205", "1213", "1226", "1290", "1317", "1836", "1927", "1969", "3024", "4031"))
"""Codes of errors that pass: full resources, shutdowns, lost connections, locks, interrupted statements."""
_LOGIN = frozenset(("1044", "1045", "1251", "1698", "1820", "1862", "3118", "3159", "2059"))
NO_RIGHTS = frozenset(("1044", "1045", "1142", "1143", "1227", "1370"))
"""Codes of errors for a missing right."""
_LOG = "1236"
_GONE = ("could not find", "impossible position", "> file size")
"""What messages say if the log does not have the position."""


def explained(settings: MysqlSettings, step: str, what: str = "") -> AbstractContextManager[None]:
    """Turn the errors of a session into those of Calve.

    Raises:
        PositionLostError: The server's log does not have the position any more.
        SourceError: The server refuses for good.
        SourceUnavailableError: The server does not answer, or refuses for now.
    """
    verdict = functools.partial(_verdict, settings)
    return database.explained("MySQL", settings.shown, verdict, step, what)


def _verdict(settings: MysqlSettings, error: ServerError) -> tuple[type[SourceError], str]:
    kind, hint = SourceError, ""
    if error.code == _LOG:
        if "server_uuid" in error.reason or "server_id" in error.reason:
            hint = "Another replica has this server_id; set another `server_id`"
        elif any(text in error.reason.lower() for text in _GONE):
            kind, hint = PositionLostError, database.LOAD_AGAIN
    elif error.code in _LOGIN:
        hint = "Check username, password and ssl_mode, and from which hosts the server accepts the user"
    elif error.code in NO_RIGHTS:
        hint = f"Grant the user {settings.username} the right; `calve validate --connect` prints the SQL"
    elif error.code in _LATER:
        kind = SourceUnavailableError
    return kind, hint


@contextmanager
def session(settings: MysqlSettings, step: str, name: str, what: str = "") -> Iterator[MysqlConnection]:
    """Open a session, whose errors become those of Calve, and close it at the end.

    Raises:
        SourceError: See `explained`.
    """
    with explained(settings, step, what), connect(settings.address, name) as connection:
        yield connection
