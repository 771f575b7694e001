"""The options of the rds source, by Data Prepper's keys; it becomes a `postgres` or `mysql` source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from calve.network.host_names import is_loopback
from calve.settings import option
from calve.sources.database.settings import DatabaseSettings, NoKey
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.settings import SourceSettings
from calve.sources.tables import Tables

__all__ = ["SETTINGS", "RdsSettings", "RdsTables", "RdsUser", "Tls"]

_UNUSED = "Accepted for compatibility with Data Prepper; no effect"
_NO_S3 = f"{_UNUSED}, because rows are read from the database and not from an export in S3."


@dataclass(frozen=True)
class RdsTables:
    """The tables to read, by their names in the database: `table` for MySQL, `schema.table` for PostgreSQL."""

    include: list[str] = option([], "Names of tables to read, with `*` and `?`. Default: all of the database.")
    exclude: list[str] = option([], "Names of tables not to read; they win.")


@dataclass(frozen=True)
class RdsUser:
    """The user."""

    username: str = option(doc="The user.", minimum=1)
    password: str = option("", "The user's password, e.g. `${env:PASSWORD}`.", secret=True)


@dataclass(frozen=True)
class Tls:
    """Encryption."""

    insecure: bool = option(
        False,
        "Accept a server without TLS, or whose certificate is not verified; then the password itself is not sent.",
    )
    ssl_root_certificate_file: str | None = option(
        None,
        "Certificates in PEM form that the server's certificate and name are checked against, for RDS the bundle "
        "of AWS. Default: those of the system.",
        minimum=1,
    )


@dataclass(frozen=True)
class RdsSettings(SourceSettings):
    """Reads tables of an RDS or Aurora database as Data Prepper's `rds`, but straight from the server."""

    host: str | None = option(
        None, "The endpoint. Data Prepper asks AWS for it; Calve does not, so this is needed.", minimum=1
    )
    port: int | None = option(None, "The server's port. Default: that of the engine.", minimum=1, maximum=65535)
    engine: Literal["mysql", "postgresql", "aurora-mysql", "aurora-postgresql"] = option(
        doc="The engine: the source is then `mysql` or `postgres`."
    )
    database: str = option(doc="The database.", minimum=1)
    tables: RdsTables = option(RdsTables(), "The tables to read. Default: all.")
    authentication: RdsUser = option(doc="The user.")
    tls: Tls = option(Tls(), "Encryption.")
    transactional: bool = option(
        False, "As of `postgres` and `mysql`: never divide a transaction over several commits."
    )
    no_key: NoKey = option("fail", "As of `postgres` and `mysql`: what becomes of tables without a key.")
    stream: bool = option(True, "Changes are always read; `false` is refused.")
    joins: dict[str, Any] | None = option(None, "Refused: join tables where they are read.")
    db_identifier: str | None = option(None, f"{_UNUSED}: set `host`.")
    cluster: bool = option(False, f"{_UNUSED}: `host` is the endpoint, for a cluster that of its writer.")
    aws: dict[str, Any] | None = option(None, f"{_UNUSED}, because AWS is not asked.")
    acknowledgments: bool = option(True, f"{_UNUSED}: progress always follows the commits.")
    s3_bucket: str | None = option(None, _NO_S3)
    s3_prefix: str | None = option(None, _NO_S3)
    s3_region: str | None = option(None, _NO_S3)
    export: dict[str, Any] | None = option(None, _NO_S3)
    partition_count: int = option(100, _NO_S3)
    disable_s3_read_for_leader: bool = option(False, _NO_S3)
    s3_data_file_acknowledgment_timeout: timedelta = option(timedelta(minutes=30), _NO_S3)
    stream_acknowledgment_timeout: timedelta = option(timedelta(minutes=10), f"{_UNUSED}: no change is ever given up.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse what Calve does not do, by name."""
        if self.host is None:
            yield "", "needs `host`, the endpoint of the database: Calve does not ask AWS for that of db_identifier"
        if not self.stream:
            yield "stream", "must be true: Calve loads the tables and then follows their changes"
        if self.joins is not None:
            yield "joins", "is not supported: each table becomes a table, and a query or a view joins them"
        for key in ("include", "exclude"):
            for index, name in enumerate(getattr(self.tables, key)):
                if self._is_postgres and "." not in name.strip("."):
                    yield f"tables.{key}[{index}]", f"{name!r} has no schema; write e.g. `public.{name.strip('.')}`"

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Warn of a server that is not verified."""
        if self._ssl_mode and not is_loopback(self.host or ""):
            yield "tls.insecure", "does not check the server: others on the way can read and change what is read"

    def plugin(self) -> tuple[str, DatabaseSettings]:
        """Return the source that reads the database: its name and its settings."""
        shared: dict[str, Any] = {
            "host": self.host,
            "username": self.authentication.username,
            "password": self.authentication.password,
            "tables": Tables(include=self._patterns(self.tables.include or ["*"]), exclude=self._excluded),
            "ssl_root_certificate_file": self.tls.ssl_root_certificate_file,
            "ssl_mode": self._ssl_mode,
            "transactional": self.transactional,
            "no_key": self.no_key,
        }
        if self.port is not None:
            shared["port"] = self.port
        if self._is_postgres:
            return "postgres", PostgresSettings(database=self.database, **shared)
        return "mysql", MysqlSettings(**shared)

    @property
    def _is_postgres(self) -> bool:
        return self.engine.endswith("postgresql")

    @property
    def _excluded(self) -> list[str]:
        return self._patterns(self.tables.exclude)

    @property
    def _ssl_mode(self) -> str | None:
        return "prefer" if self.tls.insecure and not self.tls.ssl_root_certificate_file else None

    def _patterns(self, names: list[str]) -> list[str]:
        """Return patterns of `schema.table`; in MySQL the database is the schema."""
        if self._is_postgres:
            return ["*.*" if name == "*" else name for name in names]
        return [f"{self.database}.{name}" for name in names]


SETTINGS = RdsSettings
