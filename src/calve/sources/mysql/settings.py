"""The settings of the mysql source."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from calve.settings import option
from calve.sources.database.settings import DatabaseSettings
from calve.sources.mysql.attributes import METADATA
from calve.sources.settings import Claim

__all__ = ["SETTINGS", "MysqlSettings"]

_FIRST_SERVER_ID = 1 << 31


@dataclass(frozen=True)
class MysqlSettings(DatabaseSettings):
    """Reads tables of MySQL or MariaDB: first their rows, then every change, in the order of the commits."""

    scheme: ClassVar[str] = "mysql"

    port: int = option(3306, "The server's port.", minimum=1, maximum=65535)
    username: str = option(
        doc="The user. It needs REPLICATION SLAVE, REPLICATION CLIENT, and SELECT on the tables.", minimum=1
    )
    password: str = option("", "The user's password, e.g. `${env:MYSQL_PWD}`.", secret=True)
    server_id: int | None = option(
        None,
        "The number by which the server knows this reader of its log; no other replica may have it. Default: made from "
        "the pipeline's name.",
        minimum=1,
        maximum=(1 << 32) - 1,
    )
    on_cascade: Literal["fail", "ignore"] = option(
        "fail",
        "If a foreign key of a table has ON DELETE or ON UPDATE with CASCADE or SET NULL, whose changes the server "
        "does not log: refuse the table, or read it without these changes.",
    )

    @property
    def metadata(self) -> Mapping[str, pa.DataType]:
        """The metadata attributes of a row or a change, and their types."""
        return METADATA

    def claims(self, pipeline: str) -> Iterator[Claim]:
        """Yield the number of the reader of the log."""
        yield self._claim("server_id", self.server_id_of(pipeline), "has")

    def server_id_of(self, pipeline: str) -> int:
        """Return the number of the reader."""
        return self.server_id or _FIRST_SERVER_ID + zlib.crc32(pipeline.encode()) % _FIRST_SERVER_ID


SETTINGS = MysqlSettings
