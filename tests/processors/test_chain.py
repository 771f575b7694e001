"""Laws of all processors: what they do not touch stays, nothing is lost, and every dead letter has the original event."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.event.columns import EVENT, ORIGINAL, PART
from calve.event.envelope.decoder import EnvelopeDecoder, Envelopes
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.settings.problems import SettingsErrors
from processors.chains import chain, plugins, run

ADD = {"add_entries": {"entries": [{"key": "b", "value": 1}]}}
DROP = {"drop_events": {"drop_when": '/level == "DEBUG"'}}
SPLIT = {"split_event": {"field": "query", "delimiter": " "}}
EXACT = '{ "a" : 123456789012345678901234567890.10, "x":[1.50 , 1E400],"level":"\\u00e9" }'


def to_integer(key: str) -> dict[str, Any]:
    return {"convert_type": {"key": key}}


def test_an_event_that_no_processor_touches_keeps_its_bytes() -> None:
    untouched = [DROP, to_integer("absent"), {"rename_keys": {"entries": [{"from_key": "c", "to_key": "d"}]}}]
    assert run(untouched, EXACT, '{"level":"DEBUG"}').texts == [EXACT]


def test_values_that_no_processor_touches_keep_their_text() -> None:
    [found] = run([ADD], EXACT).texts
    assert found == '{"a":123456789012345678901234567890.10,"x":[1.50 , 1E400],"level":"\\u00e9","b":1}'


def test_without_any_condition_that_is_true_no_event_is_decoded() -> None:
    rows = pa.table({EVENT: pa.array([EXACT.encode()] * 3, pa.binary())})
    processed = chain(DROP, {"add_entries": {"entries": [{"key": "b", "value": 1, "add_when": "/c == 1"}]}}).run(rows)
    buffers = [one.chunk(0).buffers()[2].address for one in (rows[EVENT], processed.rows[EVENT])]
    assert buffers[0] == buffers[1]


def test_malformed_events_become_dead_letters_unchanged() -> None:
    found = run([ADD], '{"a":', b'{"a":"\xff"}', "[1]", '{"a":1}')
    assert found.events == [{"a": 1, "b": 1}]
    assert [one["code"] for one in found.failed] == ["MALFORMED"] * 3
    assert [one["event"] for one in found.failed][::2] == ['{"a":', "[1]"]


def test_of_a_repeated_key_the_last_value_counts() -> None:
    assert run([ADD], '{"a":1,"a":2}').events == [{"a": 2, "b": 1}]


def test_a_condition_sees_what_earlier_processors_did() -> None:
    later = {"add_entries": {"entries": [{"key": "c", "value": 2, "add_when": "/b == 1"}]}}
    assert run([later, ADD, later], {"a": 0}).events == [{"a": 0, "b": 1, "c": 2}]


def test_events_of_typed_rows_lose_the_schema_if_what_they_become_is_not_known() -> None:
    schema = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["{}"]))
    found = run([{"flatten": {"source": "a", "target": ""}}], {"a": {"b": 1}}, _schema=schema)
    assert found.processed.rows["_schema"].to_pylist() == [None]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_condition_decides_alike_for_many_events_at_once(is_first: bool) -> None:
    drop = {"drop_events": {"drop_when": "/n in {1, 1500, 2500}"}}
    events = [{"n": number % 2000} for number in range(3000)]
    found = run([drop] if is_first else [ADD, drop], *events)
    assert [one["n"] for one in found.events] == [one["n"] for one in events if one["n"] not in (1, 1500, 2500)]
    assert found.processed.dropped == 3


def test_conditions_read_metadata() -> None:
    processor = {"drop_events": {"drop_when": 'getMetadata("topic") == "a"'}}
    found = run([processor], {"n": 1}, {"n": 2}, topic=pa.array(["a", "b"]))
    assert (found.events, found.processed.dropped) == ([{"n": 2}], 1)


def test_drop_events() -> None:
    """The example of Data Prepper's documentation: filter debug logs."""
    levels = ["DEBUG", "INFO", "ERROR", "WARN"]
    found = run([DROP], *({"level": level} for level in levels))
    assert [one["level"] for one in found.events] == levels[1:]
    assert found.processed.dropped == 1
    assert run([{"drop_events": {"drop_when": "true"}}], {"a": 1}).events == []


