"""Events that wait in a task until they are converted: of one table, or of several that are alike."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from calve.convert.divide import Owners
from calve.pipeline.job import Target

__all__ = ["Crowd", "Shares"]

Shares = list[tuple[Target, pa.Array | None]]
"""Tables with the positions of their events in a batch, ascending; None: all events, of one table."""


class Crowd:
    """Events of tables that can be converted together; runs on an executor.

    Attributes:
        targets: The tables, by the number that `take` gives as the owner.
        rows: How many events wait.
        size_bytes: Their size.
    """

    def __init__(self) -> None:
        self.targets: list[Target] = []
        self.rows = 0
        self.size_bytes = 0
        self._numbers: dict[Target, int] = {}
        self._events: list[pa.Table] = []
        self._owners: list[Owners] = []

    def add(self, events: pa.Table, shares: Shares) -> None:
        """Take those events of a batch that are these tables'."""
        numbers = np.array([self._number(target) for target, _ in shares], np.int32)
        chosen = [at.to_numpy() for _, at in shares if at is not None]
        if not chosen:
            owners = np.repeat(numbers, len(events))
        else:
            positions = np.concatenate(chosen)
            owners = np.repeat(numbers, [len(at) for at in chosen])
            if len(positions) == len(events):  # all of them: they stay where they are
                ordered = np.empty_like(owners)
                ordered[positions] = owners
                owners = ordered
            else:
                events = events.take(pa.array(positions))
        self._events.append(events)
        self._owners.append(owners)
        self.rows += len(events)
        self.size_bytes += events.nbytes

    def take(self) -> tuple[pa.Table, Owners]:
        """Give the events that wait, those of each table in their order, and their owners; then none wait."""
        events, owners = pa.concat_tables(self._events).combine_chunks(), np.concatenate(self._owners)
        self._events, self._owners, self.rows, self.size_bytes = [], [], 0, 0
        return events, owners

    def _number(self, target: Target) -> int:
        if target not in self._numbers:
            self._numbers[target] = len(self.targets)
            self.targets.append(target)
        return self._numbers[target]
