"""Settings and values that several of Data Prepper's examples share."""

from __future__ import annotations

import base64
import gzip
from typing import Any

NESTED = {"a": "1", "b": {"c": {"d": "2"}}, "l": [{"m": [{"n": "x", "v": "y"}, {"n": "z", "v": "w"}]}]}
PAIRS = [{"n": "a", "v": 1}, {"n": "b", "v": 2}, {"n": "b", "v": 3}]
MAP = {"k1": "v1", "k2": "v2"}


def entries(name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {name: {"entries": list(rules), **more}}


def packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode())).decode()


def date(key: str, *patterns: str, zone: str = "UTC", into: str = "UTC", **more: Any) -> dict[str, Any]:
    output = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
    match = [{"key": key, "patterns": list(patterns)}]
    return {
        "date": {
            "match": match, "destination": "@timestamp", "output_format": output, "source_timezone": zone,
            "destination_timezone": into, "locale": "en_US", **more,
        }
    }  # fmt: skip


UNSET = "/t != null and /@timestamp == null"
FORMATS = ["epoch_milli", "epoch_second", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "dd/MMM/yyyy:HH:mm:ss Z"]
NEW_YORK = [date("t", text, into="America/New_York", date_when=UNSET) for text in FORMATS]
LOGINS = [
    {
        "grok": {
            "match": {
                "message": [
                    r"%{SYSLOGTIMESTAMP:t} %{SYSLOGHOST:host} %{DATA:program}(?:\[%{POSINT:pid}\])?: %{GREEDYDATA:m}",
                    "%{TIMESTAMP_ISO8601:t} %{IP:host} %{DATA:program}: %{GREEDYDATA:m}",
                    "%{ROUTER_TIME:t}: %{DATA:facility}-%{INT:severity}-%{DATA:mnemonic}: %{GREEDYDATA:m}",
                ]
            },
            "pattern_definitions": {"ROUTER_TIME": "%{MONTH} %{MONTHDAY} %{TIME}"},
            "target_key": "parsed",
            "timeout_millis": 5000,
        }
    },
    {"grok": {"match": {"/parsed/m": ["User %{USERNAME:user} came from %{IP:ip}"]}, "target_key": "login"}},
]
KEY_VALUE = {
    "source": "s", "destination": "kv", "field_split_characters": "&", "value_split_characters": "=",
    "transform_key": "lowercase", "delete_key_regex": r"\s+", "delete_value_regex": r"^\s+|\s+$", "prefix": "p_",
    "skip_duplicate_values": True, "drop_keys_with_no_value": True,
}  # fmt: skip
REGEX = {
    "source": "s", "destination": None, "field_split_characters": "&&", "value_split_characters": None,
    "key_value_delimiter_regex": "==", "value_grouping": True, "remove_brackets": False,
    "overwrite_if_destination_exists": False, "non_match_value": None,
}  # fmt: skip
RECURSIVE = {
    "source": "s", "destination": "kv", "key_value_when": '/type == "nested"', "recursive": True,
    "field_split_characters": "&", "value_split_characters": "=", "value_grouping": True,
    "string_literal_character": '"', "include_keys": ["i", "j", "o"], "default_values": {"o": "?", "r": "eu"},
    "strict_grouping": True, "tags_on_failure": ["bad"],
}  # fmt: skip
SAMPLING = [
    {"drop_events": {"drop_when": "/rate > 0.4 and /id not in {1000, 2000}", "handle_failed_events": "skip"}},
    {"drop_events": {"drop_when": '/ip =~ "^192.168.*"', "handle_failed_events": "skip"}},
]
ANY = {"drop_when": '/level == "DEBUG" or /status >= 400 or /user == null', "handle_failed_events": "drop_silently"}