@pytest.mark.parametrize(("handling", "left"), [("skip", 3), ("skip_silently", 3), ("drop", 1), ("drop_silently", 1)])
def test_events_for_which_the_condition_cannot_be_evaluated(handling: str, left: int) -> None:
    processor = {"drop_events": {"drop_when": "/a + 1 > 5", "handle_failed_events": handling}}
    outcome = run([processor], {"a": 9}, {"a": 1}, {}, {"a": "text"})
    assert (len(outcome.events), outcome.processed.dropped) == (left, 4 - left)


def test_drop_events_by_several_conditions() -> None:
    """The example of Data Prepper's documentation."""
    when = '/level == "DEBUG" or /status_code >= 400 or /user_id == null'
    events = [
        {"level": "DEBUG", "status_code": 200, "user_id": "u"},
        {"level": "INFO", "status_code": 500, "user_id": "u"},
        {"level": "INFO", "status_code": 200},
        {"level": "INFO", "status_code": 201, "user_id": "u"},
    ]
    assert run([{"drop_events": {"drop_when": when}}], *events).events == events[3:]


def test_split_event() -> None:
    """The example of Data Prepper's documentation."""
    found = run(
        [SPLIT], {"query": "open source", "some_other_field": "abc"}, {"query": "one"}, {"query": [1, {"a": 2}]}
    )
    assert found.events == [
        {"query": "open", "some_other_field": "abc"},
        {"query": "source", "some_other_field": "abc"},
        {"query": "one"},
        {"query": 1},
        {"query": {"a": 2}},
    ]
    assert found.processed.added == 2
    assert found.processed.rows[PART].to_pylist() == ["0", "1", None, "0", "1"]


def test_the_parts_of_an_event_share_nothing() -> None:
    inside = {"rename_keys": {"entries": [{"from_key": "o/a", "to_key": "o/b"}]}}
    upper = {"uppercase_string": {"with_keys": ["o/b"]}}
    when = {"add_entries": {"entries": [{"key": "o/c", "value": 1, "add_when": '/query == "x"'}]}}
    found = run([inside, SPLIT, when, upper], {"query": "x y", "o": {"a": "v"}})
    assert found.events == [{"query": "x", "o": {"b": "V", "c": 1}}, {"query": "y", "o": {"b": "V"}}]


def test_rows_of_decoded_values_keep_what_was_read() -> None:
    record = b'{"schema":null,"payload":{"a":1}}'
    decoded = EnvelopeDecoder(Envelopes("connect_json")).decode(pa.table({EVENT: pa.array([record], pa.binary())})).rows
    processed = chain(ADD, to_integer("a")).run(decoded).rows
    assert (processed[EVENT].to_pylist(), processed[ORIGINAL].to_pylist()) == ([b'{"a":1,"b":1}'], [record])


def test_a_dead_letter_has_the_original_event() -> None:
    found = run([ADD, to_integer("a")], {"a": "x"})
    assert [json.loads(one["event"]) for one in found.failed] == [{"a": "x"}]
    assert run([ADD], {"a": "x"}).processed.rows[ORIGINAL].to_pylist() == [b'{"a": "x"}']


def test_a_replay_of_one_part_of_an_event_writes_only_this_part() -> None:
    processors = [SPLIT, {"split_event": {"field": "other", "delimiter": ","}}, to_integer("other")]
    event = {"query": "a b", "other": "1,x"}
    first = run(processors, event)
    assert first.events == [{"query": "a", "other": 1}, {"query": "b", "other": 1}]
    assert [one["metadata"][PART] for one in first.failed] == ["0.1", "1.1"]
    again = run([*processors[:2]], event, event, event_part=pa.array(["0.1", "1.1"]))
    assert again.events == [{"query": "a", "other": "x"}, {"query": "b", "other": "x"}]
    assert again.processed.rows[PART].to_pylist() == ["0.1", "1.1"]


def test_a_replayed_part_that_the_processors_no_longer_make_is_a_dead_letter_again() -> None:
    found = run([SPLIT], {"query": "a b"}, {"query": "ab"}, event_part=pa.array(["7", "0"]))
    assert found.events == []
    assert [(one["code"], one["metadata"][PART]) for one in found.failed] == [
        ("PROCESSOR_FAILED", "7"),
        ("PROCESSOR_FAILED", "0"),
    ]


