"""The examples of Data Prepper's documentation for processors of strings; the cases are named after its pages."""

from __future__ import annotations

from typing import Any

import pytest

from calve.settings.problems import SettingsErrors
from processors.chains import plugins, ran


@pytest.mark.parametrize(
    ("processor", "event", "after"),
    [
        pytest.param(
            {"lowercase_string": {"with_keys": ["lowercaseField"]}},
            {"lowercaseField": "TESTmeSSage"},
            {"lowercaseField": "testmessage"},
            id="lowercase-string",
        ),
        pytest.param(
            {"uppercase_string": {"with_keys": ["uppercaseField"]}},
            {"uppercaseField": "hello"},
            {"uppercaseField": "HELLO"},
            id="uppercase-string",
        ),
        pytest.param(
            {"trim_string": {"with_keys": ["trimField"]}},
            {"trimField": " Space Ship "},
            {"trimField": "Space Ship"},
            id="trim-string",
        ),
        pytest.param(
            {"substitute_string": {"entries": [{"source": "message", "from": ":", "to": "-"}]}},
            {"message": "ab:cd:ab:cd"},
            {"message": "ab-cd-ab-cd"},
            id="substitute-string",
        ),
        pytest.param(
            {"substitute_string": {"entries": [{"source": "m", "from": "(a)(?:x|(?P<n>b))", "to": r"${n}\$$1"}]}},
            {"m": "ab-ac"},
            {"m": "b$a-ac"},
            id="substitute-string: groups",
        ),
        pytest.param(
            {
                "split_string": {
                    "entries": [
                        {"source": "csv_line", "delimiter": ","},
                        {"source": "tags", "delimiter": "|"},
                        {"source": "path", "delimiter": "/"},
                        {"source": "semicolons", "delimiter_regex": ";\\s*"},
                    ]
                }
            },
            {"csv_line": "x,y", "tags": "beta|test", "path": "usr/local/bin", "semicolons": "alpha;beta ; gamma"},
            {
                "csv_line": ["x", "y"],
                "tags": ["beta", "test"],
                "path": ["usr", "local", "bin"],
                "semicolons": ["alpha", "beta ", "gamma"],
            },
            id="split-string",
        ),
        pytest.param(
            {"split_string": {"entries": [{"source": "a", "delimiter": ","}]}},
            {"a": ",x,,"},
            {"a": ["", "x"]},
            id="split-string: empty parts at the end are left out",
        ),
        pytest.param(
            {"string_converter": {}}, {"a": "x", "b/c": "y", "n": 1}, {"a": "X", "b/c": "Y", "n": 1}, id="upper"
        ),
        pytest.param({"string_converter": {"upper_case": False}}, {"a": "X"}, {"a": "x"}, id="string-converter: lower"),
        pytest.param(
            {
                "truncate": {
                    "entries": [
                        {"source_keys": ["message1", "message2"], "length": 5},
                        {"source_keys": ["info"], "length": 6, "start_at": 4},
                        {"source_keys": ["log"], "start_at": 5},
                    ]
                }
            },
            {
                "message1": "hello,world",
                "message2": "test message",
                "info": "new information",
                "log": "test log message",
            },
            {"message1": "hello", "message2": "test ", "info": "inform", "log": "log message"},
            id="truncate: minimum configuration",
        ),
        pytest.param(
            {
                "truncate": {
                    "entries": [{"source_keys": ["message"], "length": 5, "start_at": 7, "truncate_when": "/id == 1"}]
                }
            },
            {"message": "hello, world", "id": 1},
            {"message": "world", "id": 1},
            id="truncate: truncate_when",
        ),
        pytest.param(
            {"truncate": {"entries": [{"length": 1, "recursive": True}]}},
            {"a": "xy", "b": ["xy", 12], "c": {"d": "xy"}},
            {"a": "x", "b": ["x", 12], "c": {"d": "x"}},
            id="truncate: all keys, lists and objects",
        ),
    ],
)
def test_a_string_becomes_what_the_documentation_shows(processor: dict[str, Any], event: Any, after: Any) -> None:
    assert ran(processor, event) == [after]


def test_values_that_are_no_strings_stay_as_they_are() -> None:
    event = {"a": 1, "b": None, "c": ["X"]}
    assert ran({"lowercase_string": {"with_keys": ["a", "b", "c", "d"]}}, event) == [event]


def test_events_for_which_truncate_when_is_false_stay() -> None:
    entry = {"source_keys": ["message"], "length": 5, "truncate_when": "/id == 1"}
    event = {"message": "hello, world,not-truncated", "id": 2}
    assert ran({"truncate": {"entries": [entry]}}, event) == [event]


def test_a_pattern_that_java_would_need_exponential_time_for_takes_linear_time() -> None:
    processor = {"substitute_string": {"entries": [{"source": "a", "from": "(x+x+)+y", "to": ""}]}}
    assert ran(processor, {"a": "x" * 50_000}) == [{"a": "x" * 50_000}]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"source": "a", "from": "(", "to": ""}, "not a valid regular expression"),
        ({"source": "a", "from": "a(?!b)", "to": ""}, "Lookaround"),
        ({"source": "a", "from": "a", "to": "$1"}, "not a group of the pattern"),
        ({"source": "a", "to": ""}, "from: is required"),
    ],
)
def test_patterns_that_cannot_work_are_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsErrors, match=message):
        plugins({"substitute_string": {"entries": [entry]}})


@pytest.mark.parametrize(
    ("regex", "text", "parts"),
    [
        ("x*", "axb", ["a", "b"]),
        (r"\s*", "a b", ["a", "b"]),
        (",", ",,", []),
        ("(?<n>,)", ",a,", ["", "a"]),
        (",", "", [""]),
    ],
)
def test_a_delimiter_that_matches_nothing_ends_and_only_delimiters_are_no_parts(
    regex: str, text: str, parts: list[str]
) -> None:
    processor = {"split_string": {"entries": [{"source": "s", "delimiter_regex": regex}]}}
    assert ran(processor, {"s": text}) == [{"s": parts}]


@pytest.mark.parametrize(
    ("regex", "to", "after"),
    [
        ("(a)", "$12", "a2b"),
        ("(?<n>a)(b)", "$2-${n}", "b-a"),
        (r"[(?<]?(?<n>a)\(?", "${n}${n}", "aab"),
        ("(a)", r"\$1\1", "$11b"),
    ],
)
def test_a_replacement_means_what_it_means_in_java(regex: str, to: str, after: str) -> None:
    assert ran({"substitute_string": {"entries": [{"source": "s", "from": regex, "to": to}]}}, {"s": "ab"}) == [
        {"s": after}
    ]


@pytest.mark.parametrize("to", ["$2", "${m}", "$", "a\\"])
def test_a_replacement_that_java_refuses_is_refused(to: str) -> None:
    with pytest.raises(SettingsErrors, match="is not a group of the pattern"):
        plugins({"substitute_string": {"entries": [{"source": "s", "from": "(?<n>a)", "to": to}]}})


def test_a_text_with_every_character_that_could_mark_a_match_is_split() -> None:
    text = "".join(map(chr, (0, *range(0xE000, 0xF900), *range(0xF0000, 0xF1000))))
    processor = {"split_string": {"entries": [{"source": "s", "delimiter_regex": ","}]}}
    assert ran(processor, {"s": f"{text},{text}"}, {"s": "a,b"}) == [{"s": [text, text]}, {"s": ["a", "b"]}]
