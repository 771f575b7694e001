import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

Read = Callable[..., Any]


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ("port: 80", "port", 80),
        ("ratio: 1", "ratio", 1.0),
        ("ratio: 1.5e3", "ratio", 1500.0),
        ("flag: true", "flag", True),
        ("mode: dlq", "mode", "dlq"),
        ("mode: null", "mode", "null"),
        ("mode:", "mode", "null"),
        ("mode: 'null'", "mode", "null"),
        ("wait: 5m", "wait", timedelta(minutes=5)),
        ("wait: PT5M", "wait", timedelta(minutes=5)),
        ("wait: 90d", "wait", timedelta(days=90)),
        ("timeout: 1500", "timeout", timedelta(seconds=1.5)),
        ("timeout: 1h", "timeout", timedelta(hours=1)),
        ("limit: 1.5kb", "limit", 1536),
        ("folder: /tmp/x", "folder", Path("/tmp/x")),
        ("folder: null", "folder", None),
        ("path: b", "path", "b"),
        ("path: [b, c]", "path", ["b", "c"]),
        ("headers: {a: 1, b: true, c: 010, d: 1.50}", "headers", {"a": "1", "b": "true", "c": "010", "d": "1.50"}),
        ("anything: {a: [1, null, x]}", "anything", {"a": [1, None, "x"]}),
        ("password: 123456789", "password", "123456789"),
    ],
)
def test_a_value_is_read_as_its_option_wants_it(source: Read, options: str, key: str, value: Any) -> None:
    assert getattr(source(options), key) == value


def test_an_absent_key_has_its_default(source: Read) -> None:
    read = source("")
    assert (read.port, read.flag, read.mode, read.limit, read.topics) == (2021, False, "null", 64 << 20, [])


def test_a_default_list_belongs_to_one_instance(source: Read) -> None:
    assert source("").topics is not source("").topics


@pytest.mark.parametrize("options", ["codec: {csv: }", "codec: {csv: {}}", "codec: {csv: null}"])
def test_a_key_without_a_value_is_a_map_of_defaults(source: Read, options: str) -> None:
    codec = source(options).codec
    assert codec.csv.delimiter == ","
    assert codec.json is None


def test_an_optional_map_without_a_value_is_one_of_defaults(source: Read) -> None:
    assert source("backup:").backup is not None
    assert source("").backup is None


def test_an_alias_is_the_same_option(source: Read) -> None:
    assert [topic.name for topic in source("themes: [{name: a}]").topics] == ["a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("port: x", "port: expected a whole number, found 'x'"),
        ("port: '80'", "port: expected a whole number, found '80'"),
        ("port: 1.5", "port: expected a whole number, found 1.5"),
        ("port: true", "port: expected a whole number, found true"),
        ("port:", "port: expected a whole number, found nothing"),
        ("port: [1]", "port: expected a whole number, found a list"),
        ("port: 1_000", "port: expected a whole number, found '1_000'"),
        ("port: -1", "port: must be at least 0, not -1"),
        ("port: 65536", "port: must be at most 65535, not 65536"),
        ("ratio: .nan", "ratio: expected a number, found '.nan'"),
        ("flag: yes", "flag: expected true or false, found 'yes'"),
        ("flag: 'true'", "flag: expected true or false, found 'true'"),
        ("flag: 1", "flag: expected true or false, found 1"),
        ("mode: dql", "mode: expected one of null, dlq, found 'dql'"),
        ("mode: {}", "mode: expected one of null, dlq, found a map"),
        ("wait: 5", "wait: durations are written 500ms, 30s, 5m, 1h, 90d or as ISO 8601 (PT5M), found 5"),
        ("wait: 1ms", "wait: must be at least 2ms, not 1ms"),
        ("timeout: -1", "timeout: a duration cannot be negative, found -1"),
        ("limit: 100", "limit: a size needs a unit: b, kb, mb, gb or tb, e.g. 64mb, found 100"),
        ("limit: 1b", "limit: must be at least 1kb, not 1b"),
        ("topics: a", "topics: expected a list, found 'a'"),
        ("topics: [{name: a}, {name: b}, {name: c}]", "topics: must be at most 2 elements long"),
        ("topics: [{}]", "topics[0].name: is required but missing"),
        ("topics: [{name: a, workers: 0}]", "topics[0].workers: must be at least 1, not 0"),
        ("topics: [{name: bad}]", "topics[0].name: is bad"),
        ("topics: [{name: a}], themes: []", "topics: themes means the same as topics; set only one"),
        ("path: {}", "path: expected text or a list of text, found a map"),
        ("path: [a, [b]]", "path[1]: expected text, found a list"),
        ("headers: [a]", "headers: expected a map, found a list"),
        ("headers: {a: null}", "headers.a: expected text, found nothing"),
        ("codec: csv", "codec: expected a map, found 'csv'; write {csv: {}}"),
        ("codec: {csv: {delimiter: ab}}", "codec.csv.delimiter: must be at most 1 character long"),
        ("codec: {cvs: }", "codec.cvs: unknown key 'cvs'; did you mean csv? (known: csv, json)"),
        ("even: 3", "even: 3 is odd. Add one"),
        ("flag: true, port: 0", "port: cannot be 0 while `flag` is true"),
        ("prot: 1", None),
    ],
)
def test_a_wrong_value_is_told_with_what_was_expected(complaint: Read, options: str, message: str | None) -> None:
    if message is None:
        assert complaint(options).startswith("prot: unknown key 'prot'; did you mean port? (known: anything, backup,")
    else:
        assert complaint(options) == message


def test_a_value_is_checked_on_its_own_whatever_is_wrong_beside_it(refused: Read) -> None:
    assert refused("p: {source: {every: {port: x, even: 1}}, sink: [every: ]}") == [
        "1:28: p.source.every.port: expected a whole number, found 'x'",
        "1:37: p.source.every.even: 1 is odd. Add one",
    ]


def test_a_secret_shows_neither_in_reprs_nor_in_errors(source: Read, complaint: Read) -> None:
    assert "geheimnis" not in repr(source("password: geheimnis"))
    assert complaint("password: geheim") == "password: must be at least 8 characters long"
    assert complaint("password: [geheim]") == "password: expected text"
    assert "geheim" not in complaint("port: '${env:TOKEN}'", {"TOKEN": "geheim"})


def test_a_secret_that_looks_like_a_variable_of_a_shell_is_refused(source: Read, complaint: Read) -> None:
    assert complaint("password: '${SECRET_KEY}'").endswith("to read an environment variable write ${env:SECRET_KEY}")
    assert source("password: '${env:KEY}'", {"KEY": "${LITERAL}"}).password == "${LITERAL}"


def test_settings_are_frozen_and_pickle(source: Read) -> None:
    read = source("topics: [{name: a}], codec: {csv: }, wait: 1s")
    assert pickle.loads(pickle.dumps(read)) == read
    with pytest.raises(AttributeError):
        read.port = 1
