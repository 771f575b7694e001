"""The examples of Data Prepper's documentation for processors of entries; the cases are named after its pages."""

from __future__ import annotations

from typing import Any

import pytest

from calve.settings.problems import SettingsErrors
from processors.chains import plugins, ran, run

TESTS = {"test": "friends", "test2": "are", "test3": "kind"}
SELECT = {"message": "hello", "key1": "value1", "key2": "value2", "some_key": "test"}
LISTED = [{"name": "apple", "color": "red"}, {"name": "orange", "color": "orange"}]


def entries(name: str, *given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {name: {"entries": list(given), **more}}


@pytest.mark.parametrize(
    ("entry", "event", "after"),
    [
        pytest.param({"key": "age", "value": 20}, {"a": 1}, {"a": 1, "age": 20}, id="add-entries: simple values"),
        pytest.param(
            {"key": "date", "format": "${month}-${day}"},
            {"month": "Dec", "day": 1},
            {"month": "Dec", "day": 1, "date": "Dec-1"},
            id="add-entries: format strings",
        ),
        pytest.param(
            {"key": "length", "value_expression": "length(/message)"},
            {"message": "hello"},
            {"message": "hello", "length": 5},
            id="add-entries: value expressions",
        ),
        pytest.param(
            {"key": "${/param_name}", "value_expression": "/param_value"},
            {"param_name": "cpu", "param_value": 50},
            {"param_name": "cpu", "param_value": 50, "cpu": 50},
            id="add-entries: a dynamic key",
        ),
        pytest.param(
            {"key": "message", "value": "bye", "overwrite_if_key_exists": True},
            {"message": "hello"},
            {"message": "bye"},
            id="add-entries: overwrite",
        ),
        pytest.param(
            {"key": "message", "value": "bye"},
            {"message": "hello"},
            {"message": "hello"},
            id="add-entries: no overwrite",
        ),
        pytest.param(
            {"key": "message", "value": "world", "append_if_key_exists": True},
            {"message": "hello"},
            {"message": ["hello", "world"]},
            id="add-entries: append",
        ),
        pytest.param(
            {"key": "severity", "value": "high", "add_when": '/level == "error"'},
            {"level": "info"},
            {"level": "info"},
            id="add-entries: add_when",
        ),
        pytest.param({"key": "a/b/c", "value": None}, {"a": {}}, {"a": {"b": {"c": None}}}, id="a nested key"),
    ],
)
def test_add_entries(entry: dict[str, Any], event: Any, after: Any) -> None:
    assert ran(entries("add_entries", entry), event) == [after]


@pytest.mark.parametrize(
    ("overwrites", "message2"),
    [pytest.param(False, "bye", id="skip existing"), pytest.param(True, "hello", id="overwrite")],
)
def test_copy_values(overwrites: bool, message2: str) -> None:
    processor = entries(
        "copy_values",
        {"from_key": "message1", "to_key": "message2", "overwrite_if_to_key_exists": overwrites},
        {"from_key": "message1", "to_key": "message3"},
    )
    after = {"message1": "hello", "message2": message2, "message3": "hello"}
    assert ran(processor, {"message1": "hello", "message2": "bye"}) == [after]


def test_copy_values_between_two_lists_of_objects() -> None:
    processor = entries(
        "copy_values", {"from_key": "name", "to_key": "fruit_name"}, from_list="mylist", to_list="newlist"
    )
    copied = [{"fruit_name": "apple"}, {"fruit_name": "orange"}]
    assert ran(processor, {"mylist": LISTED}) == [{"mylist": LISTED, "newlist": copied}]


def test_rename_keys() -> None:
    processor = entries(
        "rename_keys",
        {"from_key": "message", "to_key": "msg"},
        {"from_key": "user/name", "to_key": "user/username"},
        {"from_key": "http/response/code", "to_key": "http/status_code"},
        {"from_key": "env", "to_key": "metadata/environment", "overwrite_if_to_key_exists": True},
    )
    before = {
        "message": "hello world",
        "user": {"name": "alice", "id": 123},
        "http": {"response": {"code": 200}},
        "env": "prod",
        "metadata": {"environment": "staging"},
    }
    assert ran(processor, before, {"message": "goodbye", "env": "dev"}) == [
        {
            "user": {"username": "alice", "id": 123},
            "http": {"response": {}, "status_code": 200},
            "metadata": {"environment": "prod"},
            "msg": "hello world",
        },
        {"msg": "goodbye", "metadata": {"environment": "dev"}},
    ]


def test_rename_keys_in_sequence_see_the_keys_that_earlier_ones_made() -> None:
    chained = [{"from_key": "message", "to_key": "message2"}, {"from_key": "message2", "to_key": "message3"}]
    assert ran(entries("rename_keys", *chained), {"message": "hello"}) == [{"message3": "hello"}]


def test_rename_keys_by_a_pattern_renames_the_first_match() -> None:
    processor = entries("rename_keys", {"from_key_regex": "me.*", "to_key": "text"})
    assert ran(processor, {"a": 1, "message": "x", "metric": 2}) == [{"a": 1, "metric": 2, "text": "x"}]


@pytest.mark.parametrize(
    ("options", "event", "after"),
    [
        pytest.param(
            {"with_keys": ["message"]},
            {"message": "hello", "message2": "goodbye"},
            {"message2": "goodbye"},
            id="delete-entries: usage",
        ),
        pytest.param(
            {"with_keys_regex": ["^tes.*"], "exclude_from_delete": ["test"]}, TESTS, {"test": "friends"}, id="a pattern"
        ),
        pytest.param(
            {
                "entries": [
                    {"with_keys": ["message"]},
                    {"with_keys_regex": ["^tes.*"], "exclude_from_delete": ["test"]},
                ]
            },
            {"message": "hello", "message2": "goodbye", **TESTS},
            {"message2": "goodbye", "test": "friends"},
            id="several rules",
        ),
        pytest.param({"with_keys": ["a/0/b", "c"]}, {"a": [{"b": 1, "d": 2}]}, {"a": [{"d": 2}]}, id="nested"),
    ],
)
def test_delete_entries(options: dict[str, Any], event: Any, after: Any) -> None:
    assert ran({"delete_entries": options}, event) == [after]


@pytest.mark.parametrize(
    ("options", "event", "after"),
    [
        pytest.param({"include_keys": ["key1", "key2"]}, SELECT, {"key1": "value1", "key2": "value2"}, id="usage"),
        pytest.param(
            {"include_keys": ["key1"], "include_keys_regex": ["^ran.*"]},
            {**SELECT, "random1": "another", "random2": "set"},
            {"key1": "value1", "random1": "another", "random2": "set"},
            id="a pattern",
        ),
        pytest.param(
            {"include_keys": ["key1"]},
            {**SELECT, "some_key": "other"},
            {**SELECT, "some_key": "other"},
            id="select_when is false",
        ),
        pytest.param(
            {"include_keys": ["field1", "field3/name"], "select_when": '/field3/surname == "Smith"'},
            {"field1": "abc", "field2": 1, "field3": {"name": "Alice", "surname": "Smith"}},
            {"field1": "abc", "field3": {"name": "Alice"}},
            id="nested fields",
        ),
    ],
)
def test_select_entries(options: dict[str, Any], event: Any, after: Any) -> None:
    assert ran({"select_entries": {"select_when": '/some_key == "test"', **options}}, event) == [after]


def test_a_value_on_the_way_to_a_key_that_is_no_object_makes_the_event_a_dead_letter() -> None:
    found = run([entries("add_entries", {"key": "a/b", "value": 1})], {"a": 7}, {"b": 1})
    assert found.events == [{"b": 1, "a": {"b": 1}}]
    assert [(one["code"], one["field"], one["event"]) for one in found.failed] == [
        ("PROCESSOR_FAILED", "a.b", '{"a": 7}')
    ]


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        (entries("add_entries", {"key": "a"}), "exactly one of value, format and value_expression"),
        (entries("add_entries", {"key": "a", "value": 1, "add_when": "/a ="}), "at character"),
        (entries("add_entries", {"key": "", "value": 1}), "a key must not be empty"),
        ({"delete_entries": {}}, "one of with_keys and with_keys_regex must be set"),
        ({"delete_entries": {"with_keys_regex": ["(?=a)"]}}, "not a valid regular expression"),
        ({"select_entries": {}}, "one of include_keys and include_keys_regex"),
        (entries("rename_keys", {"to_key": "a"}), "exactly one of from_key and from_key_regex"),
        ({"aggregate": {}}, "identification_keys: is required"),
        ({"anomaly_detector": {}}, "keeps state between events"),
        ({"add_entry": {}}, "did you mean add_entries"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_the_start(processor: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsErrors, match=message.replace("(", r"\(")):
        plugins(processor)


def test_entries_of_each_object_of_a_list() -> None:
    outcome = run(
        [
            {
                "add_entries": {
                    "entries": [
                        {"key": "a", "value": 1, "iterate_on": "l"},
                        {"key": "b", "format": "${/s}-y", "iterate_on": "l", "overwrite_if_key_exists": True},
                    ]
                }
            },
            {"convert_type": {"key": "s", "type": "integer", "iterate_on": "l"}},
            {"delete_entries": {"with_keys": ["d"], "iterate_on": "l"}},
        ],
        {"x": "v", "l": [{"s": "1", "d": 2}, {"s": "2", "a": 5, "b": 6}]},
        {"x": 1},
        {"l": "text"},
        {"l": [1]},
    )
    assert outcome.events == [{"x": "v", "l": [{"s": 1, "a": 1, "b": "1-y"}, {"s": 2, "a": 5, "b": "2-y"}]}, {"x": 1}]
    assert {letter["reason"] for letter in outcome.failed} == {"processor[0] add_entries: not a list of objects"}


@pytest.mark.parametrize(
    ("transform", "after"),
    [
        ("lowercase", {"ab": {"cd": 1, "l": [{"Ef": 1}]}, "éa": 2}),
        ("uppercase", {"AB": {"CD": 1, "L": [{"Ef": 1}]}, "ÉA": 2}),
        ("capitalize", {"AB": {"Cd": 1, "L": [{"Ef": 1}]}, "Éa": 2}),
    ],
)
def test_rename_keys_changes_the_case_of_all_keys_but_loses_none(transform: str, after: dict[str, Any]) -> None:
    processor = {"rename_keys": {"transform_key": transform}}
    outcome = run([processor], {"aB": {"cd": 1, "l": [{"Ef": 1}]}, "éa": 2}, {"a": 1, "A": 2}, {"o": {"b": 1, "B": 2}})
    assert outcome.events == [after]
    assert len(outcome.failed) == 2


def test_rename_keys_by_a_pattern_loses_no_value_that_it_cannot_put() -> None:
    add = entries("add_entries", {"key": "z", "value": 1})
    rename = entries("rename_keys", {"from_key_regex": "x.*", "to_key": "a/b"})
    [failed] = run([add, rename], {"x1": 1, "a": "text"}).failed
    assert (failed["field"], failed["event"]) == ("a.b", '{"x1": 1, "a": "text"}')
