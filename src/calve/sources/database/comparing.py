"""Tables that changed without a trace in the log: read again, loaded apart from their targets, and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calve.sources.database.load import Load
from calve.sources.database.reload import ReloadTracker
from calve.sources.database.stopped import mark, marked
from calve.sources.source import SourceTable

__all__ = ["DatabaseComparing"]


class DatabaseComparing:
    """Those of one source, one after the other (`calve.sources.source.Comparing`; the pipeline's thread).

    Args:
        load: Gets their chunks.
        reloads: The reload that is under way.
        add: Goes on with a load that has more chunks, or none.
        stop: Stops the tables that are marked as unreadable.
    """

    def __init__(
        self, load: Load, reloads: ReloadTracker, add: Callable[[dict[str, Any]], None], stop: Callable[[], None]
    ) -> None:
        self._load = load
        self._reloads = reloads
        self._add = add
        self._stop = stop

    @property
    def to_load(self) -> list[SourceTable] | None:
        """See there."""
        return self._reloads.to_load_apart

    @property
    def to_keep(self) -> list[SourceTable]:
        """See there."""
        return self._reloads.to_keep_beside(self._load.comparing)

    def load(self, fault: str) -> None:
        """See there."""
        if fault:
            self._refuse(self._reloads.oids, fault)
        self._add(self._reloads.loading(self._load.begun, refuses=bool(fault)))

    @property
    def to_compare(self) -> list[SourceTable] | None:
        """See there; a table that tasks could not read whole is left out."""
        if not self._load.comparing or not self._load.is_read:
            return None
        unreadable = marked(self._reloads.files, now=True)
        return self._reloads.described(oid for oid in self._load.comparing if oid not in unreadable)

    def end(self, fault: str) -> None:
        """See there."""
        if fault:
            self._refuse(self._load.comparing, fault)
        self._load.add({name: value for name, value in self._load.begun.items() if name != "comparing"})

    def _refuse(self, oids: Sequence[int], fault: str) -> None:
        """Stop tables that cannot be compared; durable on return."""
        for oid in oids:
            mark(self._reloads.files, oid, f"it changed without a trace in the log, and {fault}")
        self._stop()
