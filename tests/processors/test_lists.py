"""Processors of lists, and options that decide about each object of a list."""

from __future__ import annotations

from typing import Any

import pytest

from calve.settings.problems import SettingsErrors
from processors.chains import plugins, ran, run

EVENT = {"n": 100, "l": [{"n": 1}, {"n": 2}, {}]}


@pytest.mark.parametrize(
    ("entry", "after"),
    [
        ({"value_expression": "/n"}, [{"n": 1, "a/b": 1}, {"n": 2, "a/b": 2}, {"a/b": None}]),
        ({"format": "x${/n}"}, [{"n": 1, "a/b": "x1"}, {"n": 2, "a/b": "x2"}, {"a/b": "x"}]),
        (
            {"value_expression": "/n", "disable_root_keys": False},
            [{"n": 1, "a/b": 100}, {"n": 2, "a/b": 100}, {"a/b": 100}],
        ),
        (
            {"value": 7, "flatten_key": False, "add_to_element_when": "/n == 2", "evaluate_when_on_element": True},
            [{"n": 1}, {"n": 2, "a": {"b": 7}}, {}],
        ),
        ({"value": 7, "add_to_element_when": "/n == 2"}, [{"n": 1}, {"n": 2}, {}]),
        ({"value": 7, "add_to_element_when": "/n == 100", "add_when": "/n == 3"}, [{"n": 1}, {"n": 2}, {}]),
    ],
)
def test_entries_of_the_objects_of_a_list_read_the_object_or_the_event(entry: dict[str, Any], after: list[Any]) -> None:
    processor = {"add_entries": {"entries": [{"key": "a/b", "iterate_on": "l", **entry}]}}
    assert ran(processor, EVENT) == [{"n": 100, "l": after}]


def test_conditions_over_objects_of_a_list_see_the_metadata_of_their_event() -> None:
    when = 'getMetadata("kafka_topic") == "t" and /n == 2'
    delete = {"delete_entries": {"with_keys": ["n"], "iterate_on": "l", "delete_from_element_when": when}}
    outcome = run([delete], EVENT, EVENT, {"l": 1}, kafka_topic=["t", "u", "t"])
    assert outcome.events == [{"n": 100, "l": [{"n": 1}, {}, {}]}, EVENT]
    assert [(row["field"], row["reason"]) for row in outcome.failed] == [
        ("l", "processor[0] delete_entries: not a list of objects")
    ]


def test_an_expression_that_fails_for_one_object_makes_one_dead_letter() -> None:
    entry = {"key": "a", "value_expression": "/n - 1", "iterate_on": "l"}
    outcome = run([{"add_entries": {"entries": [entry]}}], {"l": [{"n": "x"}, {"n": []}, {"n": 1}]}, {"l": [{"n": 1}]})
    assert outcome.events == [{"l": [{"n": 1, "a": 0}]}]
    assert len(outcome.failed) == 1


def test_filter_list_keeps_elements() -> None:
    processor = {"filter_list": {"iterate_on": "a/l", "keep_element_when": "/n > 1", "tags_on_failure": ["no"]}}
    outcome = run([processor], {"a": {"l": [{"n": 1}, {"n": 2.50}, 5]}}, {"a": {"l": 3}}, {"a": {"l": None}}, {})
    assert outcome.texts == ['{"a":{"l":[{"n": 2.5}]}}', '{"a": {"l": 3}}', '{"a": {"l": null}}', "{}"]
    assert outcome.tags == [None, ["no"], None, None]
    other = {"filter_list": {"iterate_on": "l", "target": "m", "keep_element_when": "/value > 1"}}
    assert ran(other, {"l": [{"value": 9}, 2, 1, "x", None]}) == [
        {"l": [{"value": 9}, 2, 1, "x", None], "m": [{"value": 9}, 2]}
    ]


