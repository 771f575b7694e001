"""The settings that sources of databases share."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

from calve.errors import SettingsError
from calve.network.host_names import is_loopback
from calve.settings import Size, option
from calve.sources.database.connection import Address
from calve.sources.settings import Claim, SourceSettings, StateForm
from calve.sources.tables import Tables

__all__ = ["DatabaseSettings", "NoKey"]

NoKey = Literal["fail", "append", "mirror"]
"""What becomes of a table without a key: refused; its changes become rows; its rows are found by all columns."""


@dataclass(frozen=True)
class DatabaseSettings(SourceSettings):
    """Where a database is, and which of its tables are read."""

    has_keys: ClassVar[bool] = True
    emits_changes: ClassVar[bool] = True
    record_time: ClassVar[str] = "commit_timestamp"
    scheme: ClassVar[str] = ""
    row_attributes: ClassVar[tuple[str, ...]] = ("document_id", "primary_key")
    remembers: ClassVar[Mapping[str, StateForm]] = {"": StateForm.LOG}

    host: str = option(doc="The server's name or address.", minimum=1)
    port: int = option(0, "The server's port.", minimum=1, maximum=65535)
    username: str = option(doc="The user.", minimum=1)
    password: str = option("", "The user's password, e.g. `${env:PASSWORD}`.", secret=True)
    tables: Tables | None = option(None, "The tables to read. Default: all.")
    on_truncate: Literal["fail", "compare", "reload", "ignore"] = option(
        "fail",
        "If a table is truncated: stop this table after all changes before it; read it again, compare it with its "
        "target, and remove and write the rows that differ; empty its target and load it again; or keep its rows and "
        "go on.",
    )
    on_unlogged_change: Literal["compare", "fail", "reload", "ignore"] = option(
        "compare",
        "If rows change, or may, without a trace in the log (e.g. a new column with a default): read the table again, "
        "compare it with its target, and write the rows that differ; stop this table after all changes before it; "
        "empty its target and load it again; or go on and leave these rows as they are.",
    )
    on_lost_position: Literal["fail", "reload"] = option(
        "fail",
        "If the server no longer has the changes that follow: stop with an error, or remove all rows of the target "
        "tables and load all tables again.",
    )
    merge_tables: bool = option(
        False,
        "Let rows of several tables go to one target. Every row gets the columns `schema_name` and `table_name`, which "
        "are a part of the key. Without it tables with one target are refused: their rows would replace each other.",
    )
    no_key: NoKey = option(
        "fail",
        "If a table has no key: refuse it; append each of its changes as a row, with the columns `change_type`, "
        "`change_position` and `change_time`; or mirror it: a deleted row is found by all its columns, and one of "
        "several equal rows goes.",
    )
    ssl_mode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] | None = option(
        None,
        "`prefer` and `require` encrypt without checking the server; `verify-ca` checks its certificate, `verify-full` "
        "its name, too. With `prefer` a server without TLS is accepted. Default: `verify-full`, and `prefer` for a "
        "server on this machine (a loopback `host`).",
    )
    allow_cleartext_password: bool = option(
        False,
        "Send the password itself, its MD5 digest, or the password encrypted with the server's own key, also to a "
        "server that has not proven by TLS (`verify-ca`, `verify-full`) who it is.",
    )
    ssl_root_certificate_file: str | None = option(
        None, "Certificates in PEM form that the server's is checked against. Default: those of the system.", minimum=1
    )
    ssl_certificate_file: str | None = option(None, "The client's certificate chain in PEM form.", minimum=1)
    ssl_key_file: str | None = option(None, "The client's private key in PEM form.", minimum=1)
    connect_timeout: timedelta = option(
        timedelta(seconds=10), "Maximum time until a session is open.", minimum=timedelta(milliseconds=100)
    )
    transactional: bool = option(
        False,
        "Never divide a transaction over several commits of a table. A transaction is written when all of it was read, "
        "so `max_log_bytes` must have room for the largest one.",
    )
    max_log_bytes: Size = option(
        Size(8 << 30),
        "Maximum size of uncommitted changes in the state folder; beyond it they wait on the server.",
        minimum=64 << 20,
    )
    min_free_bytes: Size = option(
        Size(256 << 20),
        "Minimum free space on the disk of the state folder; below it changes wait on the server.",
        minimum=1 << 20,
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse half a client certificate, files and permissions that are not used, and a merged history."""
        if self.no_key != "fail" and self.merge_tables:
            yield "no_key", f"{self.no_key} does not go together with merge_tables"
        if (self.ssl_certificate_file is None) != (self.ssl_key_file is None):
            yield "ssl_certificate_file", "needs ssl_key_file, and the other way round"
        if self.ssl_root_certificate_file and not self._is_verified:
            yield "ssl_root_certificate_file", "is not used; set ssl_mode: verify-full"
        if self.ssl_certificate_file and self.ssl_mode == "disable":
            yield "ssl_certificate_file", "is not used; set ssl_mode: verify-full"
        if self.allow_cleartext_password and self._is_verified:
            yield "allow_cleartext_password", f"is not needed: ssl_mode {self.tls_mode} verifies the server"

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Warn of a password that may go to another server."""
        if is_loopback(self.host) or self._is_verified or not self.password:
            return
        if self.allow_cleartext_password:
            message = "gives the password to whoever answers in the server's name; use ssl_mode: verify-full"
            yield "allow_cleartext_password", message
        else:
            message = f"{self.tls_mode} does not check the server: others on the way can read and change what is read"
            yield "ssl_mode", f"{message}; use verify-full"

    @property
    def tls_mode(self) -> str:
        """The mode of TLS: `ssl_mode`, or its default for the server."""
        is_local = is_loopback(self.host) and not self.ssl_root_certificate_file
        return self.ssl_mode or ("prefer" if is_local else "verify-full")

    @property
    def _is_verified(self) -> bool:
        return self.tls_mode.startswith("verify")

    @property
    def selected(self) -> Tables:
        """The tables to read."""
        return self.tables or Tables()

    @property
    def datasets(self) -> list[tuple[str, str]]:
        """The tables that are named; with a pattern it is not known which ones there are."""
        names = self.selected.include
        if any(mark in name for name in names for mark in "*?["):
            return []
        prefix = f"{self.database_name}." if self.database_name else ""
        return [(f"{self.scheme}://{self.host}:{self.port}", f"{prefix}{name}") for name in names]

    @property
    def database_name(self) -> str:
        """The database of the session; empty: none."""
        return ""

    @property
    def address(self) -> Address:
        """Where and as whom to connect.

        Raises:
            SettingsError: A certificate cannot be read.
        """
        return Address(
            self.host,
            self.port,
            self.database_name,
            self.username,
            self.password,
            self._tls(),
            self.tls_mode not in ("disable", "prefer"),
            self.connect_timeout.total_seconds(),
            self.allow_cleartext_password,
        )

    @property
    def shown(self) -> str:
        """The server, for messages."""
        return f"{self.host}:{self.port}"

    def _claim(self, key: str, name: object, verb: str) -> Claim:
        """Return the claim to what the server knows its reader by."""
        return Claim(key, (key, self.host, self.port, name), f"{verb} the {key} {name}; set another `{key}`")

    def _tls(self) -> ssl.SSLContext | None:
        if self.tls_mode == "disable":
            return None
        try:
            context = ssl.create_default_context(cafile=self.ssl_root_certificate_file)
            if self.ssl_certificate_file:
                context.load_cert_chain(self.ssl_certificate_file, self.ssl_key_file)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                f"The certificates for the database cannot be read: {error}",
                step="start",
                target=self.shown,
                hint="Check ssl_root_certificate_file, ssl_certificate_file and ssl_key_file",
            ) from error
        context.check_hostname = self.tls_mode == "verify-full"
        if not self._is_verified:
            context.verify_mode = ssl.CERT_NONE
        return context
