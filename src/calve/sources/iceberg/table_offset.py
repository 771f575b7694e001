"""How far a table has been read: what the ledger keeps of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from calve.sources.source import Position

__all__ = ["Open", "Place", "places", "position"]


@dataclass(frozen=True)
class Open:
    """Changes that are written down and not all handed out.

    Attributes:
        spool: The folder that has them.
        part: The last of its files that was handed out.
        snapshot: Where the table is read to when all are; likewise the next two.
    """

    spool: str
    part: str = ""
    snapshot: int | None = None
    load: int | None = None
    files: int = 0


@dataclass(frozen=True)
class Place:
    """Where a table is read to.

    Attributes:
        uuid: The table's own identity.
        snapshot: The last snapshot that is told to its end; None: nothing is.
        load: The snapshot whose rows are being read, first of all.
        files: How many of its data files are behind us.
        open: What is to be handed out before anything else is looked for.
    """

    uuid: str
    snapshot: int | None = None
    load: int | None = None
    files: int = 0
    open: Open | None = None

    @property
    def needs(self) -> int | None:
        """The snapshot without which the table cannot be read on."""
        return self.load if self.load is not None else self.snapshot

    def closed(self) -> Place:
        """Return the place behind what is open."""
        assert self.open is not None
        return Place(self.uuid, self.open.snapshot, self.open.load, self.open.files)

    def opened(self, spool: str, then: Place) -> Place:
        """Return the place at the beginning of a spool, behind which comes another place."""
        return replace(self, open=Open(spool, "", then.snapshot, then.load, then.files))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values; what is empty is left out."""
        return {key: value for key, value in asdict(self).items() if value}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Place:
        """Read what `to_json` gave."""
        opened = data.get("open")
        return Place(**{**data, "open": Open(**opened) if opened else None})


def places(position: Position | None) -> dict[str, Place]:
    """Return the places of a position by table."""
    return {table: Place.from_json(place) for table, place in (position or {}).get("tables", {}).items()}


def position(found: Mapping[str, Place]) -> Position:
    """Return the position of places."""
    return {"tables": {table: place.to_json() for table, place in found.items()}}
