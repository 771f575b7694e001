from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Read = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "1:1: the file is empty; it must contain at least one pipeline"),
        ("# nothing\n", "1:1: the file is empty; it must contain at least one pipeline"),
        ("---\n", "2:1: expected pipelines by name (a map), found nothing"),
        ("just text", "1:1: expected pipelines by name (a map), found 'just text'"),
        ("\n- a\n", "2:1: expected pipelines by name (a map), found a list"),
        ("p:\n  a: [1,\n", "3:1: this is not YAML: while parsing a flow node, expected the node content"),
        ("p:\n\ta: 1\n", "2:1: a tab; YAML is indented with spaces"),
        ("p:\n  a: {}\n   b: 2\n", "3:4: this line is indented differently from those above it"),
        ("p:\n  a: 1\n   b: 2\n", "3:5: a second `:` in one line, or a line that is indented too far"),
        ("p:\n  a:\n    - b: 1\n   - c: 1\n", "4:4: this line is indented differently from those above it"),
        ("p:\n  a: b: 1\n", "2:7: a second `:` in one line"),
        ("a: 1\n---\nb: 2\n", "2:1: a second YAML document; a file contains only one"),
        ("p: *x\n", "1:4: the alias *x has no anchor before it"),
        ("p: &x [*x]\n", "1:8: the alias *x has no anchor before it"),
        ("a: 1\nb: \x07\n", "2:4: a control character, which YAML does not allow"),
        ('p: "\\UFFFFFFFF"', "1:1: this is not YAML"),
        ("p: " + "[" * 41 + "]" * 41, "1:44: nested more than 40 levels deep"),
        ("p: {s: ${env:A}}", "1:9: this is not YAML"),
    ],
)
def test_what_is_no_configuration_is_one_error_in_its_place(refused: Read, text: str, error: str) -> None:
    (line,) = refused(text)
    assert line.startswith(error)


def test_an_unquoted_format_string_in_a_flow_map_gets_a_hint(refused: Read) -> None:
    (line,) = refused("p: {source: ${/a}}")
    assert line.endswith("text with ${…} needs quotes here")


def test_deep_nesting_is_refused_before_it_can_do_harm(refused: Read) -> None:
    (line,) = refused("p: " + "[" * 100_000)
    assert line == "1:44: nested more than 40 levels deep"


def test_aliases_that_multiply_are_refused(refused: Read) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (line,) = refused("\n".join(lines))
    assert line == "5:5: more than 50,000 values"


def test_an_alias_stands_for_its_anchor(source: Read) -> None:
    assert source("path: &p x, headers: {a: *p}").headers == {"a": "x"}


def test_a_key_twice_is_an_error_with_the_line_of_the_first(refused: Read) -> None:
    errors = refused("p:\n  source: {every: }\n  sink:\n    - every:\n        port: 1\n        port: 2\np: {}\n")
    assert errors == [
        "6:9: the key 'port' appears twice; first on line 5",
        "7:1: the key 'p' appears twice; first on line 1",
    ]


def test_keys_that_are_no_text_and_tags_are_refused(complaint: Read) -> None:
    assert complaint("headers: {[a]: b}") == "a key must be a text"
    assert complaint("headers: {a: !!binary aGk=}") == "the YAML tag 'tag:yaml.org,2002:binary' is not supported"
    assert complaint("headers: {a: !secret x}") == "the YAML tag '!secret' is not supported"


def test_half_a_surrogate_pair_and_nul_are_refused(complaint: Read) -> None:
    assert complaint('headers: {a: "\\ud800"}').startswith("an invalid character")
    assert complaint('headers: {a: "\\0"}').startswith("an invalid character")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("'${env:A}'", "eins"),
        ("'x-${env:A}-${env:B}'", "x-eins-zwei"),
        ("'${env:NONE:-fallback}'", "fallback"),
        ("'${env:NONE:-}'", ""),
        ("'${env:EMPTY:-fallback}'", "fallback"),
        ("'${env:EMPTY}'", ""),
        ("'${env:NONE:-a:-b}'", "a:-b"),
        ("'${/field}.${getMetadata(\"k\")}'", '${/field}.${getMetadata("k")}'),
        ("'${env:A}.${/field}'", "eins.${/field}"),
        ("'${env:TRICK}'", "${env:A}"),
    ],
)
def test_an_environment_variable_is_replaced_once_and_format_strings_stay(source: Read, value: str, text: str) -> None:
    environment = {"A": "eins", "B": "zwei", "EMPTY": "", "TRICK": "${env:A}"}
    assert source(f"path: {value}", environment).path == text