def test_wrap_entries_makes_objects_of_elements() -> None:
    wrap = {"wrap_entries": {"source": "l", "key": "n", "exclude_null_empty_values": True}}
    assert ran(wrap, {"l": ["a", None, "", {"b": 1}]}, {"l": []}, {"l": None}, {}) == [
        {"l": [{"n": "a"}, {"n": {"b": 1}}]},
        {"l": []},
        {"l": None},
        {},
    ]
    wrap = {"wrap_entries": {"source": "l", "key": "n", "target": "t", "append_if_target_exists": True}}
    outcome = run([wrap], {"l": [None], "t": [1]}, {"l": [1]}, {"l": [1], "t": 2}, {"l": 5})
    assert outcome.events == [{"l": [None], "t": [1, {"n": None}]}, {"l": [1], "t": [{"n": 1}]}]
    assert [row["field"] for row in outcome.failed] == ["t", "l"]


def test_replace_string_replaces_text_and_no_pattern() -> None:
    processor = {
        "replace_string": {"entries": [{"source": "s", "from": "a.", "to": "$1\\", "replace_when": "/n == 1"}]}
    }
    events = {"n": 1, "s": "a.ba.ab"}, {"n": 2, "s": "a."}, {"n": 1, "s": 5}
    assert ran(processor, *events) == [{"n": 1, "s": "$1\\b$1\\ab"}, *events[1:]]


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (
            {"add_entries": {"entries": [{"key": "a", "value": 1, "add_to_element_when": "/a == 1"}]}},
            "needs iterate_on",
        ),
        ({"delete_entries": {"with_keys": ["a"], "delete_from_element_when": "/a == 1"}}, "needs iterate_on"),
        ({"wrap_entries": {"source": "l", "key": "n", "append_if_target_exists": True}}, "needs a target"),
        ({"rename_keys": {}}, "exactly one of entries and transform_key"),
        ({"convert_type": {"type": "long"}}, "exactly one of key and keys"),
        ({"convert_type": {"coerce_strings": {"time_formats": ["q"]}}}, "q"),
        ({"csv": {"multiline": True, "column_names": ["a"]}}, "takes the keys from the first line"),
    ],
)
def test_options_that_need_others_are_refused_without(processor: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsErrors, match=message):
        plugins(processor)


def test_translate_puts_its_result_beside_the_value_also_in_each_object_of_a_list() -> None:
    target = {"target": "t", "map": {"1": "one", "2": "two"}, "translate_when": "/n != 2"}
    mapping = {"source": "o/l/n", "targets": [target]}
    events = [
        {"n": 1, "o": {"l": [{"n": 1.0}, {"n": 1}, {"n": 2}, [{"n": "1"}], 5, {}]}},
        {"o": {"l": {"n": 1}}},
        {"o": 5},
    ]
    assert ran({"translate": {"mappings": [mapping]}}, *events) == [
        {"n": 1, "o": {"l": [{"n": 1.0}, {"n": 1, "t": "one"}, {"n": 2}, [{"n": "1", "t": "one"}], 5, {}]}},
        {"o": {"l": {"n": 1, "t": "one"}}},
        {"o": 5},
    ]
    mapping = {"source": ["o/a", "o/b"], "targets": [{"target": "t", "map": {"1": "one"}, "default": "?"}]}
    assert ran({"translate": {"mappings": [mapping]}}, {"o": {"a": 1, "b": 3}}) == [
        {"o": {"a": 1, "b": 3, "t": ["one", "?"]}}
    ]


def test_flatten_leaves_out_keys_inside_of_objects_and_puts_them_back() -> None:
    flatten = {"source": "s", "target": "f", "exclude_keys": ["a/b", "l/0", "no"]}
    event = {"s": {"a": {"b": {"x": 1}, "c": 2}, "l": [{"y": 1}]}}
    assert ran({"flatten": flatten}, event) == [{**event, "f": {"a.c": 2, "l[0].y": 1}}]
    removed = {"flatten": {**flatten, "remove_processed_fields": True}}
    assert ran(removed, event) == [{"s": {"a": {"b": {"x": 1}}}, "f": {"a.c": 2, "l[0].y": 1}}]
