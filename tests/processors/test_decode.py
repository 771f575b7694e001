"""Processors that read and write the encodings of a field."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from processors.chains import ran, run


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("<Person><name>John Doe</name><age>30</age></Person>", {"name": "John Doe", "age": "30"}),
        ('<a p:id="1" q:id="2"><id>3</id></a>', {"id": ["1", "2", "3"]}),
        ('<a id="7" xmlns:q="u"><q:b c="1">t</q:b><q:b/></a>', {"id": "7", "b": [{"c": "1", "": "t"}, ""]}),
        ("<a>\n <b> x </b>\n <b>y</b><b>z</b>\n</a>", {"b": [" x ", "y", "z"]}),
        ("<?xml version='1.0'?><a><![CDATA[<b>]]>&lt;&#65;</a>", {"": "<b><A"}),
        ("<a/>", {}),
    ],
)
def test_parse_xml(text: str, entries: dict[str, Any]) -> None:
    assert ran({"parse_xml": {"source": "x", "delete_source": True}}, {"x": text}) == [entries]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<a>", "no element found"),
        ("", "no element found"),
        (5, "no element found"),
        ("<a></b>", "mismatched tag"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "it has a DTD"),
        ("<a>" * 201, "nested more than 200 deep"),
    ],
)
def test_what_is_no_xml_is_a_dead_letter(text: Any, reason: str) -> None:
    outcome = run([{"parse_xml": {"source": "x"}}], {"x": text}, {"x": "<a><b>1</b></a>"})
    assert outcome.events == [{"x": "<a><b>1</b></a>", "b": "1"}]
    assert reason in outcome.failed[0]["reason"]
    assert run([{"parse_xml": {"source": "x", "handle_failed_events": "skip"}}], {"x": text}).events == [{"x": text}]


def test_parse_ion_keeps_all_digits() -> None:
    text = (
        "{a: 1, b: 2.50, c: 1d30, d: 2020-01-01T12:00:00.123Z, e: symbol, f: {{aGVsbG8=}}, g: [1, null.int], h: (a b), "
        'i: null, j: true, k: "x", l: kind::5, m: 123456789012345678901234567890, n: {o: nan}}'
    )
    outcome = run([{"parse_ion": {"source": "x", "delete_source": True}}], {"x": text})
    assert outcome.texts == [
        '{"a":1,"b":2.50,"c":1E+30,"d":"2020-01-01T12:00:00.123Z","e":"symbol","f":"aGVsbG8=","g":[1,null],'
        '"h":["a","b"],"i":null,"j":true,"k":"x","l":5,"m":123456789012345678901234567890,"n":{"o":"nan"}}'
    ]


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("2020T", "2020T"),
        ("2020-02T", "2020-02T"),
        ("2020-02-03", "2020-02-03"),
        ("0001-02-03T", "0001-02-03"),
        ("2020-01-01T12:30-08:00", "2020-01-01T20:30Z"),
        ("2020-01-01T12:30-00:00", "2020-01-01T12:30Z"),
        ("2020-01-01T12:30:45.1234567+01:00", "2020-01-01T11:30:45.1234567Z"),
        ("2020-01-01T12:30:45.10Z", "2020-01-01T12:30:45.10Z"),
        ("2020-01-01T12:30:45Z", "2020-01-01T12:30:45Z"),
    ],
)
def test_timestamps_of_ion_keep_their_precision_and_all_digits(time: str, text: str) -> None:
    assert ran({"parse_ion": {"source": "x", "delete_source": True}}, {"x": f"{{t: {time}}}"}) == [{"t": text}]


@pytest.mark.parametrize("text", ["[1]", "{", "symbol", "", 5, "{t: 0001-01-01T00:00:00+01:00}"])
def test_what_is_no_ion_struct_is_a_dead_letter(text: Any) -> None:
    outcome = run([{"parse_ion": {"source": "x"}}], {"x": text}, {"x": "{b: 1}"})
    assert (outcome.events, len(outcome.failed)) == ([{"x": "{b: 1}", "b": 1}], 1)


def test_below_its_depth_parse_ion_leaves_structs_as_json() -> None:
    processor = {"parse_ion": {"depth": 1, "source": "x", "delete_source": True}}
    assert run([processor], {"x": "{a: {b: 1.50, c: [{d: 2}]}, e: [{f: 1}]}"}).texts == [
        '{"a":"{\\"b\\":1.50,\\"c\\":[{\\"d\\":2}]}","e":[{"f":1}]}'
    ]


def test_write_json_keeps_digits_and_texts_but_no_white_space() -> None:
    outcome = run(
        [{"write_json": {"source": "details", "target": "text"}}, {"write_json": {"source": "payload"}}],
        '{"details": {"n": 1.50, "s": " \\\\\\" [ "}, "payload": "a"}',
        "{}",
    )
    assert outcome.events[0]["text"] == r'{"n":1.50,"s":" \\\" [ "}'
    assert outcome.events[0]["payload"] == '"a"'
    assert outcome.texts[1:] == ["{}"]


def test_decompress() -> None:
    text = base64.b64encode(gzip.compress("héllo".encode())).decode()
    outcome = run([{"decompress": {"keys": ["a", "b"], "type": "gzip"}}], {"a": text, "b": text}, {"a": text[:-8]}, {})
    assert outcome.events == [{"a": "héllo", "b": "héllo"}, {"a": text[:-8]}, {}]
    assert outcome.tags == [None, ["_decompression_failure"], None]


def test_what_would_be_too_large_is_not_decompressed() -> None:
    text = base64.b64encode(gzip.compress(b" " * (64 * 1024 * 1024 + 1), 1)).decode()
    outcome = run([{"decompress": {"keys": ["a"], "tags_on_failure": []}}], {"a": text})
    assert "more than 64 MB" in outcome.failed[0]["reason"]


@pytest.mark.parametrize(
    ("settings", "event", "after"),
    [
        ({"pointer": "a/b"}, {}, {"b": {"c": 1}}),
        ({"pointer": "/a/b/c"}, {"c": 0}, {"a.b.c": 1}),
        ({"pointer": "/l/1"}, {}, {"l.1": 6}),
        ({"pointer": "/no"}, {}, {"a": {"b": {"c": 1}}, "l": [5, 6]}),
        ({"pointer": "/a/b", "destination": "d"}, {"b": 1}, {"d": {"b": {"c": 1}}}),
        ({"pointer": "/no", "destination": "d"}, {}, {"d": {"a": {"b": {"c": 1}}, "l": [5, 6]}}),
    ],
)
def test_a_pointer_into_parsed_json(settings: dict[str, Any], event: dict[str, Any], after: dict[str, Any]) -> None:
    source = {"message": json.dumps({"a": {"b": {"c": 1}}, "l": [5, 6]}), **event}
    assert ran({"parse_json": settings}, source) == [source | after]


@pytest.mark.parametrize("value", ["0", "true", "1.50", "[]", '{"a":1}', '"%"'])
def test_what_is_no_compressed_text_stays_with_a_tag(value: str) -> None:
    outcome = run([{"decompress": {"keys": ["v"]}}], f'{{"v":{value}}}')
    assert (outcome.texts, outcome.tags) == ([f'{{"v":{value}}}'], [["_decompression_failure"]])
