"""The fast path: the rows of a table of events that the compiled SELECT converts, and can prove to be exact."""

from __future__ import annotations

from collections.abc import Callable
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
from calve.event.sound import as_text, is_same, valid_mask

__all__ = ["FastPath", "Rows", "Taken", "nothing"]

Rows = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Taken:
    """What the fast path takes.

    Attributes:
        found: What the SELECT gave, proven or not; None when it could not run.
        at: The positions of these rows in the input, ascending.
        good: Which of these rows are proven.
        rows: The positions of the proven rows in the input.
        unknown: The positions of those among them that have fields without a column.
    """

    found: pa.Table | None
    at: Rows
    good: _Mask
    rows: Rows
    unknown: Rows


def nothing(rows: int) -> Taken:
    """Take none of so many rows."""
    empty = np.zeros(0, np.int64)
    return Taken(None, empty, np.zeros(rows, bool), empty, empty)


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
        self._looks = 0

    def take(self, rows: pa.Table) -> Taken:
        """Convert what can be proven of a table with the column `event`, and `json` where `sound` has run."""
        texts, at = _texts(rows)
        found, read = self._run(texts)
        if found is None:
            return nothing(len(rows))
        good: _Mask = read & duck.whole(found["ok"]).to_numpy(zero_copy_only=False)
        scan = Texts(texts)
        if self.select.long_digits:
            good[scan.long_digits()] = False
        found = finish(self.select, found, texts, good)
        look = closer_look(self._shapes, found, scan, texts, good)
        good[look.slow] = False
        if JSON not in rows.column_names:
            good[self._lenient(scan, texts, look.odd)] = False
        if self._leave_unknown:
            good[look.unknown] = False
        return Taken(found, at, good, at[good], at[look.unknown[good[look.unknown]]])

    def _lenient(self, scan: Texts, texts: pa.Array, odd: Rows) -> Rows:
        """Name the rows that DuckDB may have read although they are no JSON.

        Where all values are plain ones of columns, they are proven, and only what follows the last one is left to see.
        """
        if not self.select.is_flat:
            return scan.lenient()
        doubtful = np.union1d(odd, scan.odd_ends())
        return doubtful[Texts(texts.take(pa.array(doubtful))).lenient()] if len(doubtful) else doubtful

    def _run(self, texts: pa.Array) -> tuple[pa.Table | None, _Mask]:
        """Run the SELECT and say for which rows; DuckDB throws for all when one is no JSON: then look at them first."""
        for look in _LOOKS[self._looks :]:
            mask = look(texts) if look else np.ones(len(texts), bool)
            read = _only(texts, mask) if look else texts
            try:
                return duck.run(self.select.sql, events=pa.table({JSON: read})), mask
            except duckdb.InvalidInputException:
                self._looks = min(self._looks + 1, len(_LOOKS) - 1)
        return None, np.zeros(len(texts), bool)


def _texts(rows: pa.Table) -> tuple[pa.Array, Rows]:
    """Give the texts that can be read and are those of the events, and their positions."""
    events = as_text(rows[EVENT])
    texts, sure = events, events.is_valid()
    if JSON in rows.column_names:
        texts = as_text(rows[JSON])
        if not is_same(texts, events):
            sure = pc.fill_null(pc.equal(texts, events), False)
    at = np.flatnonzero(sure.to_numpy(zero_copy_only=False))
    return _pick(texts, at), at


def _pick(texts: pa.Array, at: Rows) -> pa.Array:
    return texts if len(at) == len(texts) else texts.take(pa.array(at))


def _only(texts: pa.Array, mask: _Mask) -> pa.Array:
    """Give the texts with nulls in place of all others, without a copy."""
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    _, ends, data = texts.buffers()
    if texts.offset:
        ends = ends.slice(texts.offset * (8 if pa.types.is_large_string(texts.type) else 4))
    return pa.Array.from_buffers(texts.type, len(texts), [bits, ends, data])


def _closed(texts: pa.Array) -> _Mask:
    """Say which texts look like objects from both ends; most that are no JSON are no objects, or were cut."""
    return Texts(texts).closed()


_LOOKS: tuple[Callable[[pa.Array], _Mask] | None, ...] = (None, _closed, valid_mask)
