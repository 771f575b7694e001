"""The examples of Data Prepper's documentation for processors of shapes; the cases are named after its pages."""

from __future__ import annotations

from typing import Any

import pytest

from processors.chains import ran, run

NESTED = {
    "key1": "val1",
    "key2": {"key3": {"key4": "val2"}},
    "list1": [{"list2": [{"name": "name1", "value": "value1"}, {"name": "name2", "value": "value2"}]}],
}
LISTED = {
    "list1[0].list2[0].name": "name1",
    "list1[0].list2[0].value": "value1",
    "list1[0].list2[1].name": "name2",
    "list1[0].list2[1].value": "value2",
}
MAP = {"my-map": {"key1": "value1", "key2": "value2", "key3": "value3"}}
PAIRS = {
    "mylist": [
        {"name": "a", "value": "val-a"},
        {"name": "b", "value": "val-b1"},
        {"name": "b", "value": "val-b2"},
        {"name": "c", "value": "val-c"},
    ]
}


@pytest.mark.parametrize(
    ("options", "after"),
    [
        pytest.param(
            {"source": "key2", "target": "flattened-key2"},
            {**NESTED, "flattened-key2": {"key3.key4": "val2"}},
            id="flatten: minimum configuration",
        ),
        pytest.param(
            {"remove_processed_fields": True},
            {"key1": "val1", "key2.key3.key4": "val2", **LISTED},
            id="remove processed",
        ),
        pytest.param(
            {"remove_processed_fields": True, "exclude_keys": ["key2"]},
            {"key1": "val1", "key2": NESTED["key2"], **LISTED},
            id="flatten: exclude specific keys",
        ),
        pytest.param(
            {"remove_processed_fields": True, "remove_list_indices": True},
            {
                "key1": "val1",
                "key2.key3.key4": "val2",
                "list1[].list2[].name": ["name1", "name2"],
                "list1[].list2[].value": ["value1", "value2"],
            },
            id="flatten: remove list indexes",
        ),
        pytest.param(
            {"source": "key2", "remove_processed_fields": True, "flatten_separator": "_"},
            {"key1": "val1", "list1": NESTED["list1"], "key3_key4": "val2"},
            id="flatten: custom separator",
        ),
    ],
)
def test_flatten(options: dict[str, Any], after: Any) -> None:
    assert ran({"flatten": {"source": "", "target": "", **options}}, NESTED) == [after]


@pytest.mark.parametrize(
    ("options", "after"),
    [
        pytest.param(
            {},
            {**MAP, "my-list": [{"key": key, "value": value} for key, value in MAP["my-map"].items()]},
            id="map-to-list: minimum configuration",
        ),
        pytest.param(
            {"key_name": "name", "value_name": "data"},
            {**MAP, "my-list": [{"name": key, "data": value} for key, value in MAP["my-map"].items()]},
            id="map-to-list: custom key name and value name",
        ),
        pytest.param(
            {"exclude_keys": ["key1"], "remove_processed_fields": True},
            {
                "my-map": {"key1": "value1"},
                "my-list": [{"key": "key2", "value": "value2"}, {"key": "key3", "value": "value3"}],
            },
            id="map-to-list: exclude keys and remove processed fields",
        ),
        pytest.param(
            {"convert_field_to_list": True},
            {**MAP, "my-list": [["key1", "value1"], ["key2", "value2"], ["key3", "value3"]]},
            id="map-to-list: convert_field_to_list",
        ),
        pytest.param(
            {"source": ""}, {**MAP, "my-list": [{"key": "my-map", "value": MAP["my-map"]}]}, id="the event root"
        ),
    ],
)
def test_map_to_list(options: dict[str, Any], after: Any) -> None:
    assert ran({"map_to_list": {"source": "my-map", "target": "my-list", **options}}, MAP) == [after]


@pytest.mark.parametrize(
    ("options", "after"),
    [
        pytest.param(
            {"value_key": "value", "flatten": True},
            {"a": "val-a", "b": "val-b1", "c": "val-c"},
            id="list-to-map: usage",
        ),
        pytest.param(
            {"target": "mymap", "value_key": "value", "flatten": True},
            {"mymap": {"a": "val-a", "b": "val-b1", "c": "val-c"}},
            id="list-to-map: maps set to target",
        ),
        pytest.param(
            {"flatten": True},
            {"a": PAIRS["mylist"][0], "b": PAIRS["mylist"][1], "c": PAIRS["mylist"][3]},
            id="list-to-map: no value_key",
        ),
        pytest.param(
            {"value_key": "value", "flatten": True, "flattened_element": "last"},
            {"a": "val-a", "b": "val-b2", "c": "val-c"},
            id="list-to-map: flattened_element last",
        ),
        pytest.param(
            {"value_key": "value"}, {"a": ["val-a"], "b": ["val-b1", "val-b2"], "c": ["val-c"]}, id="flatten is false"
        ),
        pytest.param(
            {"key": None, "use_source_key": True, "extract_value": True},
            {"name": ["a", "b", "b", "c"], "value": ["val-a", "val-b1", "val-b2", "val-c"]},
            id="list-to-map: use_source_key and extract_value",
        ),
    ],
)
def test_list_to_map(options: dict[str, Any], after: Any) -> None:
    assert ran({"list_to_map": {"source": "mylist", "key": "name", **options}}, PAIRS) == [{**PAIRS, **after}]


@pytest.mark.parametrize(
    ("processor", "field"),
    [
        ({"flatten": {"source": "a", "target": ""}}, "a"),
        ({"map_to_list": {"source": "a", "target": "b"}}, "a"),
        ({"list_to_map": {"source": "a", "key": "b"}}, "a"),
    ],
)
def test_a_value_of_another_kind_makes_a_dead_letter_or_a_tag(processor: dict[str, Any], field: str) -> None:
    found = run([processor], {"a": 1}, {"b": 1}, {"a": None})
    assert ([one["field"] for one in found.failed], len(found.texts)) == ([field], 2)
    [(name, options)] = processor.items()
    assert run([{name: {**options, "tags_on_failure": ["odd"]}}], {"a": 1}).tags == [["odd"]]


@pytest.mark.parametrize("name", ["flatten", "map_to_list"])
def test_an_event_whose_target_cannot_be_put_is_tagged_with_all_its_entries(name: str) -> None:
    options = {"source": "s", "target": "a/b", "remove_processed_fields": True, "tags_on_failure": ["odd"]}
    before = {"add_entries": {"entries": [{"key": "z", "value": 1}]}}
    tagged = run([before, {name: options}], {"s": {"k": 1}, "a": "text"})
    assert (tagged.events, tagged.tags) == ([{"s": {"k": 1}, "a": "text", "z": 1}], [["odd"]])


def test_flatten_keeps_excluded_values_beside_flat_ones() -> None:
    options = {"source": "s", "target": "s", "exclude_keys": ["x"]}
    event = {"s": {"k": {"l": 1}, "x": {"y": 2}}}
    for removes in (False, True):
        after = ran({"flatten": {**options, "remove_processed_fields": removes}}, event)
        assert after == [{"s": {"k.l": 1, "x": {"y": 2}}}]


@pytest.mark.parametrize("event", [{"a.b": 2, "a": {"b": 1}}, {"c.x": 3, "c": [{"x": 1}]}])
def test_flatten_loses_no_value_whose_key_another_one_has(event: Any) -> None:
    options = {"source": "", "target": "", "remove_list_indices": True, "remove_brackets": True}
    [failed] = run([{"flatten": options}], event).failed
    assert failed["reason"].endswith("two values would get this key")
