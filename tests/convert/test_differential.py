"""The converter against a reference written from the design, over random schemas and events."""

from __future__ import annotations

import dataclasses
import os
import random
import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.columns.fields import ALL_FIELDS, Fields
from calve.columns.infer import infer
from calve.convert.converter import Converter, ConvertOptions
from calve.event.exact_json import MalformedError, dump, parse_object
from calve.event.validate_json import validated
from convert import reference
from convert.events import NAMES, Maker
from kit.tables import plain_rows, table_of

BATCHES = int(os.environ.get("CALVE_DIFFERENTIAL_BATCHES", "15"))
ROWS = int(os.environ.get("CALVE_DIFFERENTIAL_ROWS", "300"))
"""With the batches of both ways, over 100,000 values by default: 6.6 an event."""

LISTS = st.one_of(
    st.just(Fields()),
    st.builds(Fields, include=st.frozensets(st.sampled_from([*NAMES, "A", "ID", "new", ""]), min_size=1, max_size=6)),
    st.builds(Fields, exclude=st.frozensets(st.sampled_from([*NAMES, "A", "ID", "new", ""]), min_size=1, max_size=4)),
)


def through_parquet(rows: pa.Table) -> list[dict]:
    file = pa.BufferOutputStream()
    pq.write_table(rows, file)
    return plain_rows(pq.read_table(pa.BufferReader(file.getvalue())))


@pytest.mark.parametrize("through_validation", [False, True], ids=["alone", "after validation"])
@settings(max_examples=BATCHES, deadline=None, database=None)
@given(
    seed=st.integers(0, 2**40),
    mismatch=st.sampled_from(["null", "dlq"]),
    ci=st.booleans(),
    unknown=st.booleans(),
    fields=LISTS,
)
def test_random_events_become_what_the_design_says(through_validation, seed, mismatch, ci, unknown, fields):
    maker = Maker(random.Random(seed))
    schema = maker.schema()
    events = [maker.event(schema) for _ in range(ROWS)]
    lists = fields.include, fields.exclude
    expected = [reference.convert(event, schema, mismatch, ci, *lists, unknown) for event in events]
    rows = pa.table({"event": pa.array(events, pa.binary())})
    got: list[object] = [None] * ROWS
    positions = range(ROWS)
    if through_validation:
        found = validated(rows)
        for reject in found.rejects.to_pylist():
            got[reject["row"]] = ("reject", reject["code"])
        rows = found.rows
        positions = rows["row"].to_pylist()
    options = ConvertOptions(look_for_unknown=unknown, on_type_mismatch=mismatch, case_insensitive=ci, fields=fields)
    options = dataclasses.replace(options, count_ignored=not unknown)
    converted = Converter(table_of(schema), options, checks=False).convert(rows)  # each event alone
    nulled, ignored, repeats = Counter[str](), Counter[str](), (Counter[str](), Counter[str]())
    for row, values in zip(converted.row.to_pylist(), plain_rows(converted.rows), strict=True):
        got[positions[row]] = values
    for reject in converted.rejects.to_pylist():
        got[positions[reject["row"]]] = ("reject", reject["code"])
    for event, want, have in zip(events, expected, got, strict=True):
        if want[0] == "row":
            nulled.update(want[2])
            for counts, names in zip(repeats, reference.repeated(event, fields.include, fields.exclude), strict=True):
                counts.update(names)
            if not unknown:
                ignored.update(reference.ignored(event, schema, ci, fields.include, fields.exclude))
        assert repr(have) == repr(want[1] if want[0] == "row" else want), f"{event!r}\n{schema}"
    assert repr(through_parquet(converted.rows)) == repr(plain_rows(converted.rows))
    assert (converted.nulled, set(converted.reasons)) == (nulled, set(nulled))
    # Inside of a field that is not written, a repeated key is seen only where the event needs the exact converter.
    least, most = repeats
    found = {name: count for name, count in converted.ignored.items() if name.endswith(" (repeated)")}
    assert all(least[name] <= found.get(name, 0) <= most[name] for name in {*found, *least})
    assert {name: count for name, count in converted.ignored.items() if name not in found} == ignored
    assert converted.row.to_pylist() == sorted(converted.row.to_pylist())


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 33])
def test_a_part_of_a_table_converts_like_a_table_of_its_own(cut):
    maker = Maker(random.Random(cut))
    for _ in range(6):
        schema = maker.schema()
        events = [maker.event(schema) for _ in range(60)]
        converter = Converter(table_of(schema), ConvertOptions(look_for_unknown=True))
        part = converter.convert(pa.table({"event": pa.array(events, pa.binary())}).slice(cut, 20))
        own = converter.convert(pa.table({"event": pa.array(events[cut : cut + 20], pa.binary())}))
        assert repr(plain_rows(part.rows)) == repr(plain_rows(own.rows))
        assert (part.row.to_pylist(), part.rejects, part.nulled) == (own.row.to_pylist(), own.rejects, own.nulled)
        assert part.unknown == own.unknown


def without(event: bytes, fields: Fields) -> bytes:
    try:
        text = dump(fields.of(parse_object(event)))
    except MalformedError:
        return event
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text).encode()


@settings(max_examples=BATCHES, deadline=None, database=None)
@given(seed=st.integers(0, 2**40), ci=st.booleans(), fields=LISTS, data=st.data())
def test_a_field_that_is_not_written_is_as_if_it_were_not_there(seed, ci, fields, data):
    maker = Maker(random.Random(seed))
    schema = maker.schema()
    # Of a key that is repeated inference may take any value, and `without` leaves the last.
    events = [without(maker.event(schema), ALL_FIELDS) for _ in range(ROWS // 5)]
    whole = pa.table({"event": pa.array(events, pa.binary())})
    stripped = pa.table({"event": pa.array([without(event, fields) for event in events], pa.binary())})
    limit = 0 if data.draw(st.booleans()) else 1_000
    options = ConvertOptions(look_for_unknown=True, case_insensitive=ci, column_limit=limit)
    got = Converter(table_of(schema), dataclasses.replace(options, fields=fields)).convert(whole)
    want = Converter(table_of(schema), options).convert(stripped)
    assert repr(plain_rows(got.rows)) == repr(plain_rows(want.rows))
    assert (got.row, got.rejects, got.nulled, got.unknown) == (want.row, want.rejects, want.nulled, want.unknown)
    first = infer(whole.slice(0, 20), fields)
    assert first == infer(stripped.slice(0, 20))
    assert infer(whole.slice(20), fields).events == infer(stripped.slice(20)).events
    assert first.merge(infer(whole.slice(20), fields)) == infer(stripped)
