"""The load of a source: its chunks, which of them are read, and where the stream begins; kept in `begun.json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from calve.errors import SourceError
from calve.observe.humanize import size
from calve.sources.database import overview
from calve.sources.database.epochs import Epochs
from calve.sources.database.follow import fitting
from calve.sources.database.table import DatabaseTable
from calve.sources.source import APART, LOADED, Planned, Position, SourceTable, Split
from calve.sources.source_files import FilesAt, encoded, files_in, read_json
from calve.stop_point import stop_at

__all__ = ["Load", "check_database", "chunk_of", "log_position", "tables_of"]

_BEGUN = "begun.json"
_OTHER = "Correct host and database; for another database use a new --state and an empty target"


class Load:
    """The chunks of all tables, and after them those of tables that were loaded again.

    Args:
        folder: The source's files.

    Attributes:
        begun: What is in the file.
        is_done: Whether everything is committed.
    """

    def __init__(self, folder: FilesAt) -> None:
        self._files = files_in(folder)
        self.begun: dict[str, Any] = {"chunks": []}
        self.is_done = False
        self._is_noted = False
        self._planned = 0

    def read(self) -> dict[str, Any] | None:
        """Return what was begun; None: nothing."""
        begun: dict[str, Any] | None = read_json(self._files, _BEGUN)
        return begun

    def begin(self, begun: dict[str, Any], epochs: Epochs, tables: Sequence[DatabaseTable]) -> dict[str, Any]:
        """Write down where a new state begins: at the first position of the stream, with these tables and chunks.

        Args:
            begun: The database's name, `start`, `chunks`, `load` (its number), and whether its rows replace others.
            epochs: The descriptions of the tables.
            tables: The tables.
        """
        epochs.load()
        database, number = begun["database"], begun["load"]
        name = f"{database}#{number}" if number else database  # numbers of columns may be others than before
        before = {table.full_name: table for table in epochs.tables.values()}
        tables = [fitting(msgspec.structs.replace(described, database=name), before) for described in tables]
        epochs.begin(tables)
        stop_at("load.after-epoch")
        more = {"epoch": epochs.number, "replaces": begun["replaces"], "at": begun["start"] - 1}
        kept = {table.oid for table in tables if not table.stopped}
        chunks = [{**chunk, **more} for chunk in begun["chunks"] if chunk["table"] in kept]
        begun = {"database": name, "start": begun["start"], "chunks": chunks, "load": number}
        self._files.write(_BEGUN, encoded(begun))
        stop_at("load.after-begun")
        return begun

    def add(self, begun: dict[str, Any]) -> None:
        """Go on with more chunks, which are read before all changes that follow; durable on return."""
        self._files.write(_BEGUN, encoded(begun))
        self.begun = begun
        self._is_noted = False

    def keep(self, until: int) -> None:
        """Write down up to which position rows may be in the targets because of what was loaded until now."""
        if until > self.begun.get("until", 0):
            self.add({**self.begun, "until": until})

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """All chunks."""
        chunks: list[dict[str, Any]] = self.begun["chunks"]
        return chunks

    def open(self, begun: dict[str, Any], position: Position | None, pending: Sequence[Planned]) -> None:
        """Go on from a position, with batches that are not committed."""
        self.begun = begun
        self.is_done = chunk_of(position) >= len(self.chunks) and not any(
            "chunk" in _first_of(planned) for planned in pending
        )

    def left(self, position: Position | None) -> list[dict[str, Any]]:
        """Return the chunks after a position."""
        self._planned = chunk_of(position)
        return self.chunks[self._planned :]

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return the next chunks; None: there are none."""
        splits: list[Split] = []
        first, room_bytes = chunk_of(position), max_bytes
        while first < len(self.chunks) and (room_bytes > 0 or not splits):
            chunk = self.chunks[first]
            body = {"chunk": chunk, LOADED: True, APART: True} if chunk.get(APART) else {"chunk": chunk, LOADED: True}
            splits.append(Split(body, chunk["bytes"]))
            room_bytes -= chunk["bytes"]
            first += 1
        return self.planned(Planned(splits, log_position(position) or {}), first) if splits else None

    @property
    def comparing(self) -> list[int]:
        """The tables that were loaded apart, or are, to be compared; no change of the log is read before."""
        tables: list[int] = self.begun.get("comparing", [])
        return tables

    @property
    def is_read(self) -> bool:
        """Whether all chunks are before the last position that was asked about."""
        return self._planned >= len(self.chunks)

    def planned(self, batch: Planned, chunk: int) -> Planned:
        """Return a batch with the complete position after it."""
        return replace(batch, position={**batch.position, "chunk": chunk, "load": self.begun.get("load", 0)})

    def committed(self, position: Position) -> None:
        """Note what is committed, for `calve source tables`."""
        chunk = chunk_of(position)
        if chunk != len(self.chunks) or not self._is_noted:
            overview.note(self._files, chunk)
            self._is_noted = chunk == len(self.chunks)

    @property
    def condition(self) -> str:
        """How far the load is; empty: everything is read."""
        unread = sum(chunk["bytes"] for chunk in self.chunks[self._planned :])
        total = sum(chunk["bytes"] for chunk in self.chunks[self.begun.get("first", 0) :])
        return f"load: {size(total - unread)} of {size(total)} read" if unread else ""


def check_database(begun: dict[str, Any], database: str, server: str, hint: str = "") -> None:
    """Check that a state is of a database.

    Args:
        begun: What the state began with.
        database: What identifies the database.
        server: The server, for messages.
        hint: What else may help.

    Raises:
        SourceError: It is of another one.
    """
    if database != begun["database"].partition("#")[0]:
        raise SourceError(
            f"{server} is not the database that this state was begun with",
            step="start",
            target=server,
            hint=". ".join(filter(None, (_OTHER, hint))),
        )


def chunk_of(position: Position | None) -> int:
    """Return how many chunks are before a position."""
    return int(position["chunk"]) if position else 0


def log_position(position: Position | None) -> Position | None:
    """Return the part of a position that is about the log; None before the first change."""
    part = position and {name: position[name] for name in ("segment", "offset") if name in position}
    return part or None


def tables_of(planned: Planned, epochs: Epochs, epoch_of: Callable[[str], int]) -> list[SourceTable]:
    """Return the tables of a batch, as they were then.

    Args:
        planned: The batch.
        epochs: The descriptions of the tables.
        epoch_of: Returns the epoch of a segment of the log.
    """
    body = _first_of(planned)
    number = body["chunk"].get("epoch", 0) if "chunk" in body else epoch_of(body["file"])
    first, last = body.get("epochs", (number, number))
    loaded = {split.body["chunk"]["table"] for split in planned.splits if "chunk" in split.body}
    described = [table for table in epochs.of(first, last) if not loaded or table.oid in loaded]
    return [table.source_table() for table in described if table.is_readable]


def _first_of(planned: Planned) -> dict[str, Any]:
    """Return the first split of a batch."""
    return planned.splits[0].body if planned.splits else {}
