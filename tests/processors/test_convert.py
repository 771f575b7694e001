"""Conversions keep every digit, or make the event a dead letter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from processors.chains import ran, run


def convert(kind: str, **more: Any) -> dict[str, Any]:
    return {"convert_type": {"key": "a", "type": kind, **more}}


def test_convert_type() -> None:
    """The example of Data Prepper's documentation."""
    processor = {"convert_type": {"key": "response_status", "type": "integer"}}
    event = {"message": "value", "response_status": "200"}
    assert ran(processor, event) == [{"message": "value", "response_status": 200}]
    assert ran({"convert_entry_type": {"key": "response_status"}}, event)[0]["response_status"] == 200


@pytest.mark.parametrize(
    ("kind", "value", "after"),
    [
        ("integer", '"-2147483648"', "-2147483648"),
        ("integer", "12.9", "12"),
        ("integer", "true", "1"),
        ("long", '"9223372036854775807"', "9223372036854775807"),
        ("double", '"1"', "1.0"),
        ("double", "7", "7.0"),
        ("big_decimal", '"123456789012345678901234567890.10"', "123456789012345678901234567890.10"),
        ("big_decimal", "1e3", "1000"),
        ("string", "1.50", '"1.50"'),
        ("string", "true", '"true"'),
        ("boolean", '"TRUE"', "true"),
        ("boolean", '"yes"', "false"),
        ("boolean", "0.0", "false"),
        ("integer", '["1","2"]', "[1,2]"),
        ("integer", "null", "null"),
    ],
)
def test_a_value_is_converted_with_all_its_digits(kind: str, value: str, after: str) -> None:
    text = json.dumps({"a": 0}).replace("0", value)
    [found] = run([convert(kind)], text).texts
    assert found.replace(" ", "") == f'{{"a":{after}}}'


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", "12x"),
        ("integer", "2147483648"),
        ("integer", "1.5"),
        ("long", "9223372036854775808"),
        ("double", "1e999"),
        ("double", "NaN"),
        ("big_decimal", "Infinity"),
        ("big_decimal", "1e99999999999999999999"),
        ("integer", {"b": 1}),
    ],
)
def test_a_value_that_cannot_be_converted_makes_the_event_a_dead_letter(kind: str, value: Any) -> None:
    found = run([convert(kind)], {"a": value}, {"a": "1"})
    assert len(found.texts) == 1
    [letter] = found.failed
    assert (letter["code"], letter["field"], json.loads(letter["event"])) == ("PROCESSOR_FAILED", "a", {"a": value})
    assert letter["reason"].startswith("processor[0] convert_type: ")


def test_an_event_with_tags_on_failure_continues_with_them() -> None:
    found = run([convert("integer", tags_on_failure=["bad", "a"])], {"a": "x"}, {"a": "1"})
    assert (found.events, found.tags, found.failed) == ([{"a": "x"}, {"a": 1}], [["bad", "a"], None], [])


def test_an_entry_that_stands_for_null_is_deleted() -> None:
    assert ran(convert("integer", null_values=["-", "0"]), {"a": "-"}, {"a": 0}, {"a": 1}) == [{}, {}, {"a": 1}]


def test_a_scale_rounds_half_to_even() -> None:
    found = run([convert("big_decimal", scale=2)], {"a": "1.005"}, {"a": "1.015"}, {"a": "2"}).texts
    assert found == ['{"a":1.00}', '{"a":1.02}', '{"a":2.00}']


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TRUE", "true"), ("-007", "-7"), ("+5", "5"), ("2.50", "2.50"), ("1e3", "1e3"), ("000", "0"),
        ("12345678901234567890", None), ("9223372036854775807", "9223372036854775807"), ("hello", None), ("", None),
        ("2024-01-02T03:04:05.678Z", "1704164645678"), ("a:b", None), ("0x1f", None), ("1.", None), ("NaN", None),
        ("02/Jan/2024:03:04:05 +0100", "1704161045000"),
    ],
)  # fmt: skip
def test_strings_that_look_like_another_type_are_coerced_at_every_depth(text: str, value: str | None) -> None:
    after = json.dumps(text) if value is None else value
    event = json.dumps({"a": text, "l": [text, {"b": text}], "o": {"c": {"d": text}}, "n": None, "x": 1})
    [changed] = run([{"convert_type": {"coerce_strings": {}}}], event).texts
    assert changed.replace(" ", "") == (
        f'{{"a":{after},"l":[{after},{{"b":{after}}}],"o":{{"c":{{"d":{after}}}}},"n":null,"x":1}}'.replace(" ", "")
    )


def test_strings_are_coerced_before_the_keys_are_converted() -> None:
    convert = {"convert_type": {"coerce_strings": {}, "key": "a", "type": "string", "convert_when": "/b == 1"}}
    assert ran(convert, {"a": "01", "b": 1}, {"a": "01", "b": 2}) == [{"a": "1", "b": 1}, {"a": "01", "b": 2}]
