"""What the checks of a database found: everything that is wrong is in one error, with the SQL that mends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from calve.errors import SourceError
from calve.observe.humanize import listed
from calve.sources.database.settings import DatabaseSettings
from calve.sources.database.table import DatabaseTable
from calve.sources.database.target_names import NO_KEY

__all__ = ["SHOWN", "Preparation", "without_key"]

SHOWN = 20
"""How many tables a message names."""


def without_key(names: Sequence[str]) -> list[str]:
    """Return the sentence about tables without a key; none if there are no tables."""
    if not names:
        return []
    have, their, them = ("has", "its", "it") if len(names) == 1 else ("have", "their", "them")
    why = f"{listed(list(names), SHOWN)} {have} no primary key, so {their} changes cannot be applied"
    return [f"{why}: add one, exclude {them}, or set {NO_KEY}"]


@dataclass(frozen=True)
class Preparation:
    """What the checks found.

    Attributes:
        tables: The tables to read.
        sql: The statements that are missing, to be run by an owner or administrator.
        faults: Sentences about what is wrong; empty: the source can start.
        left_out: Tables that the settings select, but that are not read.
    """

    tables: list[DatabaseTable]
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
