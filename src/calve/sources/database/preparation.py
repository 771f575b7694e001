"""What the checks of a database found: everything that is wrong is in one error, with the SQL that mends it."""

from __future__ import annotations

from dataclasses import dataclass, field

from calve.errors import SourceError
from calve.sources.database.settings import DatabaseSettings
from calve.sources.database.table import Table

__all__ = ["SHOWN", "Preparation"]

SHOWN = 20
"""How many tables a message names."""


@dataclass(frozen=True)
class Preparation:
    """What the checks found.

    Attributes:
        tables: The tables to read.
        sql: The statements that are missing, to be run by an owner or administrator.
        faults: Sentences about what is wrong; empty: the source can start.
        left_out: Tables that the settings select, but that are not read.
    """

    tables: list[Table]
    sql: list[str]
    faults: list[str]
    left_out: list[str] = field(default_factory=list)

    def require(self, settings: DatabaseSettings, system: str) -> None:
        """Raise what is wrong.

        Raises:
            SourceError: Something is.
        """
        if not self.faults:
            return
        sql = "; ".join(self.sql[:SHOWN])
        raise SourceError(
            f"{system} at {settings.shown} is not ready: {'; '.join(self.faults[:SHOWN])}",
            step="start",
            target=settings.shown,
            hint=f"Run: {sql};" if sql else "",
        )
