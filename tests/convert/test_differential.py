"""The converter against a reference written from the design, over random schemas and events."""

from __future__ import annotations

import os
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.convert.converter import Converter, ConvertOptions
from calve.event.sound import sound
from convert import reference
from convert.events import Maker
from convert.tables import plain_rows, table_of

BATCHES = int(os.environ.get("CALVE_DIFFERENTIAL_BATCHES", "40"))
ROWS = int(os.environ.get("CALVE_DIFFERENTIAL_ROWS", "60"))


@pytest.mark.parametrize("through_sound", [False, True], ids=["alone", "after sound"])
@settings(max_examples=BATCHES, deadline=None, database=None)
@given(seed=st.integers(0, 2**40), mismatch=st.sampled_from(["null", "dlq"]), ci=st.booleans(), unknown=st.booleans())
def test_random_events_become_what_the_design_says(through_sound, seed, mismatch, ci, unknown):
    maker = Maker(random.Random(seed))
    schema = maker.schema()
    events = [maker.event(schema) for _ in range(ROWS)]
    expected = [reference.convert(event, schema, mismatch, ci) for event in events]
    rows = pa.table({"event": pa.array(events, pa.binary())})
    got: list[object] = [None] * ROWS
    positions = range(ROWS)
    if through_sound:
        found = sound(rows)
        for reject in found.rejects.to_pylist():
            got[reject["row"]] = ("reject", reject["code"])
        rows = found.rows
        positions = rows["row"].to_pylist()
    options = ConvertOptions(look_for_unknown=unknown, on_type_mismatch=mismatch, case_insensitive=ci)
    converted = Converter(table_of(schema), options).convert(rows)
    nulled: dict[str, int] = {}
    for row, values in zip(converted.row.to_pylist(), plain_rows(converted.rows), strict=True):
        got[positions[row]] = values
    for reject in converted.rejects.to_pylist():
        got[positions[reject["row"]]] = ("reject", reject["code"])
    for event, want, have in zip(events, expected, got, strict=True):
        if want[0] == "row":
            for name in want[2]:
                nulled[name] = nulled.get(name, 0) + 1
        assert repr(have) == repr(want[1] if want[0] == "row" else want), f"{event!r}\n{schema}"
    assert converted.nulled == nulled
    assert converted.row.to_pylist() == sorted(converted.row.to_pylist())


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 33])
def test_a_part_of_a_table_converts_like_a_table_of_its_own(cut):
    maker = Maker(random.Random(cut))
    for _ in range(10):
        schema = maker.schema()
        events = [maker.event(schema) for _ in range(60)]
        converter = Converter(table_of(schema), ConvertOptions(look_for_unknown=True))
        part = converter.convert(pa.table({"event": pa.array(events, pa.binary())}).slice(cut, 20))
        own = converter.convert(pa.table({"event": pa.array(events[cut : cut + 20], pa.binary())}))
        assert repr(plain_rows(part.rows)) == repr(plain_rows(own.rows))
        assert (part.row.to_pylist(), part.rejects, part.nulled) == (own.row.to_pylist(), own.rejects, own.nulled)
        assert part.unknown == own.unknown
