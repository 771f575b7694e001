"""Random chains of processors on random events: nothing is lost, events do not depend on others, parts are replayed alone."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pyarrow as pa
import pytest

from processors.chains import run

PROCESSORS: list[dict[str, Any]] = [
    {"add_entries": {"entries": [{"key": "a/b", "value": 1, "append_if_key_exists": True}]}},
    {"add_entries": {"entries": [{"key": "x", "format": "${a}-${m}", "overwrite_if_key_exists": True}]}},
    {"add_entries": {"entries": [{"key": "${/m}", "value_expression": "/a", "add_when": "/m != null"}]}},
    {"add_entries": {"entries": [{"key": "n", "value_expression": "length(/m)"}]}},
    {"copy_values": {"entries": [{"from_key": "a", "to_key": "l/0"}]}},
    {"copy_values": {"from_list": "l", "to_list": "k", "entries": [{"from_key": "a", "to_key": "b"}]}},
    {"rename_keys": {"entries": [{"from_key": "a/b", "to_key": "m"}, {"from_key_regex": "l.*", "to_key": "a/l"}]}},
    {"delete_entries": {"with_keys": ["a/0", "o/a"]}},
    {"delete_entries": {"with_keys_regex": ["[lo]"]}},
    {"select_entries": {"include_keys": ["a", "m", "l/0", "o/a"]}},
    {"convert_type": {"keys": ["a", "m", "l"], "type": "double"}},
    {"convert_type": {"keys": ["a", "o/a"], "type": "string", "tags_on_failure": ["t"]}},
    {"convert_type": {"keys": ["a"], "type": "big_decimal", "scale": 2}},
    {"lowercase_string": {"with_keys": ["m", "o/a"]}},
    {"trim_string": {"with_keys": ["m"]}},
    {"string_converter": {}},
    {"substitute_string": {"entries": [{"source": "m", "from": "(.)x", "to": "$1"}]}},
    {"split_string": {"entries": [{"source": "m", "delimiter": " "}]}},
    {"truncate": {"entries": [{"length": 2, "recursive": True}]}},
    {"drop_events": {"drop_when": "/a > 3"}},
    {"drop_events": {"drop_when": 'hasTags("t")'}},
    {"split_event": {"field": "m", "delimiter": " "}},
    {"split_event": {"field": "l"}},
    {"split_event": {"field": "o/a"}},
    {"grok": {"match": {"m": ["%{INT:a:int}", "%{WORD:o/a} %{GREEDYDATA:m}"]}, "tags_on_match_failure": ["g"]}},
    {"date": {"match": [{"key": "a", "patterns": ["epoch_second", "yyyy"]}], "destination": "o/t"}},
    {"dissect": {"map": {"m": "%{a} %{+b} %{&a}"}}},
    {"key_value": {"source": "m", "destination": None, "value_grouping": True, "field_split_characters": " "}},
    {"parse_json": {"source": "m"}},
    {"parse_json": {"source": "m", "tags_on_failure": ["j"], "pointer": "/a", "destination": "o"}},
    {"csv": {"source": "m", "column_names": ["a"]}},
    {"flatten": {"source": "", "target": "", "remove_processed_fields": True}},
    {"flatten": {"source": "o", "target": "a", "remove_list_indices": True}},
    {"map_to_list": {"source": "o", "target": "l"}},
    {"list_to_map": {"source": "l", "key": "a", "target": "o"}},
    {"obfuscate": {"source": "m", "patterns": ["%{BASE_NUMBER}"], "tags_on_match_failure": ["o"]}},
    {
        "sql": {
            "fields": {"a": "bigint", "m": "varchar"},
            "select": "SELECT a+1 AS a FROM event WHERE m IS NOT NULL OR a IS NULL",
        }
    },
    {"sql": {"fields": {"l": "json[]"}, "select": "SELECT unnest(l) AS u FROM event", "keep_fields": False}},
]
TEXTS = [
    "",
    "x",
    "1",
    "a b",
    "a=1 b=[c d]",
    '{"a":1}',
    ' {"a":{"b":2}} ',
    "é\0\U0001f600",
    "2026",
    "1678902000",
    '"q", 2',
]
NAMES = ["a", "b", "m", "l", "o", "a/b", "x~y", ""]
ROUNDS = 2 * int(os.environ.get("CALVE_EXAMPLES", "1"))


def value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.randrange(11 if depth < 3 else 7)
    if kind < 2:
        return chance.choice([None, True, False])
    if kind < 4:
        return chance.choice([-5, 0, 3, 9, 1.5, 12345678901234567890, -0.0, 1e300])
    if kind < 7:
        return chance.choice(TEXTS)
    if kind < 9:
        return [value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return {chance.choice(NAMES): value(chance, depth + 1) for _ in range(chance.randrange(4))}


def event(chance: random.Random) -> str:
    names = chance.sample(["a", "m", "l", "o", "a/b", "z", ""], chance.randrange(6))
    text = json.dumps({name: value(chance) for name in names})
    kind = chance.randrange(20)
    if kind == 0:
        return text[:-1]
    if kind == 1:
        return text.replace("{", '{"a":1,"a":"\\ud800",', 1).replace(",}", "}")
    return " " + text.replace(",", " ,\n") if kind == 2 else text


@pytest.mark.parametrize("seed", range(10))
def test_random_processors_lose_nothing_and_treat_each_event_alone(seed: int) -> None:
    for number in range(ROUNDS):
        chance = random.Random(seed * 1000 + number)
        chosen = [chance.choice(PROCESSORS) for _ in range(chance.randrange(1, 5))]
        events = [event(chance) for _ in range(chance.randrange(1, 20))]
        found = run(chosen, *events)
        processed = found.processed
        assert len(events) + processed.added == len(found.texts) + len(found.failed) + processed.dropped
        assert [text for one in events for text in run(chosen, one).texts] == found.texts
        if "event_part" not in processed.rows.column_names:
            continue
        for row in processed.rows.to_pylist():
            if row["event_part"]:
                again = run(chosen, row["_original"], event_part=pa.array([row["event_part"]]))
                assert again.texts == [row["event"].decode()]
