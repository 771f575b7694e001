"""The fast path: the rows of a table of events that the compiled SELECT converts, and can prove to be exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.convert.given import Given
from calve.convert.keys import Shapes, closer_look
from calve.convert.proof import Finished, finish
from calve.convert.select import Select
from calve.convert.unknown import NO_UNKNOWN, UnknownFields
from calve.event import duck
from calve.event.columns import EVENT, JSON
from calve.event.scan import Texts
from calve.event.sound import as_text, is_same, valid_mask
from calve.event.strict import DEEPEST

__all__ = ["FastPath", "Rows", "Taken", "nothing"]

Rows = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Taken:
    """What the fast path takes.

    Attributes:
        found: What the SELECT gave, proven or not; None when it could not run.
        at: The positions of these rows in the input, ascending.
        good: Which of these rows are proven.
        doubtful: The positions of rows that are proven but for some columns' values; the numbers of these columns.
        unknown: The proven rows that have fields without a column.
    """

    found: pa.Table | None
    at: Rows
    good: _Mask
    doubtful: dict[int, list[int]]
    unknown: UnknownFields

    @property
    def rows(self) -> Rows:
        """The positions of the proven rows in the input."""
        return self.at[self.good]


def nothing() -> Taken:
    """Take none of some rows."""
    return Taken(None, _NONE, np.zeros(0, bool), {}, NO_UNKNOWN)


class FastPath:
    """Runs a compiled SELECT and looks after its proofs.

    Args:
        select: The statement.
        case_insensitive: Whether a field may match a column by case only; such rows are not taken.
    """

    def __init__(self, select: Select, case_insensitive: bool) -> None:
        self.select = select
        self._numbers = {leaf.column: number for number, leaf in enumerate(select.root.leaves)}
        self._shapes = Shapes(select, case_insensitive)
        self._looks = 0

    def take(self, rows: pa.Table) -> Taken:
        """Convert what can be proven of a table with the column `event`, and `json` where `sound` has run."""
        texts, at = _texts(rows)
        ran = self._run(texts)
        if ran is None:
            return nothing()
        found, given = ran
        good: _Mask = duck.whole(found["ok"]).to_numpy(zero_copy_only=False)
        if self.select.long_digits:
            good[given.rows(given.scan.long_digits())] = False
        finished = finish(self.select, found, given, good)
        for name in finished.doubtful.keys() - self._numbers.keys():  # inside a struct
            good[finished.doubtful[name]] = False
        look = closer_look(self._shapes, found, given, good)
        good[look.slow] = False
        if JSON not in rows.column_names:
            good[self._lenient(given, look.odd)] = False
        at = at[given.at]
        doubtful = self._doubtful(finished, at, good)
        unknown = look.unknown.take(good[look.unknown.rows])
        return Taken(finished.rows, at, good, doubtful, unknown._replace(rows=at[unknown.rows]))

    def _doubtful(self, finished: Finished, at: Rows, good: _Mask) -> dict[int, list[int]]:
        """Take the rows with values that are not proven out of the good ones, and give `Taken.doubtful`."""
        sound, found = good.copy(), dict[int, list[int]]()
        for name, number in self._numbers.items():
            rows = finished.doubtful.get(name, _NONE)
            rows = rows[sound[rows]]
            good[rows] = False
            for position in at[rows].tolist():
                found.setdefault(position, []).append(number)
        return found

    def _lenient(self, given: Given, odd: Rows) -> Rows:
        """Name the rows that DuckDB may have read although they are no JSON, or nested too deeply.

        Where all values are plain ones of columns, they are proven or will be read again, and only what follows the
        last one is left to see.
        """
        deep = given.scan.deep(DEEPEST)
        if not self.select.is_flat:
            return given.rows(np.union1d(given.scan.lenient(), deep))
        strange = np.union1d(odd, given.rows(given.scan.odd_ends()))
        found = strange[Texts(given.events(strange)).lenient()] if len(strange) else strange
        return np.union1d(found, given.rows(deep))

    def _run(self, texts: pa.Array) -> tuple[pa.Table, Given] | None:
        """Run the SELECT; DuckDB throws for all rows when one is no JSON: then look at them first, and leave it out."""
        scan = Texts(texts)
        for look in _LOOKS[self._looks :]:
            mask = look(texts, scan)
            try:
                found = duck.run(self.select.sql, events=pa.table({JSON: _only(texts, mask)}))
                return found, Given(texts, scan, np.flatnonzero(mask))
            except duckdb.InvalidInputException:
                self._looks = min(self._looks + 1, len(_LOOKS) - 1)
        return None


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
    if mask.all():
        return texts
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    _, ends, data = texts.buffers()
    if texts.offset:
        ends = ends.slice(texts.offset * (8 if pa.types.is_large_string(texts.type) else 4))
    return pa.Array.from_buffers(texts.type, len(texts), [bits, ends, data])


# Most texts that are no JSON are no objects, or were cut.
_LOOKS: tuple[Callable[[pa.Array, Texts], _Mask], ...] = (
    lambda texts, _: np.ones(len(texts), bool),
    lambda _, scan: scan.closed(),
    lambda texts, _: valid_mask(texts),
)
