"""The examples of Data Prepper's documentation for processors that parse texts; the cases are named after its pages."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from calve.settings.problems import SettingsErrors
from processors.chains import plugins, ran, run

NESTED = {"message": '{"outer_key": {"inner_key": "inner_value"}}'}
INNER = {"inner_key": "inner_value"}


@pytest.mark.parametrize(
    ("options", "after"),
    [
        pytest.param({}, {**NESTED, "outer_key": INNER}, id="parse-json: basic example"),
        pytest.param({"delete_source": True}, {"outer_key": INNER}, id="parse-json: delete a source"),
        pytest.param({"pointer": "/outer_key/inner_key"}, {**NESTED, **INNER}, id="parse-json: pointer"),
        pytest.param(
            {"destination": "d", "pointer": "outer_key"}, {**NESTED, "d": {"outer_key": INNER}}, id="destination"
        ),
        pytest.param({"pointer": "/no"}, {**NESTED, "outer_key": INNER}, id="a pointer to nothing takes all"),
        pytest.param({"parse_when": "/a == 1"}, NESTED, id="parse_when is false"),
    ],
)
def test_parse_json(options: dict[str, Any], after: Any) -> None:
    assert ran({"parse_json": options}, NESTED) == [after]


def test_parsed_json_keeps_its_digits() -> None:
    event = json.dumps({"message": '{"n": 1234567890123456789.50, "l":[1.0]}'})
    assert run([{"parse_json": {"delete_source": True}}], event).texts == ['{"n":1234567890123456789.50,"l":[1.0]}']


@pytest.mark.parametrize(
    ("depth", "after"),
    [
        (0, '{"a":{"b": {"c": 1.50, "l": [{"d": 1}]}}}'),
        (1, '{"a":"{\\"b\\":{\\"c\\":1.50,\\"l\\":[{\\"d\\":1}]}}"}'),
        (2, '{"a":{"b":"{\\"c\\":1.50,\\"l\\":[{\\"d\\":1}]}"}}'),
        (3, '{"a":{"b":{"c":1.50,"l":[{"d": 1}]}}}'),
    ],
)
def test_below_its_depth_parse_json_leaves_objects_as_text(depth: int, after: str) -> None:
    event = json.dumps({"message": '{"a":{"b": {"c": 1.50, "l": [{"d": 1}]}}}'})
    assert run([{"parse_json": {"depth": depth, "delete_source": True}}], event).texts == [after]


@pytest.mark.parametrize("text", ["{", "[1]", "1", '{"a":01}', "", 7])
def test_a_text_that_is_no_json_object_makes_a_dead_letter_a_tag_or_nothing(text: Any) -> None:
    event = {"message": text}
    assert [one["code"] for one in run([{"parse_json": {}}], event).failed] == ["PROCESSOR_FAILED"]
    assert run([{"parse_json": {"tags_on_failure": ["odd"]}}], event).tags == [["odd"]]
    assert ran({"parse_json": {"handle_failed_events": "skip"}}, event) == [event]


@pytest.mark.parametrize(
    ("options", "event", "after"),
    [
        pytest.param(
            {"column_names": ["col1", "col2"]},
            {"message": "1,2,3"},
            {"message": "1,2,3", "col1": "1", "col2": "2", "column3": "3"},
            id="csv: user-specified column names",
        ),
        pytest.param(
            {"column_names_source_key": "header"},
            {"header": "a,b,c", "message": "1,2,3"},
            {"message": "1,2,3", "a": "1", "b": "2", "c": "3"},
            id="csv: automatically detect column names",
        ),
        pytest.param(
            {"column_names": ["col1", "col2"], "delete_source": True},
            {"message": "4,5,6"},
            {"col1": "4", "col2": "5", "column3": "6"},
            id="csv: delete the source",
        ),
        pytest.param(
            {"delimiter": ";", "quote_character": "'", "delete_source": True},
            {"message": "'a;b';\"c"},
            {"column1": "a;b", "column2": '"c'},
            id="other characters",
        ),
        pytest.param({}, {"a": 1}, {"a": 1}, id="without the string"),
    ],
)
@pytest.mark.parametrize("name", ["csv", "parse_csv"])
def test_csv(name: str, options: dict[str, Any], event: Any, after: Any) -> None:
    assert ran({name: options}, event) == [after]


def test_an_open_quotation_makes_a_dead_letter() -> None:
    assert len(run([{"csv": {}}], {"message": 'a,"b'}).failed) == 1


@pytest.mark.parametrize(
    ("pattern", "text", "after"),
    [
        pytest.param(
            "%{Date} %{Time} %{Log_Type}: %{Message}",
            "07-25-2023 10:00:00 ERROR: error message",
            {"Date": "07-25-2023", "Time": "10:00:00", "Log_Type": "ERROR", "Message": "error message"},
            id="dissect: basic usage",
        ),
        pytest.param("%{}, %{?b}, %{c}", "x, y, z", {"c": "z"}, id="dissect: skip field"),
        pytest.param(
            "%{+field_name}, %{+field_name}", "foo, bar", {"field_name": "foobar"}, id="dissect: append field"
        ),
        pytest.param("%{+a/2}, %{+a/1}", "foo, bar", {"a": "barfoo"}, id="dissect: append in order"),
        pytest.param("%{?field_name}, %{&field_name}", "foo, bar", {"foo": "bar"}, id="dissect: indirect field"),
        pytest.param(
            "%{field1->} %{field2}", "firstname    lastname", {"field1": "firstname", "field2": "lastname"}, id="padded"
        ),
        pytest.param("[%{a}] %{n}", "[x] 5", {"a": "x", "n": 5}, id="dissect: target types"),
        pytest.param("%{a}: %{b}", "no delimiter", {}, id="a text that does not match stays"),
    ],
)
def test_dissect(pattern: str, text: str, after: Any) -> None:
    processor = {"dissect": {"map": {"log": pattern}, "target_types": {"n": "integer"}}}
    assert ran(processor, {"log": text}) == [{"log": text, **after}]


def test_dissect_deletes_its_source_and_rejects_another_type() -> None:
    processor = {"dissect": {"map": {"log": "%{n};"}, "target_types": {"n": "integer"}, "delete_source": True}}
    found = run([processor], {"log": "5;"}, {"log": "x;"})
    assert (found.events, found.failed[0]["field"]) == ([{"n": 5}], "n")


AB, SPACE = {"a": "1", "b": "2"}, {"field_split_characters": " "}
KEY_VALUES: list[Any] = [
    ({"source": "message1"}, "key1=value1", {"key1": "value1"}),
    ({"field_split_characters": "&&"}, "key1=value1&&key2=value2", {"key1": "value1", "key2": "value2"}),
    ({"field_delimiter_regex": "&{2}"}, "key1=value1&&key2=value2", {"key1": "value1", "key2": "value2"}),
    ({"key_value_delimiter_regex": "={2}"}, "key1==value1", {"key1": "value1"}),
    ({"value_split_characters": "=="}, "key1==value1", {"key1": "value1"}),
    ({}, "key1value1&key2=value2", {"key1value1": None, "key2": "value2"}),
    ({"non_match_value": {"a": 1}}, "key1value1", {"key1value1": {"a": 1}}),
    ({"prefix": "custom"}, "key1=value1", {"customkey1": "value1"}),
    ({"delete_key_regex": r"\s"}, "key1 =value1", {"key1": "value1"}),
    ({"delete_value_regex": r"\s"}, "key1=value1 ", {"key1": "value1"}),
    ({"include_keys": ["key2"]}, "key1=value1&key2=value2", {"key2": "value2"}),
    ({"exclude_keys": ["key2"]}, "key1=value1&key2=value2", {"key1": "value1"}),
    ({"default_values": {"d": 1, "key1": 2}}, "key1=value1", {"key1": "value1", "d": 1}),
    ({"transform_key": "lowercase"}, "Key1=value1", {"key1": "value1"}),
    ({"transform_key": "uppercase"}, "key1=value1", {"KEY1": "value1"}),
    ({"transform_key": "capitalize"}, "key1=value1", {"Key1": "value1"}),
    ({"whitespace": "lenient"}, "key1  =  value1", {"key1  ": "  value1"}),
    ({"whitespace": "strict"}, "key1  =  value1", {"key1": "value1"}),
    ({}, "key1=value1&key1=value1", {"key1": ["value1", "value1"]}),
    ({"skip_duplicate_values": True}, "key1=value1&key1=value1", {"key1": "value1"}),
    ({"remove_brackets": True}, "key1=(value1)", {"key1": "value1"}),
    ({}, "key1=(value1)", {"key1": "(value1)"}),
    ({"value_grouping": True}, "key1=[a=b&c=d]&key2=value2", {"key1": "[a=b&c=d]", "key2": "value2"}),
    ({"value_grouping": True}, "a=http://x/?b=1&c=2 d&e=1", {"a": "http://x/?b=1&c=2 d", "e": "1"}),
    ({"drop_keys_with_no_value": True}, "key1=value1&key2", {"key1": "value1"}),
    ({"field_split_characters": "&!"}, "key1=value1&key1=value2!key1", {"key1": ["value1", "value2", None]}),
    ({"value_split_characters": "=:"}, "key1=value1&key2:value2", {"key1": "value1", "key2": "value2"}),
    (
        {"field_split_characters": r"\[;\t", "value_split_characters": "|"},
        "a|1[b|2;c|3\td",
        {**AB, "c": "3", "d": None},
    ),
    ({"field_split_characters": None, "field_delimiter_regex": ":_*:"}, "a=1:___:b=2", AB),
    ({"normalize_keys": True}, "a b$=1&c.d=2", {"a_b_": "1", "c.d": "2"}),
    (
        {"recursive": True},
        "item1=[item1-subitem1=item1-subitem1-value&item1-subitem2=(a=1&b=2)]&item2=item2-value&item3",
        {
            "item1": {"item1-subitem1": "item1-subitem1-value", "item1-subitem2": AB},
            "item2": "item2-value",
            "item3": None,
        },
    ),
    ({"recursive": True, "field_split_characters": ","}, "a=1,b=2", AB),
    ({"recursive": True}, "a=[b&c=<d=1>", {"a": "[b&c=<d=1>"}),
    ({"recursive": True}, "a=[b=1&b=2]&c=3&c=4", {"a": {"b": ["1", "2"]}, "c": ["3", "4"]}),
    ({"value_split_characters": "=:"}, "a\0b=1\0:2", {"a\0b": "1\0:2"}),
    (
        {"value_grouping": True, "string_literal_character": '"', "drop_keys_with_no_value": True, **SPACE},
        'text1 "key1=value1" text2 key2=value2',
        {"key2": "value2"},
    ),
    ({"value_grouping": True, **SPACE}, r'a="x \" y" b=2', {"a": r'"x \" y"', "b": "2"}),
    ({"value_grouping": True, **SPACE}, "(a b=1 c=(d", {"(a": None, "b": "1", "c": "(d"}),
    (
        {
            "transform_key": "lowercase",
            "delete_key_regex": r"\s+",
            "delete_value_regex": r"^\s+|\s+$",
            "prefix": "meta_",
            "skip_duplicate_values": True,
            "drop_keys_with_no_value": True,
        },
        "key1=value1&key1=value1&Key Two = value two & empty=&novalue",
        {"meta_key1": "value1", "meta_keytwo": "value two", "meta_empty": ""},
    ),
]


@pytest.mark.parametrize(("options", "text", "after"), KEY_VALUES)
def test_key_value(options: dict[str, Any], text: str, after: Any) -> None:
    source = options.get("source", "message")
    assert ran({"key_value": options}, {source: text}) == [{source: text, "parsed_message": after}]


def test_a_group_without_an_end_is_an_error_if_groups_are_strict() -> None:
    strict = {"value_grouping": True, "strict_grouping": True}
    outcome = run([{"key_value": strict}], {"message": "a=[b&c=1"}, {"message": "a=[b]&c=http://x"})
    assert outcome.events == [{"message": "a=[b]&c=http://x", "parsed_message": {"a": "[b]", "c": "http://x"}}]
    assert "a group has no end" in outcome.failed[0]["reason"]
    tagged = run([{"key_value": {**strict, "tags_on_failure": ["kv"]}}], {"message": "a=[b&c=1"})
    assert (tagged.events, tagged.tags) == ([{"message": "a=[b&c=1"}], [["kv"]])


def test_brackets_without_an_end_or_very_deep_ones_take_linear_time() -> None:
    many = "(" * 200_000
    deep = "a=[" * 20_000 + "]" * 20_000
    assert ran({"key_value": {"value_grouping": True}}, {"message": many}) == [
        {"message": many, "parsed_message": {many: None}}
    ]
    outcome = run([{"key_value": {"recursive": True}}], {"message": deep}, {"message": "a=1"})
    assert outcome.failed == []
    assert outcome.events[1]["parsed_message"] == {"a": "1"}


def test_grouped_values_to_the_root() -> None:
    processor = {
        "key_value": {
            "source": "payload",
            "destination": None,
            "field_split_characters": "&&",
            "value_split_characters": None,
            "key_value_delimiter_regex": "==",
            "value_grouping": True,
            "overwrite_if_destination_exists": False,
        }
    }
    first = {"payload": "a==1&&b==[x=y,z=w]&&c==(inner=thing)&&http==http://example.com path", "a": "keep-me"}
    second = {"payload": "good==yes&&broken-token&&url==https://opensearch.org home", "note": "second doc"}
    assert ran(processor, first, second) == [
        {**first, "b": "[x=y,z=w]", "c": "(inner=thing)", "http": "http://example.com path"},
        {**second, "good": "yes", "broken-token": None, "url": "https://opensearch.org home"},
    ]


SALT = "0123456789abcdef"


def hash_of(salt: str, text: str) -> str:
    return base64.b64encode(hashlib.sha512((salt + text).encode()).digest()).decode()


@pytest.mark.parametrize(
    ("options", "event", "after"),
    [
        pytest.param(
            {
                "source": "log",
                "target": "new_log",
                "patterns": ["[A-Za-z0-9+_.-]+@([\\w-]+\\.)+[\\w-]{2,4}"],
                "action": {"mask": {"mask_character": "#", "mask_character_length": 6}},
            },
            {"log": "my email address is abc@example.com"},
            {"log": "my email address is abc@example.com", "new_log": "my email address is ######"},
            id="obfuscate: usage",
        ),
        pytest.param({"source": "phone"}, {"phone": "(555) 555 5555"}, {"phone": "***"}, id="obfuscate: the whole"),
        pytest.param(
            {"source": "log", "patterns": ["%{EMAIL_ADDRESS}", "x+"], "action": {"hash": {"salt": SALT}}},
            {"log": "a b@c.de xx"},
            {"log": f"a {hash_of(SALT, 'b@c.de')} {hash_of(SALT, 'xx')}"},
            id="obfuscate: the hash of parts",
        ),
        pytest.param(
            {"source": "a", "target": "b", "action": {"hash": {"salt": SALT, "salt_key": "own"}}},
            {"a": "text", "own": "pepper"},
            {"a": "text", "own": "pepper", "b": hash_of("pepper", "text")},
            id="obfuscate: a salt of the event",
        ),
        pytest.param(
            {"source": "a", "action": {"hash": {"salt": SALT, "salt_key": "own"}}},
            {"a": "text"},
            {"a": hash_of(SALT, "text")},
            id="obfuscate: no salt in the event",
        ),
        pytest.param(
            {"source": "n", "patterns": ["cat"], "single_word_only": True}, {"n": "cat concat"}, {"n": "*** concat"}
        ),
    ],
)
def test_obfuscate(options: dict[str, Any], event: Any, after: Any) -> None:
    assert ran({"obfuscate": options}, event) == [after]


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("EMAIL_ADDRESS", ["abc@test.com", "a-b@test.com", "abc@test.mail.com.org", "abc_123@test.com"]),
        ("IP_ADDRESS_V4", ["1.1.1.1", "192.168.1.1", "255.255.255.0"]),
        ("BASE_NUMBER", ["1.1", ".1", "2000"]),
        ("CREDIT_CARD_NUMBER", ["5555555555554444", "1234 5678 9012 3456", "1234-5678-9012-3456"]),
        ("US_PHONE_NUMBER", ["1555 555 5555", "5555555555", "1-(555)-555-5555", "(555) 555 5555", "+1-555-555-5555"]),
        ("US_SSN_NUMBER", ["123-11-1234"]),
    ],
)
def test_predefined_patterns_hide_the_documented_samples(name: str, samples: list[str]) -> None:
    processor = {"obfuscate": {"source": "a", "patterns": [f"%{{{name}}}"]}}
    assert ran(processor, *({"a": sample} for sample in samples)) == [{"a": "***"}] * len(samples)


@pytest.mark.parametrize(
    ("processor", "message"),
    [
        ({"dissect": {"map": {"a": "%{x}%{y}"}}}, "two fields need a text between them"),
        ({"dissect": {"map": {"a": "x"}}}, "needs at least one field"),
        ({"obfuscate": {"source": "a", "patterns": ["%{EMAIL}"]}}, "is not one of"),
        ({"parse_json": {"destination": "/"}}, "must not be empty or a slash"),
        ({"csv": {"delimiter": '"'}}, "must differ"),
        ({"key_value": {"recursive": True, "remove_brackets": True}}, "cannot be combined with recursive"),
        ({"key_value": {"string_literal_character": '"'}}, "needs value_grouping"),
        ({"key_value": {"field_split_characters": None}}, "one of field_split_characters and field_delimiter_regex"),
    ],
)
def test_settings_that_cannot_work_are_refused(processor: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsErrors, match=message):
        plugins(processor)


def test_keys_with_other_characters_are_normalized_in_objects_but_not_in_lists() -> None:
    processor = {"parse_json": {"normalize_keys": True, "delete_source": True}}
    text = '{"a b": {"c:d": 1}, "l": [{"e f": 2}], "(x)-[y]": 1}'
    assert ran(processor, {"message": text}) == [{"a_b": {"c_d": 1}, "l": [{"e f": 2}], "(x)-[y]": 1}]
    [failed] = run([processor], {"message": '{"a b": 1, "a_b": 2}'}).failed
    assert failed["reason"].endswith("two keys would become the same")


def test_csv_of_several_lines_makes_an_event_of_each() -> None:
    processor = {"csv": {"multiline": True, "normalize_keys": True, "delete_source": True}}
    text = 'a b,c\u2028\r\n1,2\n\n"x\ny",z,9\n'
    outcome = run(
        [processor], {"message": text, "k": [1]}, {"message": "a,b"}, {"message": 5}, {"message": 'a\n"1'}, {}
    )
    assert outcome.events == [
        {"k": [1], "a_b": "1", "c_": "2"},
        {"k": [1], "a_b": "x\ny", "c_": "z", "column3": "9"},
        {"message": "a,b"},
        {"message": 5},
        {},
    ]
    assert outcome.processed.added == 1
    assert [row["field"] for row in outcome.failed] == ["message"]


@pytest.mark.parametrize(
    ("pattern", "text", "after"),
    [
        ("%{a} %{b}", "x   y", {"a": "x  ", "b": "y"}),
        ("%{a->} %{b}", "x \t  y z", {"a": "x", "b": "y z"}),
        ("%{a->}: %{b}", "x  : y", {"a": "x", "b": "y"}),
        ("%{a->}--%{b}", "x----y", {"a": "x", "b": "--y"}),
        ("%{a}  %{b}", "x   y", {"a": "x ", "b": "y"}),
    ],
)
def test_dissect_takes_the_last_of_several_spaces_and_cuts_padding(pattern: str, text: str, after: Any) -> None:
    assert ran({"dissect": {"map": {"m": pattern}, "delete_source": True}}, {"m": text}) == [after]


def test_key_value_ends_with_a_delimiter_that_matches_nothing() -> None:
    pairs = {"key_value": {"destination": "d", "field_delimiter_regex": ";*", "value_split_characters": "="}}
    assert ran(pairs, {"message": "a;b"}) == [{"message": "a;b", "d": {"a": None, "b": None}}]


@pytest.mark.parametrize("name", ["parse_json", "parse_xml", "parse_ion"])
def test_a_parsed_object_that_cannot_be_put_is_not_lost(name: str) -> None:
    text = {"parse_json": '{"x":1}', "parse_xml": "<r><x>1</x></r>", "parse_ion": "{x: 1}"}[name]
    options, event = {"destination": "a/b", "delete_source": True}, {"message": text, "a": "text"}
    before = {"add_entries": {"entries": [{"key": "z", "value": 1}]}}
    [failed] = run([before, {name: options}], event).failed
    assert failed["field"] == "a.b"
    tagged = run([before, {name: {**options, "tags_on_failure": ["odd"]}}], event)
    assert (tagged.events, tagged.tags) == ([{**event, "z": 1}], [["odd"]])
    assert run([before, {name: {**options, "handle_failed_events": "skip"}}], event).events == [{**event, "z": 1}]


@pytest.mark.parametrize("text", ["a,a\n1,2", "a b,a!b\n1,2"])
def test_csv_loses_no_value_of_two_columns_with_one_key(text: str) -> None:
    [failed] = run([{"csv": {"multiline": True, "normalize_keys": True}}], {"message": text}).failed
    assert failed["reason"].endswith("two columns have this key")