def test_a_bug_in_a_processor_costs_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calve.processors.entries._move", lambda *arguments: 1 / len(arguments[-1]))
    found = run([{"rename_keys": {"entries": [{"from_key": "a/b", "to_key": "c"}]}}], {}, {"n": 1})
    assert (found.events, [one["reason"] for one in found.failed]) == (
        [{"n": 1}],
        ["processor[0] rename_keys: ZeroDivisionError: division by zero"],
    )


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcq"), inner, max_size=3),
    max_leaves=6,
)
_CHAIN = [
    {"rename_keys": {"entries": [{"from_key": "a/b", "to_key": "c"}, {"from_key": "c/0", "to_key": "q"}]}},
    {"split_event": {"field": "q"}},
    {"convert_type": {"key": "a", "type": "long"}},
    {"drop_events": {"drop_when": "/b == true"}},
    {"truncate": {"entries": [{"length": 2, "recursive": True}]}},
]


@given(st.lists(st.dictionaries(st.sampled_from("abcq"), _VALUES, max_size=4), max_size=6))
def test_every_event_is_written_dropped_or_a_dead_letter(events: list[Any]) -> None:
    found = run(_CHAIN, *events)
    assert len(events) + found.processed.added == len(found.texts) + len(found.failed) + found.processed.dropped


@given(st.lists(st.dictionaries(st.sampled_from("abcq"), _VALUES, max_size=4), max_size=6))
def test_an_event_is_processed_in_the_same_way_alone_and_among_others(events: list[Any]) -> None:
    together = run(_CHAIN, *events)
    alone = [run(_CHAIN, event) for event in events]
    assert together.texts == [text for one in alone for text in one.texts]


def test_a_metadata_attribute_is_set_and_read_by_what_comes_after() -> None:
    add = [
        {"metadata_key": "kind", "value_expression": "/k"},
        {"metadata_key": "kind", "value": 7},
        {"metadata_key": "full", "format": '${/k}-${getMetadata("kind")}', "add_when": 'getMetadata("kind") == "a"'},
        {"key": "copy", "value_expression": 'getMetadata("full")', "add_when": 'getMetadata("full") != null'},
    ]
    split = {"split_event": {"field": "l"}}
    processors: list[dict[str, Any]] = [{"add_entries": {"entries": add}}, split]
    outcome = run(processors, {"k": "a", "l": [1, 2]}, {"k": {"x": 1}, "l": 3}, {})
    assert outcome.events == [
        {"k": "a", "l": 1, "copy": "a-a"},
        {"k": "a", "l": 2, "copy": "a-a"},
        {"k": {"x": 1}, "l": 3},
        {},
    ]
    rows = outcome.processed.rows
    assert rows["kind"].to_pylist() == ["a", "a", '{"x":1}', "7"]
    assert rows["full"].to_pylist() == ["a-a", "a-a", None, None]


def test_an_attribute_of_the_source_is_not_replaced_and_one_of_a_processor_can_be_a_column() -> None:
    text = (
        "p: {source: {file: {path: a}}, processor: [{add_entries: {entries: [{metadata_key: %s, value: 1}]}}], "
        "sink: [{iceberg: {table_identifier: a.b, metadata_columns: {kind: kind}}}]}"
    )
    with pytest.raises(SettingsErrors, match="FILE_path is a metadata attribute of the source"):
        parse_text(text % "FILE_path", PLUGINS)
    parse_text(text % "kind", PLUGINS)


@pytest.mark.parametrize("name", ["event", "JSON", "tags", "_order", "event_part", ""])
def test_an_attribute_has_no_name_of_a_column_of_the_batch(name: str) -> None:
    with pytest.raises(SettingsErrors, match="that Calve uses itself"):
        plugins({"add_entries": {"entries": [{"metadata_key": name, "value": 1}]}})


HALVES = ['{"v":"a\\ud800","w":"B","n":1}', '{"v":{"\\udfff":1},"w":"B","n":1}', '{"w":"B","v":[1,"\\uDBFFx"],"n":1}']


@pytest.mark.parametrize("text", HALVES)
def test_half_a_surrogate_pair_is_never_replaced_without_a_word(text: str) -> None:
    grok = {"grok": {"match": {"w": ["%{WORD:x}"]}}}
    for processors in ([grok], [{"lowercase_string": {"with_keys": ["w"]}}, grok]):
        found = run(processors, '{"v":"\\ufffd","w":"B","n":1}', text)
        assert [event["x"].lower() for event in found.events] == ["b"]
        assert [(letter["field"], letter["event"]) for letter in found.failed] == [("v", text)]
        assert "half a surrogate pair" in found.failed[0]["reason"]
    unchanged = [{"drop_events": {"drop_when": "/n == 9"}}, {"split_event": {"field": "none", "delimiter": ","}}]
    found = run(unchanged, text)
    assert (found.texts, found.failed) == ([text], []), "what no processor changes stays as it is"
