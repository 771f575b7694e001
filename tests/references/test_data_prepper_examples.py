"""Each example of Data Prepper's pages about processors, with other words: what it does there it does here."""

from __future__ import annotations

from typing import Any

import pytest

from processors.chains import run
from references.example_settings import (
    ANY,
    KEY_VALUE,
    LOGINS,
    MAP,
    NESTED,
    NEW_YORK,
    PAIRS,
    RECURSIVE,
    REGEX,
    SAMPLING,
    date,
    entries,
    packed,
)

EXAMPLES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "add_entries: constants": (
        entries("add_entries", {"key": "n", "value": "Ann"}, {"key": "age", "value": 20}),
        [{"m": "hi"}],
        [{"m": "hi", "n": "Ann", "age": 20}],
    ),
    "add_entries: a format": (
        entries("add_entries", {"key": "date", "format": "${month}-${day}"}),
        [{"month": "Dec", "day": 1}],
        [{"month": "Dec", "day": 1, "date": "Dec-1"}],
    ),
    "add_entries: an expression": (
        entries("add_entries", {"key": "n", "value_expression": "length(/m)"}),
        [{"m": "hello"}],
        [{"m": "hello", "n": 5}],
    ),
    "add_entries: metadata, read by a later processor": (
        [
            entries("add_entries", {"metadata_key": "n", "value_expression": "length(/m)"}),
            entries("add_entries", {"key": "long", "value": True, "add_when": 'getMetadata("n") == "5"'}),
        ],
        [{"m": "hello"}],
        [{"m": "hello", "long": True}],
    ),
    "add_entries: a key of a field": (
        entries("add_entries", {"key": "${/name}", "value_expression": "/value"}),
        [{"name": "cpu", "value": 50}],
        [{"name": "cpu", "value": 50, "cpu": 50}],
    ),
    "add_entries: overwrite": (
        entries("add_entries", {"key": "m", "value": "bye", "overwrite_if_key_exists": True}), [{"m": 1}], [{"m": "bye"}]
    ),
    "add_entries: append": (
        entries("add_entries", {"key": "m", "value": "b", "append_if_key_exists": True}),
        [{"m": "a"}, {"m": ["a"]}, {}],
        [{"m": ["a", "b"]}, {"m": ["a", "b"]}, {"m": "b"}],
    ),
    "add_entries: all of them": (
        entries(
            "add_entries",
            {"key": "id", "format": "${app}-${env}"},
            {"key": "${/metric/name}", "value_expression": "/metric/value", "add_when": "/metric/name != null"},
            {"key": "severity", "value": "high", "add_when": '/level == "error"'},
            {"key": "env", "value": "prod", "overwrite_if_key_exists": True},
        ),
        [{"app": "s", "env": "dev", "level": "error"}, {"app": "s", "env": "e", "metric": {"name": "cpu", "value": 4}}],
        [
            {"app": "s", "env": "prod", "level": "error", "id": "s-dev", "severity": "high"},
            {"app": "s", "env": "prod", "metric": {"name": "cpu", "value": 4}, "id": "s-e", "cpu": 4},
        ],
    ),
    "convert_type: a text to a number": (
        {"convert_type": {"key": "status", "type": "integer"}}, [{"status": "200"}], [{"status": 200}]
    ),
    "copy_values: without overwriting": (
        entries("copy_values", {"from_key": "a", "to_key": "b"}, {"from_key": "a", "to_key": "c"}),
        [{"a": 1, "b": 2}],
        [{"a": 1, "b": 2, "c": 1}],
    ),
    "copy_values: overwriting": (
        entries("copy_values", {"from_key": "a", "to_key": "b", "overwrite_if_to_key_exists": True}),
        [{"a": 1, "b": 2}],
        [{"a": 1, "b": 1}],
    ),
    "copy_values: between lists": (
        entries("copy_values", {"from_key": "n", "to_key": "fruit"}, from_list="l", to_list="k"),
        [{"l": [{"n": "apple", "c": 1}, {"n": "pear"}]}],
        [{"l": [{"n": "apple", "c": 1}, {"n": "pear"}], "k": [{"fruit": "apple"}, {"fruit": "pear"}]}],
    ),
    "csv: names of columns": (
        {"csv": {"column_names": ["a", "b"]}}, [{"message": "1,2,3"}],
        [{"message": "1,2,3", "a": "1", "b": "2", "column3": "3"}],
    ),
    "csv: names of the event": (
        {"csv": {"column_names_source_key": "h"}}, [{"h": "a,b", "message": "1,2"}],
        [{"message": "1,2", "a": "1", "b": "2"}],
    ),
    "csv: without the source": (
        {"csv": {"column_names": ["a"], "delete_source": True}}, [{"message": "1,2"}], [{"a": "1", "column2": "2"}]
    ),
    "date: one of several formats": (
        NEW_YORK,
        [{"t": "1678902000123"}, {"t": "1678902000"}, {"t": "2023-03-15T14:30:00.456+01:00"},
         {"t": "15/Mar/2023:14:30:00 +0000"}, {"x": 1}],
        [{"t": "1678902000123", "@timestamp": "2023-03-15T13:40:00.123-04:00"},
         {"t": "1678902000", "@timestamp": "2023-03-15T13:40:00.000-04:00"},
         {"t": "2023-03-15T14:30:00.456+01:00", "@timestamp": "2023-03-15T09:30:00.456-04:00"},
         {"t": "15/Mar/2023:14:30:00 +0000", "@timestamp": "2023-03-15T10:30:00.000-04:00"}, {"x": 1}],
    ),
    "date: syslog without a year": (
        date("t", "MMM d HH:mm:ss", "MMM  d HH:mm:ss", "MMM dd HH:mm:ss", zone="America/Los_Angeles",
             origination_timestamp_to_metadata=True),
        [{"t": "Mar 15 14:30:45"}, {"t": "Mar  5 09:15:30"}, {"t": "never"}],
        [{"t": "Mar 15 14:30:45", "@timestamp": "2026-03-15T21:30:45.000Z"},
         {"t": "Mar  5 09:15:30", "@timestamp": "2026-03-05T17:15:30.000Z"}, {"t": "never"}],
    ),
    "date: the time of the batch": (
        {"date": {"from_time_received": True, "destination": "@timestamp"}}, [{}],
        [{"@timestamp": "2026-01-09T12:20:00.500Z"}],
    ),
    "decompress: then parse_json, without those that failed": (
        [{"decompress": {"keys": ["log", "more"], "tags_on_failure": ["failed"]}},
         {"parse_json": {"source": "log", "destination": "p", "parse_when": 'not hasTags("failed")'}}],
        [{"log": packed('{"m":1}'), "more": packed("x")}, {"log": "bm90", "more": packed("x")}],
        [{"log": '{"m":1}', "more": "x", "p": {"m": 1}}, {"log": "bm90", "more": "x"}],
    ),
    "delete_entries: keys": ({"delete_entries": {"with_keys": ["a"]}}, [{"a": 1, "b": 2}], [{"b": 2}]),
    "delete_entries: a pattern": (
        {"delete_entries": {"with_keys_regex": ["^tes.*"], "exclude_from_delete": ["test"]}},
        [{"test": 1, "test2": 2, "b": 3}], [{"test": 1, "b": 3}],
    ),
    "delete_entries: several": (
        entries("delete_entries", {"with_keys": ["a"]}, {"with_keys_regex": ["^b.*"], "exclude_from_delete": ["b"]}),
        [{"a": 1, "b": 2, "b2": 3}], [{"b": 2}],
    ),
    "dissect: the parts of a line": (
        {"dissect": {"map": {"log": "%{Day} %{Time} %{Type}: %{Text}"}}},
        [{"log": "07-25-2023 10:00:00 ERROR: it failed"}],
        [{"log": "07-25-2023 10:00:00 ERROR: it failed", "Day": "07-25-2023", "Time": "10:00:00", "Type": "ERROR",
          "Text": "it failed"}],
    ),
    "drop_events: a level": (
        {"drop_events": {"drop_when": '/level == "DEBUG"', "handle_failed_events": "drop"}},
        [{"level": "DEBUG"}, {"level": "INFO"}], [{"level": "INFO"}],
    ),
    "drop_events: several conditions": (
        {"drop_events": ANY},
        [{"level": "INFO", "status": 200, "user": "u"}, {"level": "DEBUG", "status": 200, "user": "u"},
         {"level": "INFO", "status": 404, "user": "u"}, {"level": "INFO", "status": 200}],
        [{"level": "INFO", "status": 200, "user": "u"}],
    ),
    "drop_events: samples and patterns": (
        SAMPLING,
        [{"id": 5, "rate": 0.9, "ip": "10.0.0.1"}, {"id": 1000, "rate": 0.9, "ip": "10.0.0.1"},
         {"id": 5, "rate": 0.3, "ip": "203.0.113.1"}, {"id": 5, "rate": 0.3, "ip": "192.168.1.1"}],
        [{"id": 1000, "rate": 0.9, "ip": "10.0.0.1"}, {"id": 5, "rate": 0.3, "ip": "203.0.113.1"}],
    ),
    "flatten: into a target": (
        {"flatten": {"source": "b", "target": "f"}}, [{"b": {"c": {"d": "2"}}}],
        [{"b": {"c": {"d": "2"}}, "f": {"c.d": "2"}}],
    ),
    "flatten: the whole event": (
        {"flatten": {"source": "", "target": "", "remove_processed_fields": True}}, [NESTED],
        [{"a": "1", "b.c.d": "2", "l[0].m[0].n": "x", "l[0].m[0].v": "y", "l[0].m[1].n": "z", "l[0].m[1].v": "w"}],
    ),
    "flatten: without some keys": (
        {"flatten": {"source": "", "target": "", "remove_processed_fields": True, "exclude_keys": ["b", "l"]}}, [NESTED],
        [NESTED],
    ),
    "flatten: without the positions in lists": (
        {"flatten": {"source": "", "target": "", "remove_processed_fields": True, "remove_list_indices": True}}, [NESTED],
        [{"a": "1", "b.c.d": "2", "l[].m[].n": ["x", "z"], "l[].m[].v": ["y", "w"]}],
    ),
    "flatten: another separator": (
        {"flatten": {"source": "b", "target": "", "flatten_separator": "_", "remove_processed_fields": True}},
        [{"a": 1, "b": {"c": {"d": "2"}}}], [{"a": 1, "c_d": "2"}],
    ),
    "grok: lines of a web server, and their time": (
        [{"grok": {"match": {"message": ["%{COMMONAPACHELOG}"]}, "target_key": "p"}},
         date("/p/timestamp", "dd/MMM/yyyy:HH:mm:ss Z"), {"delete_entries": {"with_keys": ["message"]}}],
        [{"message": '10.0.0.1 - ann [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326'}],
        [{"p": {"clientip": "10.0.0.1", "ident": "-", "auth": "ann", "timestamp": "10/Oct/2000:13:55:36 -0700",
                "verb": "GET", "request": "/a.gif", "httpversion": "1.0", "response": "200", "bytes": "2326"},
          "@timestamp": "2000-10-10T20:55:36.000Z"}],
    ),
    "grok: patterns of one's own": (
        {"grok": {"match": {"m": [r"%{TIMESTAMP_ISO8601:t} \[%{LEVEL:level}\] %{DATA:part} - %{GREEDYDATA:rest}"]},
                  "pattern_definitions": {"LEVEL": "(?:INFO|WARN)"}, "target_key": "p", "keep_empty_captures": False}},
        [{"m": "2025-10-13 14:30:45 [INFO] Users - logged in"}, {"m": "2025-10-13 14:30:45 [OTHER] Users - x"}],
        [{"m": "2025-10-13 14:30:45 [INFO] Users - logged in",
          "p": {"t": "2025-10-13 14:30:45", "level": "INFO", "part": "Users", "rest": "logged in"}},
         {"m": "2025-10-13 14:30:45 [OTHER] Users - x"}],
    ),
    "grok: several formats, then the rest of the line": (
        [*LOGINS, {"delete_entries": {"with_keys": ["message"]}}],
        [{"message": "Oct 13 14:30:45 r1 sshd[12]: User ann came from 10.0.0.5"},
         {"message": "2025-10-13T14:30:45Z 10.0.0.1 app: User bob came from 10.0.0.6"},
         {"message": "Oct 13 14:30:45: SYS-5-UP: started"}],
        [{"parsed": {"t": "Oct 13 14:30:45", "host": "r1", "program": "sshd", "pid": "12",
                     "m": "User ann came from 10.0.0.5"}, "login": {"user": "ann", "ip": "10.0.0.5"}},
         {"parsed": {"t": "2025-10-13T14:30:45Z", "host": "10.0.0.1", "program": "app",
                     "m": "User bob came from 10.0.0.6"}, "login": {"user": "bob", "ip": "10.0.0.6"}},
         {"parsed": {"t": "Oct 13 14:30:45", "facility": "SYS", "severity": "5", "mnemonic": "UP", "m": "started"}}],
    ),
    "key_value: pairs with a prefix": (
        {"key_value": KEY_VALUE},
        [{"s": "k1=v1&k1=v1&Key Two = value two & empty=&none"}, {"s": "ENV = prod & TEAM = core "}],
        [{"s": "k1=v1&k1=v1&Key Two = value two & empty=&none",
          "kv": {"p_k1": "v1", "p_keytwo": "value two", "p_empty": ""}},
         {"s": "ENV = prod & TEAM = core ", "kv": {"p_env": "prod", "p_team": "core"}}],
    ),
    "key_value: groups, delimiters of several characters": (
        {"key_value": REGEX},
        [{"s": "a==1&&b==[x=y,z=w]&&c==(i=t)&&u==http://a.b c", "a": "keep"}],
        [{"s": "a==1&&b==[x=y,z=w]&&c==(i=t)&&u==http://a.b c", "a": "keep", "b": "[x=y,z=w]", "c": "(i=t)",
          "u": "http://a.b c"}],
    ),
    "key_value: groups in groups": (
        {"key_value": RECURSIVE},
        [{"type": "nested", "s": "i=[a=1&b=(c=3&d=<e=5>)]&j=2&o=ann"},
         {"type": "nested", "s": 'i=[t="a=b + c=d"&x=1]&j=2'}, {"type": "other", "s": "i=1"}],
        [{"type": "nested", "s": "i=[a=1&b=(c=3&d=<e=5>)]&j=2&o=ann",
          "kv": {"i": {"a": "1", "b": {"c": "3", "d": {"e": "5"}}}, "j": "2", "o": "ann", "r": "eu"}},
         {"type": "nested", "s": 'i=[t="a=b + c=d"&x=1]&j=2',
          "kv": {"i": {"t": '"a=b + c=d"', "x": "1"}, "j": "2", "o": "?", "r": "eu"}}, {"type": "other", "s": "i=1"}],
    ),
    "list_to_map: flattened": (
        {"list_to_map": {"source": "l", "key": "n", "value_key": "v", "flatten": True}}, [{"l": PAIRS}],
        [{"l": PAIRS, "a": 1, "b": 2}],
    ),
    "list_to_map: the last of equal ones, in a target": (
        {"list_to_map": {"source": "l", "key": "n", "value_key": "v", "target": "t", "flatten": True,
                         "flattened_element": "last"}}, [{"l": PAIRS}], [{"l": PAIRS, "t": {"a": 1, "b": 3}}],
    ),
    "list_to_map: lists": (
        {"list_to_map": {"source": "l", "key": "n", "value_key": "v"}}, [{"l": PAIRS}],
        [{"l": PAIRS, "a": [1], "b": [2, 3]}],
    ),
    "list_to_map: whole objects": (
        {"list_to_map": {"source": "l", "key": "n", "flatten": True}}, [{"l": PAIRS}],
        [{"l": PAIRS, "a": PAIRS[0], "b": PAIRS[1]}],
    ),
    "list_to_map: by the keys of the objects": (
        {"list_to_map": {"source": "l", "use_source_key": True, "extract_value": True}}, [{"l": PAIRS}],
        [{"l": PAIRS, "n": ["a", "b", "b"], "v": [1, 2, 3]}],
    ),
    "lowercase_string, uppercase_string, trim_string": (
        [{"lowercase_string": {"with_keys": ["a"]}}, {"uppercase_string": {"with_keys": ["b"]}},
         {"trim_string": {"with_keys": ["c"]}}],
        [{"a": "Ab", "b": "Ab", "c": " Space Ship "}], [{"a": "ab", "b": "AB", "c": "Space Ship"}],
    ),
    "map_to_list: keys and values": (
        {"map_to_list": {"source": "m", "target": "l"}}, [{"m": MAP}],
        [{"m": MAP, "l": [{"key": "k1", "value": "v1"}, {"key": "k2", "value": "v2"}]}],
    ),
    "map_to_list: other names": (
        {"map_to_list": {"source": "m", "target": "l", "key_name": "n", "value_name": "d"}}, [{"m": MAP}],
        [{"m": MAP, "l": [{"n": "k1", "d": "v1"}, {"n": "k2", "d": "v2"}]}],
    ),
    "map_to_list: without some keys, which stay": (
        {"map_to_list": {"source": "m", "target": "l", "exclude_keys": ["k1"], "remove_processed_fields": True}},
        [{"m": MAP}], [{"m": {"k1": "v1"}, "l": [{"key": "k2", "value": "v2"}]}],
    ),
    "map_to_list: lists": (
        {"map_to_list": {"source": "m", "target": "l", "convert_field_to_list": True}}, [{"m": MAP}],
        [{"m": MAP, "l": [["k1", "v1"], ["k2", "v2"]]}],
    ),
    "map_to_list: the whole event": (
        {"map_to_list": {"source": "", "target": "l"}}, [{"k1": "v1"}], [{"k1": "v1", "l": [{"key": "k1", "value": "v1"}]}]
    ),
    "obfuscate: addresses, and a whole text": (
        [{"obfuscate": {"source": "log", "target": "safe", "patterns": [r"[A-Za-z0-9+_.-]+@([\w-]+\.)+[\w-]{2,4}"],
                        "action": {"mask": {"mask_character": "#", "mask_character_length": 6}}}},
         {"obfuscate": {"source": "phone"}}],
        [{"phone": "(555) 555", "log": "mail a@b.example"}],
        [{"phone": "***", "log": "mail a@b.example", "safe": "mail ######ple"}],
    ),
    "parse_ion: a struct": ({"parse_ion": {"source": "i"}}, [{"i": "{a: 1}"}], [{"i": "{a: 1}", "a": 1}]),
    "parse_json: into the root": (
        {"parse_json": None}, [{"message": '{"o": {"i": 1}}'}], [{"message": '{"o": {"i": 1}}', "o": {"i": 1}}]
    ),
    "parse_json: without the source": (
        {"parse_json": {"delete_source": True}}, [{"message": '{"o": {"i": 1}}'}], [{"o": {"i": 1}}]
    ),
    "parse_json: a pointer": (
        {"parse_json": {"pointer": "/o/i"}}, [{"message": '{"o": {"i": 1}}'}], [{"message": '{"o": {"i": 1}}', "i": 1}]
    ),
    "parse_xml: an element": (
        {"parse_xml": {"source": "x", "delete_source": True}}, [{"x": "<P><n>Ann</n><age>30</age></P>"}],
        [{"n": "Ann", "age": "30"}],
    ),
    "rename_keys: inside of objects": (
        entries("rename_keys", {"from_key": "m", "to_key": "msg"}, {"from_key": "user/id", "to_key": "user/user_id"},
                {"from_key": "http/response/code", "to_key": "http/status"},
                {"from_key": "env", "to_key": "meta/env", "overwrite_if_to_key_exists": True}),
        [{"m": 1, "user": {"id": 2}, "http": {"response": {"code": 200}}, "env": "p", "meta": {"env": "old"}}],
        [{"msg": 1, "user": {"user_id": 2}, "http": {"response": {}, "status": 200}, "meta": {"env": "p"}}],
    ),
    "rename_keys: one after another": (
        entries("rename_keys", {"from_key": "a", "to_key": "b"}, {"from_key": "b", "to_key": "c"}), [{"a": 1}], [{"c": 1}]
    ),
    "select_entries: keys and patterns": (
        {"select_entries": {"include_keys": ["a", "o/n"], "include_keys_regex": ["^ran.*"], "select_when": "/k == 1"}},
        [{"a": 1, "b": 2, "k": 1, "o": {"n": 3, "s": 4}, "random": 5}, {"b": 1, "k": 2}],
        [{"a": 1, "o": {"n": 3}, "random": 5}, {"b": 1, "k": 2}],
    ),
    "split_event: by a space": (
        {"split_event": {"field": "q", "delimiter": " "}}, [{"q": "open source", "x": 1}],
        [{"q": "open", "x": 1}, {"q": "source", "x": 1}],
    ),
    "split_string: delimiters and patterns": (
        entries("split_string", {"source": "a", "delimiter": ","}, {"source": "b", "delimiter": "|"},
                {"source": "c", "delimiter": "/"}, {"source": "d", "delimiter_regex": r";\s*"}),
        [{"a": "x,y", "b": "1|2", "c": "usr/bin", "d": "p; q ;r"}],
        [{"a": ["x", "y"], "b": ["1", "2"], "c": ["usr", "bin"], "d": ["p", "q ", "r"]}],
    ),
    "substitute_string: a pattern": (
        entries("substitute_string", {"source": "m", "from": ":", "to": "-"}), [{"m": "ab:cd:ab"}], [{"m": "ab-cd-ab"}]
    ),
    "translate: a map": (
        {"translate": {"mappings": [{"source": "s", "targets": [{"target": "t", "map": {"404": "Not Found"}}]}]}},
        [{"s": "404"}, {"s": "405"}], [{"s": "404", "t": "Not Found"}, {"s": "405"}],
    ),
    "translate: a default, and patterns of parts": (
        {"translate": {"mappings": [{"source": "s", "targets": [
            {"target": "t", "map": {"404": "Not Found"}, "default": "?", "type": "string", "translate_when": "/r != null"},
            {"target": "u", "regex": {"exact": False, "patterns": {"2[0-9]{2}": "Success", "5[0-9]{2}": "Error"}}}]}]}},
        [{"s": "200", "r": 1}, {"s": "404"}], [{"s": "200", "r": 1, "t": "?", "u": "Success"}, {"s": "404"}],
    ),
    "truncate: from a place, to a length": (
        entries("truncate", {"source_keys": ["a", "b"], "length": 5}, {"source_keys": ["i"], "length": 6, "start_at": 4},
                {"source_keys": ["l"], "start_at": 5}),
        [{"a": "hello,world", "b": "test message", "i": "new information", "l": "test log message"}],
        [{"a": "hello", "b": "test ", "i": "inform", "l": "log message"}],
    ),
    "truncate: on a condition": (
        entries("truncate", {"source_keys": ["m"], "length": 5, "start_at": 7, "truncate_when": "/id == 1"}),
        [{"m": "hello, world", "id": 1}, {"m": "hello, world", "id": 2}],
        [{"m": "world", "id": 1}, {"m": "hello, world", "id": 2}],
    ),
    "user_agent: a telephone": (
        {"user_agent": {"source": "ua", "target": "u", "exclude_original": True}},
        [{"ua": "Mozilla/5.0 (iPhone; CPU iPhone OS 13_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
                "Version/13.1.1 Mobile/15E148 Safari/604.1"}],
        [{"u": {"name": "Mobile Safari", "version": "13.1.1", "device": {"name": "iPhone"},
                "os": {"name": "iOS", "version": "13.5.1", "full": "iOS 13.5.1"}}}],
    ),
    "write_json: into a target, and in its place": (
        [{"write_json": {"source": "d", "target": "t"}}, {"write_json": {"source": "p"}}],
        [{"d": {"id": 1, "l": [{"q": 2}]}, "p": {"u": "x y"}}],
        [{"d": {"id": 1, "l": [{"q": 2}]}, "p": '{"u":"x y"}', "t": '{"id":1,"l":[{"q":2}]}'}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_the_pages_gives_what_it_gives_there(example: str) -> None:
    processors, events, after = EXAMPLES[example]
    outcome = run(processors if isinstance(processors, list) else [processors], *events)
    assert [row["reason"] for row in outcome.failed] == []
    kept = [{key: value for key, value in event.items() if key != "ua"} for event in outcome.events]
    assert kept == after
