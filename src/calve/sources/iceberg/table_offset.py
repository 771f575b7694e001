"""The offset of a table, as the ledger keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from calve.sources.source import Position

__all__ = ["Open", "TableOffset", "offsets", "position"]


@dataclass(frozen=True)
class Open:
    """A spool whose files are not all planned.

    Attributes:
        spool: Its folder.
        part: Its last planned file.
        snapshot: The table's snapshot after the spool; `load` and `files` likewise.
    """

    spool: str
    part: str = ""
    snapshot: int | None = None
    load: int | None = None
    files: int = 0


@dataclass(frozen=True)
class TableOffset:
    """How far a table has been read.

    Attributes:
        uuid: The table's UUID.
        snapshot: The last snapshot that is read completely; None: none is.
        load: The snapshot whose rows are being loaded first.
        files: How many of its data files have been read.
        open: The spool whose files are planned next.
    """

    uuid: str
    snapshot: int | None = None
    load: int | None = None
    files: int = 0
    open: Open | None = None

    @property
    def needs(self) -> int | None:
        """The snapshot that the next read needs."""
        return self.load if self.load is not None else self.snapshot

    def closed(self) -> TableOffset:
        """Return the offset after the open spool."""
        assert self.open is not None
        return TableOffset(self.uuid, self.open.snapshot, self.open.load, self.open.files)

    def opened(self, spool: str, then: TableOffset) -> TableOffset:
        """Return the offset at the beginning of a spool; `then` is the offset after it."""
        return replace(self, open=Open(spool, "", then.snapshot, then.load, then.files))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, without empty ones."""
        return {key: value for key, value in asdict(self).items() if value}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TableOffset:
        """Read the result of `to_json`."""
        opened = data.get("open")
        return TableOffset(**{**data, "open": Open(**opened) if opened else None})


def offsets(position: Position | None) -> dict[str, TableOffset]:
    """Return the offsets of a position by table."""
    return {table: TableOffset.from_json(offset) for table, offset in (position or {}).get("tables", {}).items()}


def position(table_offsets: Mapping[str, TableOffset]) -> Position:
    """Return the position of offsets."""
    return {"tables": {table: offset.to_json() for table, offset in table_offsets.items()}}