def test_text_from_the_environment_may_stand_for_any_scalar(source: Read) -> None:
    environment = {"PORT": "80", "ON": "true", "WAIT": "5m", "MODE": "dlq"}
    read = source("port: '${env:PORT}', flag: '${env:ON}', wait: '${env:WAIT}', mode: '${env:MODE}'", environment)
    assert (read.port, read.flag, read.wait.seconds, read.mode) == (80, True, 300, "dlq")


def test_a_variable_that_is_not_set_is_one_error_naming_it(complaint: Read) -> None:
    expected = "the environment variable PORT is not set; set it, or give ${env:PORT:-default}"
    assert complaint("port: '${env:PORT}'") == expected


@pytest.mark.parametrize("text", ["${env:}", "${env:1A}", "${env:A B}", "${env:A"])
def test_a_misspelt_variable_is_told(complaint: Read, text: str) -> None:
    assert complaint(f"path: '{text}'", {"A": "x"}) == "write ${env:NAME} or ${env:NAME:-default}"


def test_a_wrong_value_from_the_environment_shows_the_variable_not_the_value(complaint: Read) -> None:
    assert complaint("port: '${env:PORT}'", {"PORT": "x"}) == "port: expected a whole number, found '${env:PORT}'"


@pytest.mark.parametrize("environment", [{}, {"PORT": "x-y-z"}])
def test_the_default_of_a_variable_is_not_shown(complaint: Read, environment: dict[str, str]) -> None:
    said = complaint("port: '${env:PORT:-hunter2}'", environment)
    assert said == "port: expected a whole number, found '${env:PORT}'"


def test_a_check_that_says_the_value_says_the_variable_instead(complaint: Read) -> None:
    assert complaint("even: '${env:COUNT}'", {"COUNT": "12345"}) == "even: ${env:COUNT} is odd. Add one"


@pytest.mark.parametrize(
    ("content", "value"),
    [(b"geheim\n", "geheim"), (b"a\r\n", "a"), (b" two\n\n", " two\n"), (b"", ""), (b"${env:A}", "${env:A}")],
)
def test_a_file_is_read_without_the_line_end_behind_it(
    source: Read, tmp_path: Path, content: bytes, value: str
) -> None:
    (tmp_path / "secret").write_bytes(content)
    assert source(f"path: 'x-${{file:{tmp_path}/secret}}'", {"A": "eins"}).path == f"x-{value}"


def test_text_from_a_file_may_stand_for_a_number(source: Read, tmp_path: Path) -> None:
    (tmp_path / "port").write_text("80\n")
    assert source(f"port: '${{file:{tmp_path}/port}}'").port == 80


def test_a_file_that_cannot_be_read_is_named_and_its_content_never_shown(complaint: Read, tmp_path: Path) -> None:
    assert complaint("path: '${file:/no/such}'") == "the file '/no/such' cannot be read: no such file or directory"
    assert complaint(f"path: '${{file:{tmp_path}}}'").endswith("cannot be read: is a directory")
    assert complaint("path: '${file:}'") == complaint("path: '${file:/a'") == "write ${file:PATH}"
    secret = tmp_path / "secret"
    secret.write_bytes(b"\xffgeheim")
    assert complaint(f"path: '${{file:{secret}}}'") == f"the file '{secret}' is not UTF-8 text"
    secret.write_bytes(b"x" * 70_000)
    assert complaint(f"path: '${{file:{secret}}}'").endswith("has more than 64 KiB; it should contain one value")
    secret.write_bytes(b"geheim")
    assert "geheim" not in complaint(f"port: '${{file:{secret}}}'")


def test_aws_secrets_are_refused_with_the_way_out(complaint: Read) -> None:
    assert (
        complaint("path: '${{aws_secrets:a:b}}'")
        == "${{aws_secrets:…}} is not supported; use ${env:NAME} or ${file:PATH}"
    )


def test_an_environment_variable_that_is_no_text_is_refused(complaint: Read) -> None:
    expected = "the environment variable A is not UTF-8 text"
    assert complaint("path: '${env:A}'", {"A": b"\xff".decode(errors="surrogateescape")}) == expected


def test_aliases_do_not_hide_how_deep_a_file_is(refused: Read) -> None:
    steps = "\n".join(f"a{n}: &a{n} {'[' * 10}*a{n - 1}{']' * 10}" for n in range(1, 200))
    (line,) = refused(f"a0: &a0 x\n{steps}\np: *a199")
    assert "nested more than 40 levels deep" in line


def test_long_keys_above_very_many_values_are_refused(refused: Read) -> None:
    keys = "".join(f"{' ' * depth}? {'k' * 10_000}\n{' ' * depth}:\n" for depth in range(9))
    (line,) = refused(f"{keys}{' ' * 9}[{', '.join(['1'] * 2_000)}]")
    assert "keys that are too long for so many values below them" in line
