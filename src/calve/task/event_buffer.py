"""Buffers the events of a task until they are converted: of one table, or of several with the same columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from calve.convert.by_table import TableOfRow
from calve.record.target import TableRef
from calve.sources.source import READ_ROWS
from calve.task.isolation import Shares

__all__ = ["EventBuffer"]

_BUFFER_BYTES = 32 << 20
_BUFFER_ROWS = READ_ROWS // 2
_ROWS_A_TABLE = 256
"""With many tables more rows wait: each table's part of a conversion has a price of its own, whatever its rows."""
_MOST_BYTES = 64 << 20


class EventBuffer:
    """Events of tables that can be converted together; runs on an executor.

    Attributes:
        targets: The tables, by the number that `drain` returns.
        rows: How many events wait.
        size_bytes: Their size.
    """

    def __init__(self) -> None:
        self.targets: list[TableRef] = []
        self.rows = 0
        self.size_bytes = 0
        self._numbers: dict[TableRef, int] = {}
        self._events: list[pa.Table] = []
        self._table_of_row: list[TableOfRow] = []

    @property
    def is_full(self) -> bool:
        """Whether the events are enough to be converted together."""
        is_enough = self.size_bytes >= _BUFFER_BYTES or self.rows >= _BUFFER_ROWS
        return self.size_bytes >= _MOST_BYTES or (is_enough and self.rows >= _ROWS_A_TABLE * len(self.targets))

    def joins(self, events: pa.Table) -> bool:
        """Return whether events have the columns of the buffered ones: the rows of typed files may differ."""
        return not self._events or self._events[0].schema.equals(events.schema)

    def add(self, events: pa.Table, shares: Shares) -> None:
        """Add the events of a batch that belong to these tables."""
        numbers = np.array([self._number(target) for target, _ in shares], np.int32)
        chosen = [at.to_numpy() for _, at in shares if at is not None]
        if not chosen:
            table_of_row = np.repeat(numbers, len(events))
        else:
            positions = np.concatenate(chosen)
            table_of_row = np.repeat(numbers, [len(at) for at in chosen])
            if len(positions) == len(events):  # all of them: no copy
                ordered = np.empty_like(table_of_row)
                ordered[positions] = table_of_row
                table_of_row = ordered
            else:
                events = events.take(pa.array(positions))
        self._events.append(events)
        self._table_of_row.append(table_of_row)
        self.rows += len(events)
        self.size_bytes += events.nbytes

    def drain(self) -> tuple[pa.Table, TableOfRow]:
        """Return and forget the buffered events, those of each table in their order, and the table number of each."""
        events, table_of_row = pa.concat_tables(self._events).combine_chunks(), np.concatenate(self._table_of_row)
        self._events, self._table_of_row, self.rows, self.size_bytes = [], [], 0, 0
        return events, table_of_row

    def _number(self, target: TableRef) -> int:
        if target not in self._numbers:
            self._numbers[target] = len(self.targets)
            self.targets.append(target)
        return self._numbers[target]
