"""The fields that routes ask for, of events that follow each other."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from calve.compiled.events import pick
from kit.compiled_core import needs_core

NAMES = ["a", "b"]
FEW = st.sampled_from(["a", "b", "c", "\\u0061"])
MANY = st.sampled_from([*"abc", *(f"k{number}" for number in range(30))])
VALUES = st.sampled_from(["1", '"x"', "null", "true", '{"a":1}', '{"a":1,"a":2}', "[1"])
COLONS = st.sampled_from([":", " :", ": ", "\t:\n"])
EVENTS = st.lists(
    st.lists(st.tuples(FEW, VALUES), max_size=4)
    | st.lists(st.tuples(MANY, VALUES), max_size=20, unique_by=lambda one: one[0]),
    max_size=12,
)


def expected(text: str) -> dict[str, object] | None:
    """Return the wanted fields of an event; None if it is no JSON object, or an object of it repeats a key."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError
        return found

    try:
        event = json.loads(text, object_pairs_hook=unique)
    except ValueError:
        return None
    return {name: event[name] for name in NAMES if name in event}


@needs_core
@given(EVENTS, COLONS, COLONS)
def test_each_event_has_its_own_fields_whatever_keys_the_events_before_it_had(events, one, other):
    colons = [one, other, one]
    texts = [
        "{" + ",".join(f'"{key}"{colons[(row + len(key)) % 3]}{value}' for key, value in event) + "}"
        for row, event in enumerate(events)
    ]
    texts = [text for text in texts for _ in range(2)]
    numbers, found = pick(pa.array([text.encode() for text in texts], pa.binary()), NAMES)
    picked = [None if number < 0 else json.loads(found[number].as_py()) for number in numbers.to_pylist()]
    assert picked == [expected(text) for text in texts]


@needs_core
def test_thousands_of_different_fields_are_told_apart():
    values = [f"{number % 5000:x}" * (number % 7 + 1) for number in range(20_000)]
    numbers, found = pick(pa.array([json.dumps({"a": value, "c": 1}).encode() for value in values]), NAMES)
    assert [json.loads(found[number].as_py()) for number in numbers.to_pylist()] == [{"a": value} for value in values]
    assert len(found) == len(set(values))
