"""The settings of the postgres source."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from calve.errors import SettingsError
from calve.settings import option
from calve.sources.database.settings import DatabaseSettings
from calve.sources.postgres.attributes import METADATA
from calve.sources.settings import Claim

__all__ = ["SETTINGS", "PostgresSettings"]

_NAME = re.compile(r"[a-z0-9_]{1,63}")
_LONGEST_NAME = 63
_DIGEST_LENGTH = 8


def _check_slot(text: str) -> None:
    if not _NAME.fullmatch(text):
        raise SettingsError(f"{text!r} is not the name of a slot: at most 63 lower-case letters, digits and `_`")


@dataclass(frozen=True)
class PostgresSettings(DatabaseSettings):
    """Reads tables of a PostgreSQL database: first their rows, then every change, in the order of the commits."""

    holds_on_server: ClassVar[bool] = True
    scheme: ClassVar[str] = "postgres"

    port: int = option(5432, "The server's port.", minimum=1, maximum=65535)
    database: str = option(doc="The database.", minimum=1)
    username: str = option(doc="The user. It needs LOGIN, REPLICATION, and SELECT on the tables.", minimum=1)
    password: str = option("", "The user's password, e.g. `${env:PGPASSWORD}`.", secret=True)
    publication: str | None = option(
        None,
        "The publication to read. Calve creates a missing one, if the user owns the tables. Default: "
        "`calve_<pipeline>`.",
        minimum=1,
        maximum=_LONGEST_NAME,
    )
    slot: str | None = option(
        None,
        "The logical replication slot. Calve creates a missing one. Default: `calve_<pipeline>_<database>`, because "
        "slots belong to the whole server; a state that began with another one keeps it.",
        check=_check_slot,
    )

    @property
    def metadata(self) -> Mapping[str, pa.DataType]:
        """The metadata attributes of a row or a change, and their types."""
        return METADATA

    def claims(self, pipeline: str) -> Iterator[Claim]:
        """Yield the slot."""
        yield self._claim("slot", self.slot_of(pipeline), "reads")

    def slot_of(self, pipeline: str) -> str:
        """Return the name of the slot."""
        return self.slot or _named(f"{pipeline}_{self.database}")

    def former_slot_of(self, pipeline: str) -> str:
        """Return the name of the slot in states that kept no name, which were begun before it had the database's."""
        return self.slot or _named(pipeline)

    def publication_of(self, pipeline: str) -> str:
        """Return the name of the publication."""
        return self.publication or _named(pipeline)

    @property
    def database_name(self) -> str:
        """The database of the session."""
        return self.database

    @property
    def shown(self) -> str:
        """The database, for messages."""
        return f"{self.host}:{self.port}/{self.database}"


SETTINGS = PostgresSettings


def _named(text: str) -> str:
    """Return a name of at most 63 characters; one that is too long ends in a digest, so that no two are the same."""
    name = re.sub(r"[^a-z0-9_]", "_", f"calve_{text.lower()}")
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: _LONGEST_NAME - _DIGEST_LENGTH - 1]}_{digest}"
