"""The events that a SELECT was given, seen from the rows that it gave: it leaves out what DuckDB could not read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.event.scan import Texts

__all__ = ["Given"]

_Rows = npt.NDArray[np.int64]


class Given(NamedTuple):
    """Events and the rows of a result.

    Attributes:
        texts: The events; no nulls.
        scan: Their bytes.
        at: Of each row of the result, the position of its event, ascending.
    """

    texts: pa.Array
    scan: Texts
    at: _Rows

    def events(self, rows: _Rows) -> pa.Array:
        """Give the events of some rows."""
        return self.texts if len(rows) == len(self.texts) else self.texts.take(pa.array(self.at[rows]))

    def rows(self, positions: _Rows) -> _Rows:
        """Give the rows of the events at some positions, where there are any."""
        rows = np.searchsorted(self.at, positions)
        there = rows < len(self.at)
        there[there] = self.at[rows[there]] == positions[there]
        return rows[there]

    def count_colons(self, rows: npt.NDArray[np.bool_]) -> int:
        """Count the colons that may follow a field name in the events of these rows, which are nearly all."""
        others = np.ones(len(self.texts), bool)
        others[self.at[rows]] = False
        return self.scan.count_colons() - Texts(self.texts.filter(pa.array(others))).count_colons()
