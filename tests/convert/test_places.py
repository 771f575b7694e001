"""The exact converter's rows take their places, whatever the SELECT made of them."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calve.convert.places import put

FLOATS = [0.0, -0.0, float("nan"), 1.5, None]
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "double": (pa.float64(), FLOATS),
    "float": (pa.float32(), FLOATS),
    "text": (pa.large_string(), ["", "a", "é", "b" * 50, None]),
    "number": (pa.int64(), [0, 1, -1, None]),
    "yes": (pa.bool_(), [True, False, None]),
    "inner": (pa.struct({"x": pa.float64()}), [{"x": each} for each in FLOATS] + [None]),
    "list": (pa.list_(pa.float64()), [[], [0.0], [-0.0], None]),
    "uuid": (pa.uuid(), [b"0" * 16, b"1" * 16, None]),
}


def table(chosen: random.Random, count: int) -> pa.Table:
    return pa.table({name: pa.array(chosen.choices(some, k=count), kind) for name, (kind, some) in KINDS.items()})


def plain(value: Any) -> Any:
    """Give a value that equals only itself: floats as their bits."""
    if isinstance(value, dict):
        return [plain(each) for each in value.values()]
    if isinstance(value, list):
        return [plain(each) for each in value]
    return struct.pack("<d", value) if isinstance(value, float) else value


@pytest.mark.parametrize("seed", range(60))
def test_each_row_is_the_exact_one_or_the_proven_one(seed: int) -> None:
    chosen = random.Random(seed)
    count = chosen.randrange(1, 40)
    at = np.array(sorted(chosen.sample(range(count), count if seed % 2 else chosen.randrange(count + 1))), np.int64)
    good = np.array([chosen.random() < 0.7 for _ in at], bool)
    rest = sorted({*range(count)} - {*at[good].tolist()})
    rows = np.array([row for row in rest if chosen.random() < 0.7], np.int64)
    fast, slow = table(chosen, len(at)), table(chosen, len(rows))
    if seed % 3 == 0 and set(rows.tolist()) <= set(at.tolist()):  # the exact values are there already, most of them
        there = fast.take(pa.array(np.searchsorted(at, rows)))
        slow = there.set_column(2, "text", slow["text"]) if seed % 2 else there
    wanted = {int(row): plain(fast.slice(number, 1).to_pylist()[0]) for number, row in enumerate(at) if good[number]}
    wanted |= {int(row): plain(slow.slice(number, 1).to_pylist()[0]) for number, row in enumerate(rows)}
    found, positions = put(fast, at, good, slow, rows)
    assert positions.tolist() == sorted(wanted)
    assert [plain(each) for each in found.to_pylist()] == [wanted[row] for row in sorted(wanted)]
    assert found.schema == fast.schema
    found.validate(full=True)
