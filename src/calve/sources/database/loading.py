"""The phase that loads: chunks of the tables become batches, before all changes that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calve.sources.database import reload
from calve.sources.database.following import Following
from calve.sources.database.load import chunk_of
from calve.sources.database.parts import Parts
from calve.sources.database.stopped import marked
from calve.sources.database.system import ANY, DatabaseSystem
from calve.sources.source import Planned, Position

__all__ = ["Loading"]


class Loading:
    """The load of the tables, and of those that are read again (the pipeline's thread, except `committed`).

    Args:
        parts: What the phases share.
        system: The database.
        following: Stops tables that tasks could not read.
    """

    def __init__(self, parts: Parts, system: DatabaseSystem, following: Following) -> None:
        self._parts, self._system, self._following = parts, system, following
        self._unreadable: set[int] = set()

    def open(self, begun: dict[str, Any], position: Position | None, pending: Sequence[Planned]) -> None:
        """Go on from a position, with batches that are not committed."""
        self._parts.load.open(begun, position, pending)
        if not self._parts.load.is_done:
            self._system.begin_load()

    def add(self, begun: dict[str, Any]) -> None:
        """Go on with more chunks, or none, after all changes from before."""
        load = self._parts.load
        is_done = len(begun["chunks"]) == len(load.chunks)
        if is_done:
            self._system.end_load()
        else:
            self._system.begin_load()
        load.add(begun)
        load.is_done = is_done

    def with_limit(self, planned: Planned) -> Planned:
        """Return a batch of changes with the position up to which they may be in the targets already."""
        load = self._parts.load
        until = max(self._system.loaded_until(), load.begun.get("until", 0)) if load.is_done else ANY
        splits = [replace(split, body={**split.body, "until": until}) for split in planned.splits]
        return load.planned(Planned(splits, planned.position), len(load.chunks))

    def committed(self, position: Position) -> None:
        """End the load after its last chunk."""
        load = self._parts.load
        if chunk_of(position) >= len(load.chunks) and not load.is_done:
            self.stop_unreadable(now=True)
            self._system.end_load()
            load.is_done = True

    def stop_unreadable(self, now: bool = False, is_again: bool = True) -> None:
        """Stop the tables that tasks could not read; they are read again, if the settings say so."""
        parts = self._parts
        policy = parts.settings.on_unlogged_change if is_again else ""
        for oid, why in marked(parts.files, now).items():
            table = parts.epochs.tables[oid]
            if oid not in self._unreadable and not table.stopped:
                self._unreadable.add(oid)
                again = reload.policy_for(table, policy, why)
                hint = reload.read_again(again, parts.files, parts.number, table.full_name)
                self._following.stream.stop_table(oid, why, hint)

    def forget_unreadable(self) -> None:
        """Forget which tables could not be read, because some are read again."""
        self._unreadable.clear()
