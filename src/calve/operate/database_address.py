"""The address of a database as one types it: `postgres://user:password@host:port/database`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from calve.errors import SettingsError

__all__ = ["PASSWORDS", "DatabaseAddress", "is_database"]

_KINDS = {"postgres": "postgres", "postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
_PORTS = {"postgres": 5432, "mysql": 3306}
PASSWORDS = {"postgres": "PGPASSWORD", "mysql": "MYSQL_PWD"}
"""The variables of the environment with the password, as the databases' own clients have them."""
_MODES = {"disable", "prefer", "require", "verify-ca", "verify-full"}


def is_database(text: str) -> bool:
    """Return whether a text is the address of a database."""
    return text.partition("://")[0].lower() in _KINDS and "://" in text


@dataclass(frozen=True)
class DatabaseAddress:
    """Where a database is.

    Attributes:
        kind: `postgres` or `mysql`, the name of the source.
        password: The password in the address; it goes into no file.
        ssl_mode: The mode of TLS, if the address names it; empty: the default of the source.
        allows_cleartext: Whether the password itself may be sent, see `allow_cleartext_password`.
    """

    kind: str
    host: str
    port: int
    user: str
    database: str
    password: str = field(default="", repr=False)
    ssl_mode: str = ""
    allows_cleartext: bool = False

    @staticmethod
    def of(text: str, kind: str = "") -> DatabaseAddress:
        """Read an address; without a scheme it is one of the given kind.

        Raises:
            SettingsError: It is none, or has parameters that Calve does not know.
        """
        scheme, separator, _ = text.partition("://")
        kind = _KINDS.get(scheme.lower(), "") if separator else kind
        try:
            url = urlsplit(text if separator else f"{kind}://{text}")
            port, host = url.port, url.hostname
        except ValueError:
            port = host = None
        if not (host and kind):
            raise _wrong(text, kind or "postgres")
        database = unquote(url.path.strip("/"))
        if kind == "postgres" and not database:
            raise _wrong(text, kind)
        given = dict(parse_qsl(url.query))
        mode = given.pop("sslmode", given.pop("ssl_mode", ""))
        allows_cleartext = given.pop("allow_cleartext_password", "false") == "true"
        if given or (mode and mode not in _MODES):
            raise SettingsError(
                f"The address of the database has {', '.join(given) or f'sslmode={mode}'}, which Calve does not know",
                step="settings",
                target="the address",
                hint=f"It knows sslmode ({', '.join(sorted(_MODES))}) and allow_cleartext_password=true",
            )
        user, password = unquote(url.username or "calve"), unquote(url.password or "")
        return DatabaseAddress(kind, host, port or _PORTS[kind], user, database, password, mode, allows_cleartext)

    @property
    def variable(self) -> str:
        """The variable of the environment from which a pipeline takes the password."""
        return PASSWORDS[self.kind]

    @property
    def patterns(self) -> list[str]:
        """The tables that are read if none are named."""
        return ["public.*"] if self.kind == "postgres" else [f"{self.database or '*'}.*"]

    def pipeline(self, folder: str = "") -> str:
        """Return the name of the pipeline that loads it into a folder: no two databases and no two folders share one.

        Args:
            folder: Where the tables are; empty: in that of every sink.
        """
        words = re.sub("[^A-Za-z0-9]+", "-", self.database or self.host).strip("-")[:40] or "database"
        database = f"{self.kind} {self.host} {self.port} {self.database}{folder and f' {folder}'}"
        digest = hashlib.sha256(database.encode()).hexdigest()
        return f"load-{words}-{digest[:8]}"

    def source(self, tables: Sequence[str] = (), excluded: Sequence[str] = ()) -> dict[str, Any]:
        """Return the source that reads it; the password is that of the environment.

        Args:
            tables: Patterns of `schema.table`; none: `patterns`.
            excluded: Patterns of tables that are not read.
        """
        chosen = {"include": list(tables) or self.patterns} | ({"exclude": list(excluded)} if excluded else {})
        options: dict[str, Any] = {"host": self.host, "port": self.port}
        options |= {"database": self.database} if self.kind == "postgres" else {}
        options |= {"username": self.user, "password": f"${{env:{self.variable}:-}}"}
        options |= {"ssl_mode": self.ssl_mode} if self.ssl_mode else {}
        options |= {"allow_cleartext_password": True} if self.allows_cleartext else {}
        return {self.kind: {**options, "tables": chosen}}


def _wrong(text: str, kind: str) -> SettingsError:
    without_user = re.sub(r"://[^@/]*@", "://", text)
    return SettingsError(
        f"{without_user!r} is not the address of a database",
        step="settings",
        target="the address",
        hint=f"E.g. {kind}://localhost:{_PORTS[kind]}/shop, with the user before the host",
    )
