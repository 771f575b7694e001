"""Which events are duplicates: the values of keys, what lacks them, and what `aggregate` says otherwise."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from calve.event.columns import EVENT
from calve.pipeline.plugins import PLUGINS
from calve.processors.chain import Chain, Processed, compiled
from calve.processors.deduplicate import identity
from calve.processors.key_filter import KeyFilter
from calve.settings import parse_text
from calve.settings.problems import SettingsErrors
from kit.examples import examples
from processors.chains import BEGUN_TENTHS, plugins
from processors.test_program import hostile

DEDUPLICATE = {"deduplicate": {"keys": ["id"]}}
REMOVE = {"aggregate": {"identification_keys": ["id"], "action": {"remove_duplicates": None}}}


def processed(processors: list[dict[str, Any]], *texts: str) -> Processed:
    steps = compiled(plugins(*processors), ())
    assert steps
    assert steps.memory
    chain = Chain(steps, BEGUN_TENTHS, key_filter=KeyFilter(steps.memory, BEGUN_TENTHS))
    return chain.run(pa.table({EVENT: pa.array([text.encode() for text in texts], pa.binary())}))


def passing(processors: list[dict[str, Any]], *texts: str) -> list[str]:
    return [text.decode() for text in processed(processors, *texts).rows[EVENT].to_pylist()]


VALUES = (
    ("1", "1 "),
    ("1.0", "1.00", "10e-1", "0.1E1", "1e0"),
    ('"1"', '"\\u0031"'),
    ('"1.0"',),
    ("-1",),
    ("0", "-0"),
    ("0.0", "0e9"),
    ("9007199254740993",),
    ("9007199254740992",),
    ("0.1",),
    ("0.1000000000000000055511151231257827",),
    ("1e400",),
    ("1e401", "10e400"),
    ("true",),
    ("false",),
    ('"true"',),
    ('""',),
    ("[]",),
    ("{}",),
    ('"é"', '"\\u00e9"'),
    ('"e\\u0301"', '"e\u0301"'),
    ('"\\ud83d\\ude00"', '"\U0001f600"'),
    ('"\\ud83d"',),
    ('"a/b"', '"a\\/b"'),
    ('{"a": 1, "b": [1.50, null]}', '{"b":[15e-1,null],"a":1}'),
    ('{"a": 1, "b": [1.5]}',),
    ('{"a": 1.0, "b": [1.5, null]}',),
    ("[1,2]", "[1, 2]"),
    ("[2,1]",),
    (f'"{"x" * 100_000}"',),
    (f'"{"x" * 100_001}"',),
    (f"1{'0' * 5000}",),
    (f"1{'0' * 5000}.0", "1e5000"),
)
"""Groups of texts: those of one group are the same value, all others are different."""


def test_values_are_the_same_exactly_if_they_mean_the_same() -> None:
    texts = [text for group in VALUES for text in group]
    found = passing([DEDUPLICATE], *(f'{{"id":{text}}}' for text in texts))
    assert found == [f'{{"id":{group[0]}}}' for group in VALUES]


@pytest.mark.parametrize("text", ["1e99999999999999999999", f"1e{'9' * 5000}", f"{'[' * 2000}{']' * 2000}"])
def test_values_that_no_reader_takes_apart_are_the_same_if_their_texts_are(text: str) -> None:
    assert identity(msgspec.Raw(text.encode())) == text.encode()


def test_keys_in_objects_and_several_keys_count_together() -> None:
    step = {"deduplicate": {"keys": ["user/id", "/kind"]}}
    same = ['{"user":{"id":1},"kind":"a"}', '{"kind":"a","user":{"id":1,"x":2}}']
    other = ['{"user":{"id":1},"kind":"b"}', '{"user":{"id":"1,a"},"kind":""}', '{"user":{"id":"1"},"kind":"a"}']
    assert passing([step], *same, *other, *same) == [same[0], *other]
    turned = {"deduplicate": {"keys": ["kind", "user/id", "kind"]}}
    assert passing([turned], *same) == [same[0]]


def test_an_event_without_one_of_the_keys_is_never_a_duplicate() -> None:
    events = ['{"a":1}', '{"a":1}', '{"id":null}', '{"id":null}', "{}"]
    assert passing([DEDUPLICATE], *events) == events


def test_a_missing_key_of_aggregate_counts_as_null_and_null_is_a_group() -> None:
    events = ['{"a":1}', '{"id":null,"a":2}', '{"id":0}', "{}", '{"id":"null"}']
    assert passing([REMOVE], *events) == [events[0], events[2], events[4]]


def test_events_that_a_condition_excludes_pass_and_are_not_remembered() -> None:
    events = ['{"id":1,"k":0}', '{"id":1,"k":1}', '{"id":1,"k":1,"n":2}', '{"id":1,"k":0}']
    for step, name in ((DEDUPLICATE, "deduplicate_when"), (REMOVE, "aggregate_when")):
        [(kind, options)] = step.items()
        assert passing([{kind: {**options, name: "/k == 1"}}], *events) == [events[0], events[1], events[3]]


def test_the_first_event_of_a_group_gets_the_tag() -> None:
    step = {"aggregate": {**REMOVE["aggregate"], "aggregated_events_tag": "first", "local_mode": True}}
    found = processed([step], '{"id":1}', '{"id":1}', '{"id":2}')
    assert [json.loads(text) for text in found.rows["tags"].to_pylist()] == [["first"], ["first"]]


def test_equal_processors_remember_their_own_keys() -> None:
    events = ['{"id":1,"b":1}', '{"id":2,"b":1}', '{"id":1,"b":2}']
    assert passing([DEDUPLICATE, DEDUPLICATE], *events) == events[:2]
    assert passing([DEDUPLICATE, {"deduplicate": {"keys": ["b"]}}], *events) == events[:1]


def test_a_processor_never_takes_over_the_keys_of_another_condition() -> None:
    first, second = ({"deduplicate": {"keys": ["id"], "deduplicate_when": f"/k == {k}"}} for k in (1, 2))
    hashes = []
    for steps in ([first, second], [second]):
        processors = compiled(plugins(*steps), ())
        assert processors
        assert processors.memory
        key_filter = KeyFilter(processors.memory, BEGUN_TENTHS)
        texts = [b'{"id":1,"k":1}', b'{"id":1,"k":2}']
        Chain(processors, BEGUN_TENTHS, key_filter=key_filter).run(pa.table({EVENT: pa.array(texts, pa.binary())}))
        hashes.append(key_filter._new)
    assert len(hashes[0]) == 2
    assert len(hashes[1]) == 1
    assert hashes[1] < hashes[0], "the same key, whatever is before"


@pytest.mark.parametrize("before", [[], [{"rename_keys": {"entries": [{"from_key": "n", "to_key": "m"}]}}]])
def test_the_first_event_of_a_key_in_the_order_of_the_source_passes(before: list[dict[str, Any]]) -> None:
    """Events that the compiled core leaves to Python keep their place, malformed ones are dead letters."""
    odd = ['{"id":1,"id":7,"o":1}', '{"id":9,"x":"\\ud800"}', "{"]
    events = [text for number in range(3000) for text in (odd[number % 3], f'{{"id":{number % 9},"o":"{number}"}}')]
    found = processed([*before, DEDUPLICATE], *events)
    first = {json.loads(text)["id"]: at for at, text in reversed([*enumerate(events)]) if text != "{"}
    assert found.rows[EVENT].to_pylist() == [events[at].encode() for at in sorted(first.values())]
    assert len(found.malformed) == events.count("{")
    assert found.dropped == len(events) - events.count("{") - len(first)


@pytest.mark.parametrize("seed", range(3))
def test_duplicates_are_the_same_at_once_and_event_by_event(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(examples(15)):
        chance = random.Random(seed * 1000 + number)
        texts = [hostile(chance) for _ in range(chance.randrange(40))]
        chosen: list[dict[str, Any]] = [
            {"deduplicate": {"keys": chance.sample(["a", "m", "o/a", "l/0", "zz"], chance.randrange(1, 3))}}
            if chance.random() < 0.7
            else {"aggregate": {**REMOVE["aggregate"], "identification_keys": [chance.choice("amo")]}}
            for _ in range(chance.randrange(1, 3))
        ]
        if chance.random() < 0.5:
            renamed = {"rename_keys": {"entries": [{"from_key": "m", "to_key": "a"}]}}
            chosen.insert(chance.randrange(len(chosen) + 1), renamed)
        at_once = processed(chosen, *texts)
        with monkeypatch.context() as patched:
            patched.setattr(KeyFilter, "repeated", lambda *given: None)
            one_by_one = processed(chosen, *texts)
        tables = [(each.rows, each.malformed, each.failed, each.failed_rows) for each in (at_once, one_by_one)]
        assert [table.to_pylist() for table in tables[0]] == [table.to_pylist() for table in tables[1]]
        assert (at_once.dropped, at_once.added) == (one_by_one.dropped, one_by_one.added), (chosen, texts)


def test_a_replay_of_dead_letters_drops_nothing() -> None:
    steps = compiled(plugins(DEDUPLICATE), ())
    assert steps
    rows = pa.table({EVENT: pa.array([b'{"id":1}'] * 2, pa.binary())})
    assert len(Chain(steps, BEGUN_TENTHS).run(rows).rows) == 2


def test_streams_of_changes_and_fed_pipelines_do_not_take_it() -> None:
    sink = [{"iceberg": {"table_identifier": "a.b", "auto_create": True}}]
    stream = {"file": {"path": "x", "codec": {"debezium": {}}}}
    pipelines = {
        "changes": {"source": stream, "processor": [DEDUPLICATE], "sink": sink},
        "first": {"source": {"http": {}}, "sink": [{"pipeline": {"name": "second"}}]},
        "second": {"source": {"pipeline": {"name": "first"}}, "processor": [REMOVE], "sink": sink},
    }
    with pytest.raises(SettingsErrors) as refused:
        parse_text(json.dumps(pipelines), PLUGINS)
    messages = str(refused.value)
    assert "in a stream of changes these are later changes" in messages
    assert "put it into first, with a condition" in messages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"action": {"put_all": {}}}, "put_all holds events back until their group ends.*only remove_duplicates"),
        ({"action": {"rate_limiter": {"events_per_second": 1}}}, "rate_limiter depends on the second"),
        ({"action": {"remove_duplicate": {}}}, "did you mean remove_duplicates"),
        ({"action": "remove_duplicates"}, "must be one action"),
        ({"action": {"remove_duplicates": {"x": 1}}}, "has no options"),
        ({"action": {"remove_duplicates": {}}, "output_unaggregated_events": True}, "would let the duplicates pass"),
        ({"action": {"remove_duplicates": {}}, "group_duration": "0s"}, "group_duration"),
        ({"action": {"remove_duplicates": {}}, "identification_keys": []}, "identification_keys"),
        ({}, "action: is required"),
    ],
)
def test_what_cannot_be_exact_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsErrors, match=message):
        plugins({"aggregate": {"identification_keys": ["id"], **options}})
