"""The fast path takes nothing that is no JSON, and loses nothing to what is none."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from calve.convert import moment
from calve.convert.converter import Converted, Converter, ConvertOptions
from calve.convert.definition import schema_from_columns
from calve.convert.fast import FastPath
from calve.convert.moment import MismatchError
from calve.convert.select import compile_select
from calve.convert.stamps import read_stamps
from convert.tables import plain_rows, table_of

FLAT = [{"name": "s", "type": "string"}, {"name": "n", "type": "int"}, {"name": "d", "type": "double"}]
NESTED = [*FLAT, {"name": "list", "type": "list<string>"}]
GOOD = '{"s":"x","n":1,"d":0.5}'


def convert(converter: Converter, *events: str) -> Converted:
    return converter.convert(pa.table({"event": pa.array([event.encode() for event in events], pa.binary())}))


NO_JSON = [
    '{"s":"x","n":1,}',
    '{"s":"x","n":1 , \t}',
    '{"s":"x","n":1,\n} ',
    '{"s":nan,"n":1}',
    '{"s":NaN}',
    '{"s":-NAN,"n":1}',
    '{"s":inf}',
    '{"s":-iNf}',
    '{"s":Infinity,"n":1}',
    '{"s":-INFINITY}',
    '{"d":nan}',
    '{"s":"x","other":NaN}',
    '{"s":"x","other":[1,]}',
    '{"s":"x","other":{"a":-Infinity}}',
    '{"n":null,"other":[nan]}',
    '{"s":"x"',
    '{"s":"x"}}',
    '{"s":"x"}]',
    '{"s":',
    "no JSON at all",
    " ",
    "",
    "}",
]


@pytest.mark.parametrize("columns", [FLAT, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize("event", NO_JSON)
def test_what_is_no_json_is_malformed_and_spoils_no_other_event(columns, event):
    converter = Converter(table_of(schema_from_columns(columns)), ConvertOptions(look_for_unknown=True))
    for _ in range(3):  # what it met before makes the converter look closer
        found = convert(converter, GOOD, event, GOOD)
        assert [(one["row"], one["code"]) for one in found.rejects.to_pylist()] == [(1, "MALFORMED")]
        assert found.row.to_pylist() == [0, 2]
        assert [(row["s"], row["n"]) for row in plain_rows(found.rows)] == [("x", 1)] * 2


def test_a_value_without_a_proof_leaves_the_others_of_its_event_proven():
    events = [
        GOOD,
        '{"s":"x","n":1,"d":"much"}',
        '{"s":[1.50],"n":true,"d":0.5}',
        '{"s":"x","n":1.0,"d":0.5,"new":1}',
        '{"s":"x","n":1,"n":2,"d":"much"}',  # what is repeated or no JSON is said of the whole event
        '{"s":"x","d":"much",}',
        '{"s":',
        '{"s":"x","n":-0,"d":-0}',
        '{"other":1}',
        '{"s":"x","in":{"n":true}}',
    ]
    columns = [*FLAT, {"name": "in", "type": "struct<n: int>"}]
    path = FastPath(compile_select(schema_from_columns(columns)), case_insensitive=False)
    taken = path.take(pa.table({"event": pa.array(events).cast(pa.binary())}))
    assert taken.rows.tolist() == [0]
    assert taken.doubtful == {1: [2], 2: [0, 1], 3: [1], 7: [2]}


@pytest.mark.parametrize("mismatch", ["null", "dlq"])
def test_an_event_with_several_values_that_do_not_fit_is_one_reject_or_none(mismatch):
    columns = [*FLAT, {"name": "id", "type": "long", "required": True}]
    options = ConvertOptions(look_for_unknown=True, on_type_mismatch=mismatch)
    events = ['{"s":"x","n":"x","d":"x","id":1}', '{"n":"x","d":0.5,"id":"x","new":1}', '{"s":1.50,"d":"1e1","id":"7"}']
    found = convert(Converter(table_of(schema_from_columns(columns)), options), *events)
    good = [{"s": "x", "n": None, "d": None, "id": 1}] if mismatch == "null" else []
    assert plain_rows(found.rows) == [*good, {"s": "1.50", "n": None, "d": 10.0, "id": 7}]
    rejects = [(one["row"], one["code"], one["field"]) for one in found.rejects.to_pylist()]
    assert rejects == ([(1, "NOT_COERCIBLE", "id")] if good else [(0, "NOT_COERCIBLE", "n"), (1, "NOT_COERCIBLE", "n")])
    assert found.nulled == ({"n": 1, "d": 1} if good else {})
    assert found.unknown is None  # only a rejected event has a new field


@pytest.mark.parametrize("text", ["nan", "NaN", "-inf", "Infinity", "info", "Nina", "-", "12", "1e5", "0", "{", ""])
def test_a_string_stays_what_it_is_whatever_it_looks_like(text):
    converter = Converter(table_of(schema_from_columns(FLAT)))
    for event in (f'{{"s":"{text}"}}', f'{{ "s" : "{text}" }} ', f'{{"other":1,"s":"{text}"}}'):
        assert [row["s"] for row in plain_rows(convert(converter, event, GOOD).rows)] == [text, "x"]


@pytest.mark.parametrize("digits", [6, 9])
def test_date_times_are_read_as_one_by_one_or_not_proven(digits):
    rnd = random.Random(digits)
    stamps = [stamp(rnd, digits) for _ in range(20_000)]
    texts = [spoiled(rnd, text) if rnd.random() < 0.3 else text for text in stamps]
    values, proven = read_stamps(pa.array(texts, pa.large_string()).slice(5), digits)
    assert np.count_nonzero(proven) > 1000
    for before, text, value, sure in zip(stamps[5:], texts[5:], values.tolist(), proven.tolist(), strict=True):
        expected = one(text, digits)
        assert not sure or value == expected, text
        assert sure or before != text or expected is None, text


def stamp(rnd: random.Random, digits: int) -> str:
    year = rnd.choice([0, 1, 1600, 1678, 1900, 2000, 2024, 2026, 2261, 9999, rnd.randrange(10_000)])
    date = f"{year:04d}-{rnd.randrange(14):02d}-{rnd.randrange(33):02d}"
    text = f"{date}T{rnd.randrange(25):02d}:{rnd.randrange(61):02d}:{rnd.randrange(61):02d}"
    fraction = "".join(rnd.choice("0123456789") for _ in range(rnd.randrange(digits + 1)))
    return f'"{text}{"." if fraction else ""}{fraction}{rnd.choice(["", "Z"])}"'


def spoiled(rnd: random.Random, text: str) -> str:
    at = rnd.randrange(len(text))
    return text[:at] + chr(rnd.randrange(32, 127)) + text[at + 1 :]


def one(text: str, digits: int) -> int | None:
    """Read one date-time as the exact converter does; None if it cannot be read, or does not fit into nanoseconds."""
    try:
        value = moment.timestamp(text[1:-1], 10**digits)
    except MismatchError:
        return None
    return value if digits == 6 or 1677 < int(text[1:5]) < 2262 else None
