"""The part of a batch that a pass reads, and the events that it leaves out as dead letters (UNPROCESSABLE).

The driver's quarantine divides a failing batch, and tasks read its parts. The position identifies an event: the number
of its split in the batch's plan, and its row in the split. It is the same whenever the split is read.
Runs on executors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import Mask
from calve.event.columns import POSITION, SINK
from calve.event.reject import Code, reject_rows
from calve.record.target import TableRef

__all__ = ["WHOLE", "Excluded", "Isolation", "RejectRows", "Shares", "Window", "meant_for", "position"]

RejectRows = Callable[[TableRef, pa.Table, pa.Table], None]
"""Gets a target (without a table: unknown), events, and which of them are rejected (`REJECTS`)."""
Shares = list[tuple[TableRef, pa.Array | None]]
"""Tables with the positions of their events in a batch, ascending; None: all events, of one table."""
_ROW_BITS = 40
Window = tuple[int, int]
"""Positions from the first up to, not including, the second."""


def position(split: int, row: int) -> int:
    """Return the position of a row of a split."""
    return split << _ROW_BITS | row


def meant_for(sink: int, events: pa.Table, rejects: pa.Table) -> pa.Table:
    """Return the rejects (`REJECTS`) that are for a sink: an event of a replay has its own sink."""
    if SINK not in events.column_names:
        return rejects
    return rejects.filter(pc.fill_null(pc.equal(events[SINK].take(rejects["row"]), sink), True))


@dataclass(frozen=True)
class Excluded:
    """Events that become dead letters.

    Attributes:
        window: Their positions.
        sink: The number of the sink that cannot write them; None: all sinks.
        table: Only events that are routed to this table; empty: all.
        reason: The reason in their dead letters.
    """

    window: Window
    sink: int | None
    table: str
    reason: str


@dataclass(frozen=True)
class Isolation:
    """Restricts a pass over a batch; the default is no restriction.

    Attributes:
        window: The only events that are read; None: all.
        excluded: Events that are left out.
        is_probe: Whether the pass is only a test: no file is kept.
        is_of_staged: Whether the files of a staged batch are rewritten: then the other dead letters already exist,
            and a table's commit is what fails.
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
        """Return whether any event of a split is read."""
        return self.window is None or (self.window[0] < position(split + 1, 0) and position(split, 0) < self.window[1])

    def select(self, events: pa.Table, split: int, first: int) -> pa.Table:
        """Select the events to read, and add their positions; `first` is the row of the first one."""
        if not self.is_needed:
            return events
        start = position(split, first)
        events = events.append_column(POSITION, pa.array(np.arange(start, start + len(events), dtype=np.int64)))
        return events if self.window is None else events.filter(pa.array(_within(events, self.window)))

    def keep_events(self, events: pa.Table, sinks: int, reject: RejectRows) -> pa.Table:
        """Return the events that are not excluded for all sinks; the others become dead letters of their sinks."""
        if not self.excluded:
            return events
        keep, rejects = self._split(events, None, "")
        for sink in range(sinks if len(rejects) else 0):
            reject(TableRef(sink, ""), events, meant_for(sink, events, rejects))
        return events.filter(pa.array(keep))

    def keep_shares(self, events: pa.Table, shares: Shares, reject: RejectRows) -> Shares:
        """Return the shares without the events that are excluded for their sinks, which become dead letters."""
        if not self.excluded:
            return shares
        remaining: Shares = []
        for target, at in shares:
            positions = np.arange(len(events)) if at is None else at.to_numpy()
            rows = events.take(pa.array(positions))
            keep, rejects = self._split(rows, target.sink, target.table)
            if len(rejects):
                reject(target, rows, rejects)
            if keep.any():
                remaining.append((target, at if keep.all() else pa.array(positions[keep])))
        return remaining

    def _split(self, events: pa.Table, sink: int | None, table: str) -> tuple[Mask, pa.Table]:
        """Return a mask of the events to keep, and the `REJECTS` of the others; sink None: those of all sinks."""
        keep, rejects = np.ones(len(events), bool), []
        for excluded in self.excluded:
            if excluded.sink in (None, sink) and excluded.table in ("", table):
                rows = np.flatnonzero(_within(events, excluded.window) & keep)
                keep[rows] = False
                rejects.append(reject_rows(pa.array(rows), Code.UNPROCESSABLE, "", excluded.reason))
        return keep, pa.concat_tables(rejects or [reject_rows(pa.array([], pa.int64()), Code.UNPROCESSABLE, "", "")])


WHOLE = Isolation()


def _within(events: pa.Table, window: Window) -> Mask:
    positions = events.column(POSITION).to_numpy()
    mask: Mask = (positions >= window[0]) & (positions < window[1])
    return mask
