"""The fast path: the rows of a table of events that the compiled SELECT converts, and can prove to be exact."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.convert.keys import Shapes, closer_look
from calve.convert.proof import finish
from calve.convert.select import Select
from calve.event import duck
from calve.event.columns import EVENT, JSON
from calve.event.scan import Texts
from calve.event.sound import as_text, valid_mask

__all__ = ["FastPath", "Rows", "Taken", "nothing"]

Rows = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Taken:
    """What the fast path takes.

    Attributes:
        found: What the SELECT gave, proven or not; None when it could not run.
        good: Which of these rows are proven.
        rows: The positions of the proven rows in the input.
        unknown: The positions of those among them that have fields without a column.
    """

    found: pa.Table | None
    good: _Mask
    rows: Rows
    unknown: Rows


def nothing(rows: int) -> Taken:
    """Take none of so many rows."""
    empty = np.zeros(0, np.int64)
    return Taken(None, np.zeros(rows, bool), empty, empty)


class FastPath:
    """Runs a compiled SELECT and looks after its proofs.

    Args:
        select: The statement.
        case_insensitive: Whether a field may match a column by case only; such rows are not taken.
        leave_unknown: Take no row with unknown fields, as some of them may have to be rejected.
    """

    def __init__(self, select: Select, case_insensitive: bool, leave_unknown: bool) -> None:
        self.select = select
        self._shapes = Shapes(select, case_insensitive)
        self._leave_unknown = leave_unknown
        self._dirty = False

    def take(self, rows: pa.Table) -> Taken:
        """Convert what can be proven of a table with the column `event`, and `json` where `sound` has run."""
        texts, at = _texts(rows)
        found, texts, at = self._run(texts, at)
        if found is None:
            return nothing(len(rows))
        good: _Mask = np.array(duck.whole(found["ok"]).to_numpy(zero_copy_only=False))
        scan = Texts(texts)
        if JSON not in rows.column_names:
            good[scan.lenient()] = False
        if self.select.long_digits:
            good[scan.long_digits()] = False
        found = finish(self.select, found, texts, good)
        look = closer_look(self._shapes, found, scan, texts, good)
        good[look.slow] = False
        if self._leave_unknown:
            good[look.unknown] = False
        return Taken(found, good, at[good], at[look.unknown[good[look.unknown]]])

    def _run(self, texts: pa.Array, at: Rows) -> tuple[pa.Table | None, pa.Array, Rows]:
        """Run the SELECT; DuckDB throws for all rows when one is no JSON, so after that look first."""
        if not self._dirty:
            try:
                return _execute(self.select, texts), texts, at
            except duckdb.InvalidInputException:
                self._dirty = True
        valid = np.flatnonzero(valid_mask(texts))
        texts, at = _pick(texts, valid), at[valid]
        try:
            return _execute(self.select, texts), texts, at
        except duckdb.InvalidInputException:
            return None, texts, at


def _texts(rows: pa.Table) -> tuple[pa.Array, Rows]:
    """Give the texts that can be read and are those of the events, and their positions."""
    events = as_text(rows[EVENT])
    texts, sure = events, events.is_valid()
    if JSON in rows.column_names:
        texts = as_text(rows[JSON])
        sure = pc.fill_null(pc.equal(texts, events), False)
    at = np.flatnonzero(sure.to_numpy(zero_copy_only=False))
    return _pick(texts, at), at


def _pick(texts: pa.Array, at: Rows) -> pa.Array:
    return texts if len(at) == len(texts) else texts.take(pa.array(at))


def _execute(select: Select, texts: pa.Array) -> pa.Table:
    return duck.run(select.sql, events=pa.table({JSON: texts}))
