"""Which loaded tables of a sink may be forgotten, because events of the last batches were for other ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["IdleTables"]

_KEPT_TABLES = 1_000
"""Fewer are never forgotten: 1.5 kB of each are in every task, and some more in the driver."""
_IDLE_BATCHES = 64
"""As many as may wait for a commit. A table that is forgotten too early costs a load and a second pass."""


class IdleTables:
    """The tables that batches use; not thread-safe.

    Args:
        kept: So many tables are never forgotten.
        batches: A table that so many batches did not use is idle.
    """

    def __init__(self, kept: int = _KEPT_TABLES, batches: int = _IDLE_BATCHES) -> None:
        self._kept, self._batches = kept, batches
        self._batch = 0
        self._used: dict[str, int] = {}

    def use(self, names: Iterable[str]) -> None:
        """Note that the current batch uses tables."""
        self._used.update(dict.fromkeys(names, self._batch))

    def next_batch(self, loaded: Collection[str]) -> list[str]:
        """Begin a batch; return the loaded tables to forget, the longest idle first."""
        self._batch += 1
        surplus = len(loaded) - self._kept
        if surplus <= 0:
            return []
        used = {name: self._used.get(name, 0) for name in loaded}
        idle = [name for name in loaded if used[name] < self._batch - self._batches]
        forgotten = sorted(idle, key=lambda name: used[name])[:surplus]
        for name in forgotten:
            self._used.pop(name, None)
        return forgotten
