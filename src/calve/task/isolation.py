"""The part of a batch that a pass reads, and the events that it leaves out as dead letters (UNPROCESSABLE).

The driver's quarantine divides a batch that fails; tasks do what it says. An event is named by its position: the
number of its split in the batch's plan and its row in the split, which are the same however often the split is read.
Runs on executors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from calve.arrays import Mask
from calve.event.columns import POSITION
from calve.event.reject import Code, reject_rows

__all__ = ["WHOLE", "Excluded", "Isolation", "Window", "position"]

_ROW_BITS = 40
Window = tuple[int, int]
"""Positions: from the first, and before the second."""


def position(split: int, row: int) -> int:
    """Return the position of a row of a split."""
    return split << _ROW_BITS | row


@dataclass(frozen=True)
class Excluded:
    """Events that become dead letters.

    Attributes:
        window: Where they are.
        sink: The number of the sink that cannot take them; None: all sinks.
        table: Only those that are routed to this table; empty: all.
        reason: Of their dead letters.
    """

    window: Window
    sink: int | None
    table: str
    reason: str


@dataclass(frozen=True)
class Isolation:
    """What a pass does beside writing a batch; the default is nothing.

    Attributes:
        window: The only events that are read; None: all.
        excluded: Events that are left out.
        is_probe: Whether it only finds out if it works: no file is kept.
        is_of_staged: Whether the batch is staged and its files are written again: then the other dead letters are
            there, and what fails is a table's commit.
    """

    window: Window | None = None
    excluded: tuple[Excluded, ...] = ()
    is_probe: bool = False
    is_of_staged: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether events must carry their positions."""
        return self.window is not None or bool(self.excluded)

    def reads(self, split: int) -> bool:
        """Whether any event of a split is read."""
        return self.window is None or (self.window[0] < position(split + 1, 0) and position(split, 0) < self.window[1])

    def placed(self, events: pa.Table, split: int, first: int) -> pa.Table:
        """Return those events that are read, with their positions; `first` is the row of the first one."""
        if not self.is_needed:
            return events
        start = position(split, first)
        events = events.append_column(POSITION, pa.array(np.arange(start, start + len(events), dtype=np.int64)))
        return events if self.window is None else events.filter(pa.array(_within(events, self.window)))

    def left_out(self, events: pa.Table, sink: int | None, table: str = "") -> tuple[Mask, pa.Table]:
        """Return a mask of the events that stay, and the `REJECTS` of the others.

        Args:
            events: With their positions.
            sink: What is excluded for this sink alone; None: what is excluded for all.
            table: Where they are routed.
        """
        stay, rejects = np.ones(len(events), bool), []
        for one in self.excluded:
            if one.sink in (None, sink) and one.table in ("", table):
                rows = np.flatnonzero(_within(events, one.window) & stay)
                stay[rows] = False
                rejects.append(reject_rows(pa.array(rows), Code.UNPROCESSABLE, "", one.reason))
        return stay, pa.concat_tables(rejects or [reject_rows(pa.array([], pa.int64()), Code.UNPROCESSABLE, "", "")])


WHOLE = Isolation()


def _within(events: pa.Table, window: Window) -> Mask:
    positions = events.column(POSITION).to_numpy()
    mask: Mask = (positions >= window[0]) & (positions < window[1])
    return mask
