"""Events that tell nothing new need no closer look: inference gives the same with and without knowing others."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.convert import infer as module
from calve.convert.familiar import familiar
from calve.convert.infer import Inferred, infer
from convert.events import Maker
from convert.test_infer import rows_of
from examples import examples

MOMENTS = [
    '"2026-01-02T03:04:05Z"', '"2026-01-02 03:04:05.123456000+0100"', '"2026-01-02T03:04:05.123456789Z"', '"2026-01-02"',
    '"2026-02-29T00:00:00Z"', '"2024-02-29T00:00"', '"2026\\u002d01-02T03:04:05Z"', '"9999-12-31T23:59:59.999999Z"',
]  # fmt: skip
VALUES = [
    "1", "-5", "0", "-0", "1.5", "1e3", "1E-400", "12.0", "true", "false", '"x"', '""', '"1.5"', '"true"', "null", "{}", "[]",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "123456789012345678", "1" * 30, '{"a":1}',
    '{"a":2.5}', '{"a":null}', '{"a":1,"a":2}', '{"b":"x","a":{"c":1}}', "[1]", "[1,2.5]", '["x"]', "[null]", "[[]]",
    '[{"a":1}]', '[{"a":1,"b":[]}]', "[1,]", "NaN", '{"a":1,}', '"a:\\":1"', '"\\ud800"',
    "9007199254740993", "9007199254740992", "-9007199254740994", "0.1234567890123456789", "12345678901234.567", "1e-320",
    "0.0", "1e22", "100000000000000000000.5", "[9007199254740993]", "[0.5,9007199254740993]", "[1e-400]", *MOMENTS,
    *(f"[{text},null]" for text in MOMENTS), *(f'{{"a":{text}}}' for text in MOMENTS), *(f'[{{"a":[{text}]}}]' for text in MOMENTS),
]  # fmt: skip
NAMES = ["a", "b", "c", "d", "e:", 'f\\"', "A", ""]
ODD = ["", "{", "[1]", "1", "null", "{}", ' {"a":1}', '{"a" : 1}', '{"a":1,"a":1}', '{"a":1,"b":null}', '{"A":1}', "[]"]


def some_event(rnd: random.Random, values: list[str]) -> str:
    if rnd.random() < 0.03:
        return rnd.choice(ODD)
    names = [name for name in NAMES if rnd.random() < (0.7 if name in "abcd" and name else 0.02)]
    return "{" + ",".join(f'"{name}":{rnd.choice(values)}' for name in names) + "}"


def assert_same_with_and_without(first: pa.Table, second: pa.Table) -> None:
    known = infer(first)
    expected = known.merge(infer(second)).to_json()
    assert known.merge(infer(second, known)).to_json() == expected
    read = Inferred.from_json(json.loads(json.dumps(known.to_json())))
    assert read.merge(infer(second, known=read)).to_json() == expected


@settings(max_examples=examples(30), deadline=None, database=None)
@given(seed=st.integers(0, 2**40), kinds=st.integers(1, len(VALUES)))
def test_knowing_earlier_events_changes_nothing_but_the_work(seed, kinds):
    rnd = random.Random(seed)
    values = rnd.sample(VALUES, kinds)
    assert_same_with_and_without(*(rows_of(*[some_event(rnd, values) for _ in range(60)]) for _ in range(2)))


@settings(max_examples=examples(12), deadline=None, database=None)
@given(seed=st.integers(0, 2**40))
def test_knowing_earlier_events_of_a_schema_changes_nothing_but_the_work(seed):
    maker = Maker(random.Random(seed))
    schema = maker.schema()
    assert_same_with_and_without(*(rows_of(*[maker.event(schema) for _ in range(40)]) for _ in range(2)))


@settings(max_examples=examples(12), deadline=None, database=None)
@given(seed=st.integers(0, 2**40), kinds=st.integers(1, len(VALUES)))
def test_many_events_are_inferred_like_few(seed, kinds):
    rnd = random.Random(seed)
    values = rnd.sample(VALUES, kinds)
    rows = rows_of(*[some_event(rnd, values) for _ in range(80)])
    expected = infer(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FIRST_LOOK", 20)
        assert infer(rows).to_json() == expected.to_json()


def test_what_is_familiar_is_proven_field_by_field():
    known = infer(
        rows_of('{"n":1,"x":1.5,"b":true,"s":"t","o":{"a":1,"p":{"q":1}},"l":[{"a":1.5}],"e":{},"z":null}')
    ).root
    told = [
        '{"n":-7,"x":2,"b":false,"s":"1:\\":2"}', '{"b":true,"n":0}', "{}", '{"s":"2026-01-02T03:04:05Z"}', '{"x":1e3}',
        '{"o":{"p":{},"a":-1}}', '{"o":{}}', '{"l":[{"a":1}]}', '{"x":0.0}', '{"x":9007199254740992}', '{"l":[]}', '{"l":[{}]}',
    ]  # fmt: skip
    new = [
        '{"n":1.5}', '{"s":1.5}', '{"s":{"new":1}}', '{"n":9007199254740993}', '{"x":9007199254740993}', '{"n":1e3}', '{"n":"1"}', '{"n":null}', '{"n":1,"n":2}', '{"new":1}', '{"b":1}', '{"x":"1"}', "[1]", "1",
        '{"o":{"new":1}}', '{"o":{"a":null}}', '{"o":1}', '{"o":{"p":{"q":true}}}', '{"l":[1]}', '{"l":[{"b":1}]}', '{"l":{}}',
        '{"e":{"a":1}}', '{"z":1}', '{"N":1}',
    ]  # fmt: skip
    assert familiar(pa.array(told), known).tolist()[:10] == [True] * 10
    assert not familiar(pa.array(new), known).any()
