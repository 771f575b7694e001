"""The events of a batch within a chain: those that some processors are done with, and the outcome of all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from calve.arrays import Mask, RowNumbers
from calve.event.reject import Reject

__all__ = ["BegunEvents", "ChainOutcome"]


class BegunEvents(NamedTuple):
    """Events that some processors have processed, or none.

    Attributes:
        events: As they were read.
        now: As they are, with `json`.
        numbers: Their positions in the batch.
        processors: How many processors have.
        touched: For each event whether they have changed it.
    """

    events: pa.Table
    now: pa.Table
    numbers: RowNumbers
    processors: int = 0
    touched: bytes = b""

    def after(self, is_kept: Mask) -> BegunEvents:
        """Return the kept events after one more processor."""
        if is_kept.all():
            return self._replace(processors=self.processors + 1)
        kept = pa.array(is_kept)
        now = self.now.filter(kept)
        events = now if self.events is self.now else self.events.filter(kept)
        touched = np.frombuffer(self.touched, np.uint8)[is_kept].tobytes() if self.touched else b""
        return BegunEvents(events, now, self.numbers[is_kept], self.processors + 1, touched)


class ChainOutcome:
    """What processors have made of the events of a batch."""

    def __init__(self) -> None:
        self.failed: list[Reject] = []
        self.failed_rows: list[pa.Table] = []
        self.dropped = 0
        self.added = 0
        self._rows: list[pa.Table] = []
        self._numbers: list[RowNumbers] = []

    def add(self, rows: pa.Table, numbers: RowNumbers) -> None:
        """Add events, with the positions in the batch of those that they come from."""
        self._rows.append(rows)
        self._numbers.append(numbers)

    def rows(self) -> pa.Table:
        """Return all events in the order of those that they come from."""
        rows, numbers = pa.concat_tables(self._rows), np.concatenate(self._numbers)
        if (np.diff(numbers) >= 0).all():
            return rows
        return rows.combine_chunks().take(pa.array(np.argsort(numbers, kind="stable")))
