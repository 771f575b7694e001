"""`grok`: the examples of Data Prepper's documentation, and the standard patterns."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from calve.pipeline.plugins import PLUGINS
from calve.processors.grok import compile_grok
from calve.processors.grok_patterns import PATTERNS
from calve.settings import parse_text
from calve.settings.problems import SettingsErrors
from processors.chains import plugins, ran, run

APACHE = (
    '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache.gif HTTP/1.0" 200 2326 '
    '"http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)"'
)
LOGIN = '192.168.1.5 - - [13/Oct/2025:17:42:10 +0000] "POST /login HTTP/1.1" 302 512 "-" "curl/8.5.0"'


def grok(*patterns: str, **more: Any) -> dict[str, Any]:
    return {"grok": {"match": {"message": list(patterns)}, **more}}


def test_apache_access_logs() -> None:
    first, second = ran(grok("%{COMBINEDAPACHELOG}", target_key="parsed"), {"message": APACHE}, {"message": LOGIN})
    assert first["parsed"] == {
        "request": "/apache.gif",
        "referrer": "http://www.example.com/start.html",
        "agent": "Mozilla/4.08 [en] (Win98; I ;Nav)",
        "auth": "frank",
        "ident": "-",
        "response": "200",
        "bytes": "2326",
        "clientip": "127.0.0.1",
        "verb": "GET",
        "httpversion": "1.0",
        "timestamp": "10/Oct/2000:13:55:36 -0700",
    }
    assert (second["parsed"]["clientip"], second["parsed"]["referrer"]) == ("192.168.1.5", "-")


def test_application_logs_with_custom_patterns() -> None:
    text = r"%{TIMESTAMP_ISO8601:timestamp} \[%{LOGLEVEL:level}\] %{DATA:component} - %{GREEDYDATA:details}"
    processor = grok(text, pattern_definitions={"LOGLEVEL": "(?:INFO|WARN|ERROR|DEBUG|TRACE)"}, target_key="parsed")
    [found] = ran(processor, {"message": "2025-10-13 14:30:45 [INFO] UserService - User login successful"})
    assert found["parsed"] == {
        "component": "UserService",
        "level": "INFO",
        "details": "User login successful",
        "timestamp": "2025-10-13 14:30:45",
    }


@pytest.mark.parametrize(
    ("processor", "event", "after"),
    [
        (grok("%{WORD:a} %{NUMBER:n:int}"), {"message": "x 12"}, {"a": "x", "n": 12}),
        (grok("%{NUMBER:n:double}"), {"message": "1.5"}, {"n": 1.5}),
        (grok("%{WORD:n:boolean}"), {"message": "true"}, {"n": True}),
        (grok("(?<first>[a-z]+)-(x|y)"), {"message": "ab-x"}, {"first": "ab"}),
        (grok("%{WORD:a}-%{WORD:a}"), {"message": "x-y"}, {"a": ["x", "y"]}),
        (grok("%{WORD:a}"), {"message": "x", "a": "before"}, {"a": ["before", "x"]}),
        (grok("%{WORD:a}", keys_to_overwrite=["a"]), {"message": "x", "a": "before"}, {"a": "x"}),
        (grok("%{INT:n}", "%{WORD:a}"), {"message": "x"}, {"a": "x"}),
        (grok("%{WORD:a}", "%{WORD:b}"), {"message": "x"}, {"a": "x"}),
        (grok("%{WORD:a}", "%{WORD:b}", break_on_match=False), {"message": "x"}, {"a": "x", "b": "x"}),
        (grok("%{WORD}", named_captures_only=False), {"message": "x"}, {"WORD": "x"}),
        (grok("%{WORD:a}(?: %{WORD:b})?"), {"message": "x"}, {"a": "x"}),
        (grok("%{WORD:a}(?: %{WORD:b})?", keep_empty_captures=True), {"message": "x"}, {"a": "x", "b": None}),
        (grok("%{WORD:o/a}"), {"message": "x"}, {"o": {"a": "x"}}),
        (grok(r"[(](?P<a>\w)\)"), {"message": "(x)"}, {"a": "x"}),
        (grok("%{INT:n}"), {"message": "x"}, {}),
        (grok("%{INT:n}"), {"message": 5}, {}),
    ],
)
def test_captures(processor: dict[str, Any], event: Any, after: Any) -> None:
    assert ran(processor, event) == [{**event, **after}]


def test_an_event_that_matches_no_pattern_gets_the_tags_and_continues() -> None:
    found = run([grok("%{INT:n}", tags_on_match_failure=["no_match"])], {"message": "x"}, {"message": "1"})
    assert (found.events, found.tags, found.failed) == (
        [{"message": "x"}, {"message": "1", "n": "1"}],
        [["no_match"], None],
        [],
    )


def test_a_part_that_has_not_its_type_makes_only_its_event_a_dead_letter() -> None:
    found = run([grok("%{NOTSPACE:n:int}")], {"message": "x"}, {"message": "1"})
    assert (found.events, len(found.failed), found.failed[0]["field"]) == ([{"message": "1", "n": 1}], 1, "n")


def test_patterns_of_files_are_read_on_the_driver(tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_text("# mine\nCODE [A-Z]{2}[0-9]+\n")
    processor = grok("%{CODE:code}", patterns_directories=[str(tmp_path)])
    assert ran(processor, {"message": "see AB12"}) == [{"message": "see AB12", "code": "AB12"}]


def test_a_pattern_that_java_would_need_exponential_time_for_takes_linear_time() -> None:
    assert ran(grok("(?<a>(x+x+)+y)"), {"message": "x" * 20_000})[0].keys() == {"message"}


SAMPLES = {
    "IP": ["::1", "fe80::1%eth0", "2001:db8::ff00:42:8329", "255.0.0.1", "::ffff:10.0.0.1"],
    "IPORHOST": ["db-1.example.com", "10.0.0.1"],
    "HOSTPORT": ["example.com:80"],
    "NUMBER": ["-1.5", "12", "+3"],
    "BASE16NUM": ["0xFF"],
    "UUID": ["123e4567-e89b-12d3-a456-426614174000"],
    "MAC": ["00:1A:2b:3c:4D:5e", "00-1A-2b-3c-4D-5e", "001a.2b3c.4d5e"],
    "EMAILADDRESS": ["a.b+c@example.com"],
    "PATH": ["/var/log/x.log", r"C:\temp\x"],
    "URI": ["https://user:pw@example.com:8443/a/b?c=d&e=f", "ftp://x/y"],
    "URIPATHPARAM": ["/a/b?c=d"],
    "QS": ['"a \\" b"', "'x'"],
    "MONTH": ["Jan", "September"],
    "TIMESTAMP_ISO8601": ["2026-01-09T12:20:00.5Z", "2026-01-09 12:20:00,123", "2026-01-09T12:20+02:00"],
    "HTTPDATE": ["10/Oct/2000:13:55:36 -0700"],
    "SYSLOGTIMESTAMP": ["Jan  9 12:20:00", "Oct 12 01:02:03"],
    "DATESTAMP_RFC2822": ["Fri, 9 Jan 2026 12:20:00 +0000"],
    "DATESTAMP_RFC822": ["Fri Jan 9 2026 12:20:00 UTC"],
    "DATESTAMP_EVENTLOG": ["20260109122000"],
    "DATESTAMP": ["01/09/2026 12:20:00"],
    "LOGLEVEL": ["INFO", "warning", "Error"],
    "SYSLOGBASE": ["Jan  9 12:20:00 web-1 sshd[123]:"],
    "JAVASTACKTRACEPART": ["    at org.example.Main.run(Main.java:12)"],
    "TTY": ["/dev/pts/0"],
    "URN": ["urn:isbn:0451450523"],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_standard_pattern_takes_the_whole_of_its_samples(name: str) -> None:
    for text in SAMPLES[name]:
        assert compile_grok(f"^%{{{name}:whole}}$", PATTERNS).capture([text])[0] is not None, text


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_every_standard_pattern_is_a_regular_expression_of_known_names(name: str) -> None:
    compile_grok(f"%{{{name}}}", PATTERNS, is_named_only=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%{NUMBR:n}", "Did you mean NUMBER"),
        ("%{INT:n:short}", "the type short is unknown"),
        ("(?<!a)b", "Lookaround"),
        ("%{LOOP}", "in a circle"),
        ("(", "not a valid regular expression"),
    ],
)
def test_patterns_that_cannot_work_are_refused_with_the_fix(text: str, message: str) -> None:
    with pytest.raises(SettingsErrors, match=re.escape(message)):
        plugins(grok(text, pattern_definitions={"LOOP": "%{LOOP}"}))


def test_a_backslash_that_is_written_twice_before_a_bracket_is_a_warning() -> None:
    pipeline = {"source": {"http": {}}, "processor": [grok(r"a \\[%{DATA:w}\\]"), grok(r"a \[%{DATA:w}\]")]}
    text = json.dumps({"p": {**pipeline, "sink": [{"iceberg": {"table_identifier": "a.b"}}]}})
    [warning] = parse_text(text, PLUGINS).warnings
    assert warning.path == "p.processor[0].grok.match.message[0]"
