"""Which events hold a number that a double, or 64 bits, may not keep, seen from the bytes of their JSON."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.convert.kinds import NUMBER
from calve.convert.select import literal
from calve.event import duck
from calve.event.columns import JSON
from calve.event.scan import Texts

__all__ = ["LongNumbers", "long_numbers", "with_extreme_exponents"]

_Rows = npt.NDArray[np.int64]
_FEW = 64  # a query costs as much as to read so many events one by one
_DIGITS = 16  # fewer always survive a double
_BARE = "regexp_replace(regexp_replace(regexp_replace({0}, '[eE].*$', ''), '[^0-9]', '', 'g'), '^0+|0+$', '', 'g')"
_EXTREME = r"[\[:,\s]-?[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{3}"
_SQL = f"""
WITH found AS (SELECT row, unnest(regexp_extract_all(json, '[-+.eE0-9]{{{_DIGITS},}}')) AS number FROM events)
SELECT row,
    CASE WHEN contains(number, '.') OR contains(lower(number), 'e')
         THEN {_BARE.format("number")} <> {_BARE.format("try_cast(number AS DOUBLE)::VARCHAR")}
         ELSE try_cast(number AS BIGINT) IS NULL END AS lost,
    try_cast(try_cast(number AS BIGINT)::DOUBLE AS HUGEINT) <> try_cast(number AS BIGINT) AS wide
FROM found WHERE regexp_full_match(number, {literal(NUMBER)})
"""


class LongNumbers(NamedTuple):
    """Positions of events.

    Attributes:
        lost: Those that may hold a number with more digits than a double, or 64 bits if it is whole, keep.
        wide: Those that may hold a whole number of 64 bits that a double does not keep.
    """

    lost: _Rows
    wide: _Rows


def long_numbers(texts: pa.Array, scan: Texts) -> LongNumbers:
    """Find the events with numbers of many digits; digits within strings may be taken for numbers.

    Args:
        texts: JSON texts without nulls.
        scan: Their bytes.
    """
    rows = scan.digit_runs(_DIGITS, dotted=True)
    if len(rows) <= _FEW:
        return LongNumbers(rows, rows)
    events = pa.table({JSON: texts.take(pa.array(rows)), "row": pa.array(rows)})
    found = duck.run(_SQL, events=events)
    marked = [
        np.unique(duck.whole(found["row"]).filter(duck.whole(found[name]).fill_null(name == "lost")).to_numpy())
        for name in ("lost", "wide")
    ]
    return LongNumbers(*marked)


def with_extreme_exponents(texts: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which texts may hold a number that a double makes zero or infinite, or keeps fewer digits of."""
    mask: npt.NDArray[np.bool_] = pc.match_substring_regex(texts, _EXTREME).to_numpy(zero_copy_only=False)
    return mask
